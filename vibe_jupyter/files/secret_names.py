"""Names of files that usually contain credentials: those in `secret_files.txt`, and the user's own."""

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

# Suffixes of copies made by editors, merges and people.
COPY_ENDS: Final = (
    *("~", ".bak", ".backup", ".old", ".orig", ".save", ".copy", ".tmp", ".rej", ".swp", ".swo", ".swn", ".swx"),
    *("#", ".1", ".2"),
)
COPY_STARTS: Final = (".#", "#", ".")  # prefixes of editors' lock, autosave and swap files
MOST_OWN: Final = 500  # patterns in the user's settings
LONGEST_OWN: Final = 200  # characters per pattern
SHORTEST_OWN: Final = 2  # characters per pattern besides its stars

_SHIPPED: Final = Path(__file__).with_name("secret_files.txt")
_LAYERS: Final = 3  # suffixes removed from a name to find the original of a copy
_SYNTAX: Final = re.compile(r"[?\[\]{}\\\x00-\x1f!]")


class CredentialNames:
    """Name patterns, indexed to match many names quickly. All names must be case-folded already."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Index the patterns.

        Args:
            patterns: Lines in the format of `secret_files.txt`, without comments.
        """
        listed = list(dict.fromkeys(patterns))
        self.folders = tuple(one[:-1] for one in listed if one.endswith("/"))
        self.files = tuple(one for one in listed if "/" not in one and not one.startswith("!"))
        self.in_folders = tuple(one for one in listed if "/" in one[:-1])
        self.plain = tuple(one[1:] for one in listed if one.startswith("!"))
        self._folders = frozenset(self.folders)
        self._files = _Globs(self.files)
        pairs = [one.rsplit("/", 1) for one in self.in_folders]
        self._in_folders = {folder: _Globs([name for one, name in pairs if one == folder]) for folder, _ in pairs}
        self._plain = _Globs(self.plain)

    def is_folder(self, name: str) -> bool:
        """Return whether everything in folders with this name is protected."""
        return name in self._folders

    def is_file(self, name: str, folder: str = "") -> bool:
        """Return whether a file is protected, even as a copy made by an editor or a person.

        Args:
            name: Name of the file.
            folder: Name of the folder that contains it, if known.
        """
        here = self._in_folders.get(folder)
        names = list(_originals(name)) if name.startswith(COPY_STARTS) or name.endswith(COPY_ENDS) else [name]
        for one in names:
            if self._files.match(one) or (here is not None and here.match(one)):
                return not any(map(self._plain.match, names))
        return False


class _Globs:
    """Globs indexed by their first or last character: a scan tries every name of a project, and hardly any matches."""

    def __init__(self, globs: Collection[str]) -> None:
        self._exact = frozenset(one for one in globs if "*" not in one)
        self._starts: dict[str, tuple[str, ...]] = {}
        self._ends: dict[str, tuple[str, ...]] = {}
        self._others: dict[str, tuple[str, ...]] = {}
        for one in sorted(set(globs) - self._exact):
            stars = one.count("*")
            if stars == 1 and one.endswith("*"):
                self._starts[one[0]] = (*self._starts.get(one[0], ()), one[:-1])
            elif stars == 1 and one.startswith("*"):
                self._ends[one[-1]] = (*self._ends.get(one[-1], ()), one[1:])
            else:
                self._others[one[-1]] = (*self._others.get(one[-1], ()), one)

    def match(self, name: str) -> bool:
        if name in self._exact:
            return True
        first, last = name[:1], name[-1:]
        return (
            (last in self._ends and name.endswith(self._ends[last]))
            or (first in self._starts and name.startswith(self._starts[first]))
            or any(fnmatch.fnmatchcase(name, one) for one in (*self._others.get(last, ()), *self._others.get("*", ())))
        )


def shipped_patterns() -> list[str]:
    """Read the patterns from `secret_files.txt`."""
    lines = map(str.strip, _SHIPPED.read_text(encoding="utf-8").splitlines())
    patterns = [line for line in lines if line and not line.startswith("#")]
    # Expanded to two names, which match faster than a star.
    return [line.replace("y*ml", end) for line in patterns for end in (("yml", "yaml") if "y*ml" in line else ("",))]


@cache
def secret_names(own: tuple[str, ...] = ()) -> CredentialNames:
    """Return the shipped names combined with the user's."""
    return CredentialNames((*shipped_patterns(), *(pattern.casefold() for pattern in own)))


def check_pattern(pattern: str) -> str:
    """Return an error message for a pattern in the user's settings, or ""."""
    folder, _, name = pattern.removesuffix("/").rpartition("/")
    if _SYNTAX.search(pattern):
        return "holds a character that has a meaning elsewhere; only * stands for other text"
    if "/" in folder or pattern.startswith("/") or not name:
        return "is no name; write name, folder/name or folder/"
    if "*" in folder or (pattern.endswith("/") and ("*" in name or folder)):
        return "has a * or a / in the name of its folder; write one folder without *"
    if len(name.replace("*", "").strip(". ")) < SHORTEST_OWN:
        return "would fit nearly every file; write more of the name"
    return f"is longer than {LONGEST_OWN} characters" if len(pattern) > LONGEST_OWN else ""


def _originals(name: str) -> Iterator[str]:
    """Yield the name, and the names it may be a copy of."""
    for _ in range(_LAYERS + 1):
        yield name
        for start in COPY_STARTS:
            if name.startswith(start):
                yield name[len(start) :]
        end = next((end for end in COPY_ENDS if name.endswith(end) and name != end), "")
        if not end:
            return
        name = name[: -len(end)]
