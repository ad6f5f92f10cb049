"""What a search looks for, where, and which files it leaves out, by the rules of ripgrep.

A library that says whether git ignores a path also looks at the folders above; a search has already left those out, or
was told by name to look into them.
"""

import fnmatch
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.files.protected import is_secret_name

DEFAULT_FOLDERS: Final = (
    ".venv",
    "venv",
    ".env",
    "env",
    "node_modules",
    ".git",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".ipynb_checkpoints",
    ".tox",
    ".nox",
    "htmlcov",
    "dist",
    "build",
    ".idea",
    ".vscode",
)
"""Folders left out by default."""
DEFAULT_FILES: Final = ("*.egg-info", "*.pyc", "*.pyo", "*.pyd", ".coverage", ".DS_Store", "Thumbs.db")
"""Glob patterns of names left out by default."""
WIDE_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
"""What a file begins with that is decoded from UTF-16."""
OWN_IGNORE_FILE: Final = ".vibeignore"
"""In the project folder: patterns as in ``.gitignore``."""

# Any file of an earlier kind beats every file of a later one, wherever they stand.
_KINDS: Final = (".rgignore", ".ignore", ".gitignore")

_CLASS = re.compile(r"\[([!^]?)(\]?(?:\\.|[^\]\\])*)\]")


class SearchQuery(NamedTuple):
    """One search. The engine runs in the project folder."""

    pattern: str
    target: str
    """Folder or file, absolute: ripgrep heeds the ignore files above a folder fully only so."""
    use_default_ignore: bool = True
    """Whether hidden files, ignore files and the default exclusions are heeded."""
    most: int = 1_000
    """Matching lines of one file that are looked for."""


class SearchLimits(NamedTuple):
    """What one search may give and take."""

    matches: int
    bytes: int
    """Of all matching lines together."""
    seconds: float


class SearchMatch(NamedTuple):
    """One matching line."""

    path: str
    line: int
    """From 1."""
    text: str

    @property
    def size(self) -> int:
        """Bytes of the line it is shown on."""
        return len(f"{self.path}:{self.line}:{self.text}\n".encode("utf-8", "replace"))


class SearchResult(NamedTuple):
    """What a search gave."""

    matches: tuple[SearchMatch, ...]
    was_truncated: bool


class IgnorePattern(NamedTuple):
    """One line."""

    regex: re.Pattern[str]
    """Of the whole path, relative to the file's folder."""
    takes_in: bool
    """Whether it begins with ``!``."""
    folders_only: bool


class IgnoreFile(NamedTuple):
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


class IgnoreRules(NamedTuple):
    """The ignore files of one folder, and of the folders above it."""

    files: tuple[IgnoreFile | None, ...]
    """One for each of `_KINDS`; None where there is none."""
    is_repository: bool
    above: "IgnoreRules | None" = None

    def ignores(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether to leave out; False where a rule takes it in; None where no rule speaks of it."""
        for kind in range(len(_KINDS)):
            verdict = self._rule_verdict(kind, path, is_folder)
            if verdict is not None:
                return verdict
        return None

    def _rule_verdict(self, kind: int, path: str, is_folder: bool) -> bool | None:
        rules: IgnoreRules | None = self
        while rules is not None:
            verdict = _verdict_of(rules.files[kind], path, is_folder)
            if verdict is not None:
                return verdict
            # What git ignores ends at its repository.
            rules = None if _KINDS[kind] == ".gitignore" and rules.is_repository else rules.above
        return None


def read_rules(folder: str, above: IgnoreRules | None) -> IgnoreRules:
    """The rules in `folder`."""
    files = tuple(read_ignore_file(Path(folder, name)) for name in _KINDS)
    return IgnoreRules(files, os.path.exists(f"{folder}/.git"), above)


def rules_above(folder: str) -> IgnoreRules | None:
    """The rules of all folders above one, the nearest last."""
    rules: IgnoreRules | None = None
    for parent in reversed(Path(folder).parents):
        rules = read_rules(str(parent), rules)
    return rules


class Exclusions:
    """What is left out besides ignore files."""

    def __init__(self, query: SearchQuery) -> None:
        self._heeds = query.use_default_ignore

    def excludes(self, path: str, rules: IgnoreRules | None, *, is_folder: bool) -> bool:
        """Whether the entry is not searched."""
        name = os.path.basename(path)
        if is_secret_name(name, os.path.basename(os.path.dirname(path))):
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
        regex = re.compile(_glob_regex(glob.removeprefix("/")), re.DOTALL)
    except re.error:
        return None
    return IgnorePattern(regex, takes_in, folders_only)


def _glob_regex(glob: str) -> str:
    pieces: list[str] = []
    place = 0
    while place < len(glob):
        piece, place = _glob_piece(glob, place)
        pieces.append(piece)
    return "".join(pieces)


def _glob_piece(glob: str, place: int) -> tuple[str, int]:
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
