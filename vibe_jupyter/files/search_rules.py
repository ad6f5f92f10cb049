"""Search queries and results, and ripgrep's rules for excluded files.

Libraries that implement gitignore also check a path's parent folders. A search has already excluded those, or was
explicitly asked to search them.
"""

import fnmatch
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.files.protected import is_secret_name

# Folders excluded by default.
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
# Glob patterns of names excluded by default.
DEFAULT_FILES: Final = ("*.egg-info", "*.pyc", "*.pyo", "*.pyd", ".coverage", ".DS_Store", "Thumbs.db")
# Byte order marks of files that are decoded from UTF-16.
WIDE_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
OWN_IGNORE_FILE: Final = ".vibeignore"  # in the project folder, with gitignore patterns

# A file of an earlier kind overrides all files of later kinds, whichever folder they are in.
_KINDS: Final = (".rgignore", ".ignore", ".gitignore")

_CLASS = re.compile(r"\[([!^]?)(\]?(?:\\.|[^\]\\])*)\]")


class SearchQuery(NamedTuple):
    """A search query. The engine runs in the project folder."""

    pattern: str
    target: str  # absolute: otherwise, ripgrep doesn't fully apply ignore files of parent folders
    use_default_ignore: bool = True  # whether to apply ignore files, default exclusions, and skip hidden files
    most: int = 1_000  # maximum number of matching lines per file


class SearchLimits(NamedTuple):
    """Limits of one search."""

    matches: int
    bytes: int  # total of all matching lines
    seconds: float


class SearchMatch(NamedTuple):
    """A matching line."""

    path: str
    line: int  # from 1
    text: str

    @property
    def size(self) -> int:
        """Bytes of the line as displayed."""
        return len(f"{self.path}:{self.line}:{self.text}\n".encode("utf-8", "replace"))


class SearchResult(NamedTuple):
    """Matches of a search."""

    matches: tuple[SearchMatch, ...]
    was_truncated: bool


class IgnorePattern(NamedTuple):
    """A pattern from an ignore file."""

    regex: re.Pattern[str]  # matches the whole path, relative to the file's folder
    takes_in: bool  # True for negated patterns (``!``)
    folders_only: bool


class IgnoreFile(NamedTuple):
    """Patterns of one ignore file."""

    folder: str
    patterns: tuple[IgnorePattern, ...]  # in reverse order, since the last match decides

    def ignores(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether `path`, relative to the folder, is ignored, or None if no pattern matches."""
        for pattern in self.patterns:
            if (is_folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return not pattern.takes_in
        return None


class IgnoreRules(NamedTuple):
    """Ignore files of a folder, linked to those of its parents."""

    files: tuple[IgnoreFile | None, ...]  # one per `_KINDS`, or None if missing
    is_repository: bool
    above: "IgnoreRules | None" = None

    def ignores(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether `path` is ignored, False if re-included, or None if no rule matches."""
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
            # A .gitignore applies only within its repository.
            rules = None if _KINDS[kind] == ".gitignore" and rules.is_repository else rules.above
        return None


def read_rules(folder: str, above: IgnoreRules | None) -> IgnoreRules:
    """Read a folder's ignore files."""
    files = tuple(read_ignore_file(Path(folder, name)) for name in _KINDS)
    return IgnoreRules(files, os.path.exists(f"{folder}/.git"), above)


def rules_above(folder: str) -> IgnoreRules | None:
    """Read the ignore files of all parent folders. The result is the immediate parent's."""
    rules: IgnoreRules | None = None
    for parent in reversed(Path(folder).parents):
        rules = read_rules(str(parent), rules)
    return rules


class Exclusions:
    """Exclusion rules of a query: protected names, defaults, hidden files and ignore files."""

    def __init__(self, query: SearchQuery) -> None:
        self._heeds = query.use_default_ignore

    def excludes(self, path: str, rules: IgnoreRules | None, *, is_folder: bool) -> bool:
        """Return whether to skip the entry."""
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
    """Parse an ignore file. Returns None if it doesn't exist."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    patterns = [pattern for line in lines if (pattern := parse_pattern(line)) is not None]
    return IgnoreFile(str(file.parent), tuple(reversed(patterns)))


def parse_pattern(line: str) -> IgnorePattern | None:
    """Parse a line. Returns None for blank lines, comments and invalid patterns."""
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
    """Translate the glob element at `place`. Returns its regular expression and the next position."""
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
