"""The patterns of one ignore file, matched as ripgrep matches them: each entry by itself, never by a folder above it.

A library that says whether git ignores a path also looks at the folders above; a search has already left those out, or
was told by name to look into them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_CLASS = re.compile(r"\[([!^]?)(\]?(?:\\.|[^\]\\])*)\]")


@dataclass(frozen=True)
class IgnorePattern:
    """One line."""

    regex: re.Pattern[str]
    """Of the whole path, relative to the file's folder."""
    takes_in: bool
    """Whether it begins with ``!``."""
    folders_only: bool


@dataclass(frozen=True)
class IgnoreFile:
    """All lines of one file."""

    folder: str
    patterns: tuple[IgnorePattern, ...]
    """The last first, since the last that matches counts."""

    def ignores(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether the entry at `path`, relative to the folder, is left out; None where no line speaks of it."""
        for pattern in self.patterns:
            if (is_folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return not pattern.takes_in
        return None


def read_ignore_file(file: Path) -> IgnoreFile | None:
    """The file's patterns; None when there is no such file."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    patterns = [pattern for line in lines if (pattern := parse_pattern(line)) is not None]
    return IgnoreFile(str(file.parent), tuple(reversed(patterns)))


def parse_pattern(line: str) -> IgnorePattern | None:
    """One line; None for blank lines, comments and what is no pattern."""
    glob = line if line.endswith("\\ ") else line.rstrip()
    if not glob or glob.startswith("#"):
        return None
    takes_in = glob.startswith("!")
    glob = glob[1:] if takes_in else glob
    folders_only = glob.endswith("/")
    glob = glob[:-1] if folders_only else glob
    if "/" not in glob:
        glob = f"**/{glob}"
    try:
        regex = re.compile(_regex(glob.removeprefix("/")), re.DOTALL)
    except re.error:
        return None
    return IgnorePattern(regex, takes_in, folders_only)


def _regex(glob: str) -> str:
    pieces: list[str] = []
    place = 0
    while place < len(glob):
        piece, place = _piece(glob, place)
        pieces.append(piece)
    return "".join(pieces)


def _piece(glob: str, place: int) -> tuple[str, int]:
    """The regular expression of what stands at `place`, and the next place."""
    at_start = place == 0 or glob[place - 1] == "/"
    if at_start and glob.startswith("**/", place):
        return "(?:.*/)?", place + 3
    if at_start and glob[place:] == "**":
        return ".+", place + 2
    letter = glob[place]
    if letter == "*":
        return "[^/]*", place + 1
    if letter == "?":
        return "[^/]", place + 1
    if letter == "\\" and place + 1 < len(glob):
        return re.escape(glob[place + 1]), place + 2
    found = _CLASS.match(glob, place) if letter == "[" else None
    if found is None:
        return re.escape(letter), place + 1
    inner = found[2].replace("[", "\\[")
    inner = f"\\{inner}" if inner.startswith(("]", "^")) else inner
    return f"(?!/)[{'^' if found[1] else ''}{inner}]", found.end()
