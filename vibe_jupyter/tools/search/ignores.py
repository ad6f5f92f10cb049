"""Which files a search leaves out, by the rules of ripgrep: exclusions, then ignore files, then hidden names."""

import fnmatch
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.tools.protected import is_secret_name
from vibe_jupyter.tools.search.ignore_file import IgnoreFile, read_ignore_file
from vibe_jupyter.tools.search.query import DEFAULT_FILES, DEFAULT_FOLDERS, Query

# Any file of an earlier kind beats every file of a later one, wherever they stand.
_KINDS: Final = (".rgignore", ".ignore", ".gitignore")


@dataclass(frozen=True)
class Rules:
    """The ignore files of one folder, and of the folders above it."""

    files: tuple[IgnoreFile | None, ...]
    """One for each of `_KINDS`; None where there is none."""
    is_repository: bool
    above: "Rules | None" = None

    def ignores(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether to leave out; False where a rule takes it in; None where no rule speaks of it."""
        for kind in range(len(_KINDS)):
            verdict = self._verdict(kind, path, is_folder)
            if verdict is not None:
                return verdict
        return None

    def _verdict(self, kind: int, path: str, is_folder: bool) -> bool | None:
        rules: Rules | None = self
        while rules is not None:
            verdict = _verdict_of(rules.files[kind], path, is_folder)
            if verdict is not None:
                return verdict
            # What git ignores ends at its repository.
            rules = None if _KINDS[kind] == ".gitignore" and rules.is_repository else rules.above
        return None


def rules_of(folder: str, above: Rules | None) -> Rules:
    """The rules in `folder`."""
    files = tuple(read_ignore_file(Path(folder, name)) for name in _KINDS)
    return Rules(files, Path(folder, ".git").exists(), above)


def rules_above(folder: str) -> Rules | None:
    """The rules of all folders above one, the nearest last."""
    rules: Rules | None = None
    for parent in reversed(Path(folder).parents):
        rules = rules_of(str(parent), rules)
    return rules


class Exclusions:
    """What is left out besides ignore files."""

    def __init__(self, query: Query) -> None:
        self._heeds = query.use_default_ignore

    def excludes(self, path: str, rules: Rules | None, *, is_folder: bool) -> bool:
        """Whether the entry is not searched."""
        name = os.path.basename(path)
        if is_secret_name(name):
            return True
        if not self._heeds:
            return False
        if _is_default_exclusion(name, is_folder):
            return True
        verdict = rules.ignores(path, is_folder=is_folder) if rules is not None else None
        return name.startswith(".") if verdict is None else verdict


def _is_default_exclusion(name: str, is_folder: bool) -> bool:
    return (is_folder and name in DEFAULT_FOLDERS) or any(fnmatch.fnmatchcase(name, one) for one in DEFAULT_FILES)


def _verdict_of(file: IgnoreFile | None, path: str, is_folder: bool) -> bool | None:
    return None if file is None else file.ignores(os.path.relpath(path, file.folder), is_folder=is_folder)
