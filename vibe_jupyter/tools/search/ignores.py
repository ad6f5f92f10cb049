"""Which files a search leaves out, by the rules of ripgrep: exclusions, then ignore files, then hidden names."""

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pathspec

from vibe_jupyter.tools.protected import is_secret_name
from vibe_jupyter.tools.search.query import DEFAULT_FILES, DEFAULT_FOLDERS, Query

# Any file of an earlier kind beats every file of a later one, wherever they stand.
_KINDS: Final = (".rgignore", ".ignore", ".gitignore")


@dataclass(frozen=True)
class Rules:
    """The ignore files of one folder, and of the folders above it."""

    folder: str
    files: tuple[pathspec.GitIgnoreSpec | None, ...]
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
            spec = rules.files[kind]
            verdict = None if spec is None else _matches(spec, os.path.relpath(path, rules.folder), is_folder)
            if verdict is not None:
                return verdict
            # What git ignores ends at its repository.
            rules = None if _KINDS[kind] == ".gitignore" and rules.is_repository else rules.above
        return None


def rules_of(folder: str, above: Rules | None, *, start: str | None = None) -> Rules:
    """The rules in `folder`; with `start`, without those that leave out the whole folder that is searched."""
    specs = tuple(_spec(Path(folder, name), start) for name in _KINDS)
    return Rules(folder, specs, Path(folder, ".git").exists(), above)


def rules_above(folder: str) -> Rules | None:
    """The rules of all folders above one, the nearest last."""
    rules: Rules | None = None
    for parent in reversed(Path(folder).parents):
        rules = rules_of(str(parent), rules, start=folder)
    return rules


class Exclusions:
    """What is left out besides ignore files."""

    def __init__(self, query: Query, root: str) -> None:
        self._heeds = query.use_default_ignore
        self._root = root
        own = Path(query.own_ignore_file) if query.own_ignore_file else None
        self._own = _spec(own, None) if own is not None else None

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
        if verdict is None and self._own is not None:
            verdict = _matches(self._own, os.path.relpath(path, self._root), is_folder)
        return name.startswith(".") if verdict is None else verdict


def _is_default_exclusion(name: str, is_folder: bool) -> bool:
    return (is_folder and name in DEFAULT_FOLDERS) or any(fnmatch.fnmatchcase(name, one) for one in DEFAULT_FILES)


def _spec(file: Path, start: str | None) -> pathspec.GitIgnoreSpec | None:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    usable = [line for line in lines if _is_pattern(line)]
    if start is not None:
        # Who names a folder wants to see into it, so what ignores the folder itself does not count.
        inner = os.path.relpath(start, file.parent)
        usable = [line for line in usable if line.startswith("!") or not _matches(_parsed([line]), inner, True)]
    return _parsed(usable) if usable else None


def _is_pattern(line: str) -> bool:
    try:
        return bool(line.strip()) and len(_parsed([line]).patterns) > 0
    except ValueError:
        return False


def _parsed(lines: Sequence[str]) -> pathspec.GitIgnoreSpec:
    return pathspec.GitIgnoreSpec.from_lines(lines)


def _matches(spec: pathspec.GitIgnoreSpec, path: str, is_folder: bool) -> bool | None:
    return spec.check_file(path + "/" if is_folder else path).include
