"""Folder tree of limited size. Skips what a search would skip."""

import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.files.search_rules import Exclusions, IgnoreRules, SearchQuery, read_rules, rules_above

LARGE: Final = "\nThe project is large, so this tree is not whole: look further with grep and bash."
_ENTRIES: Final = 20_000  # entries read per folder
_INDENT: Final = "  "


class TreeBounds(NamedTuple):
    """Limits of a tree's depth, size and reading time."""

    depth: int  # levels of nested folders
    files: int
    folders: int  # per folder
    characters: int  # of the whole tree, including the note on truncation
    kept_free: int  # characters reserved for the note on truncation
    seconds: float


class FolderTree(NamedTuple):
    """A folder tree as indented text, possibly truncated."""

    text: str
    large_warning: str  # "" unless the tree was truncated


def read_tree(folder: Path, bounds: TreeBounds) -> FolderTree:
    """Read the tree below a folder. Doesn't follow links."""
    walk = _Walk(bounds, time.monotonic() + bounds.seconds)
    lines: list[str] = []
    room = max(0, bounds.characters - bounds.kept_free)
    for line in walk.lines(folder, rules_above(str(folder)), 1):
        room -= len(line) + 1
        if room < 0:
            walk.cut = f"{bounds.characters:,} characters"
            break
        lines.append(line)
    text = "\n".join(lines)
    if not walk.cut:
        return FolderTree(text, "")
    notice = f"{chr(10) * bool(text)}[cut: the limit of {walk.cut} was reached]"
    return FolderTree(text + notice[: max(0, bounds.characters - len(text))], LARGE)


class _Walk:
    def __init__(self, bounds: TreeBounds, end: float) -> None:
        self.cut = ""  # the limit that ended the walk, or ""
        self._bounds = bounds
        self._end = end
        self._files = 0
        self._exclusions = Exclusions(SearchQuery("", ""))

    def lines(self, folder: Path, above: IgnoreRules | None, depth: int) -> Iterator[str]:
        """Yield a folder's contents: subfolders, each with its contents, then files."""
        rules = read_rules(str(folder), above)
        folders, files = self._entries(folder, rules)
        indent = _INDENT * (depth - 1)
        most = self._bounds.folders
        for name in folders[:most]:
            if self.cut:
                return
            yield f"{indent}{_shown(name)}/"
            if depth < self._bounds.depth:
                yield from self.lines(folder / name, rules, depth + 1)
        if (more := len(folders) - most) > 0:
            yield f"{indent}[{more:,} more folder{'s' * (more != 1)}]"
        for name in files:
            if self.cut:
                return
            if self._files == self._bounds.files:
                self.cut = f"{self._bounds.files:,} files"
                return
            self._files += 1
            yield f"{indent}{_shown(name)}"

    def _entries(self, folder: Path, rules: IgnoreRules) -> tuple[list[str], list[str]]:
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, _ENTRIES):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not self._exclusions.excludes(entry.path, rules, is_folder=is_folder):
                        (folders if is_folder else files).append(entry.name)
        except OSError:
            return [], []
        if time.monotonic() > self._end:
            self.cut = f"{self._bounds.seconds:g} seconds"
        return sorted(folders, key=str.casefold), sorted(files, key=str.casefold)


def _shown(name: str) -> str:
    return name if name.isprintable() else repr(name)
