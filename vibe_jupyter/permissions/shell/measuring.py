"""Measure the files that a command would change, within limits and without following links."""

import glob
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

MEASURED_ENTRIES: Final = 100_000  # files and folders counted per command line
MEASURING_SECONDS: Final = 0.5  # time limit per command line
MATCHES_LIMIT: Final = 1_000  # names expanded from one glob


@dataclass
class TreeSize:
    """Number and size of files in some places."""

    files: int = 0
    folders: int = 0  # only the places themselves, not folders inside them
    bytes: int = 0
    whole: bool = True  # False if there was more than could be counted

    def add(self, other: "TreeSize") -> None:
        self.files += other.files
        self.folders += other.folders
        self.bytes += other.bytes
        self.whole = self.whole and other.whole


@dataclass
class Meter:
    """Counter with the shared limits of one command line."""

    entries_left: int = MEASURED_ENTRIES
    ends: float = field(default_factory=lambda: time.monotonic() + MEASURING_SECONDS)

    def size_of(self, path: Path) -> TreeSize | None:
        """Measure a file or folder, or return None if it doesn't exist."""
        try:
            found = os.lstat(path)
        except OSError:
            return None
        if not os.path.isdir(path) or os.path.islink(path):
            return TreeSize(files=1, bytes=found.st_size)
        size = TreeSize(folders=1)
        for entry in self._entries(path, size):
            size.files += 1
            with suppress(OSError):  # deleted meanwhile
                size.bytes += entry.stat(follow_symlinks=False).st_size
        return size

    def matching(self, top: Path, keep: Iterable[str], *, kind: str) -> TreeSize:
        """Measure the entries below a folder whose names match all globs.

        Args:
            top: The folder.
            keep: The globs.
            kind: ``f`` for files, ``d`` for folders, otherwise both.
        """
        import fnmatch  # noqa: PLC0415 (only for find)

        patterns = tuple(keep)
        size = TreeSize()
        for entry in self._entries(top, size, folders=kind != "f"):
            if all(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns):
                is_folder = entry.is_dir(follow_symlinks=False)
                size.folders += is_folder
                if not is_folder and kind != "d":
                    size.files += 1
                    with suppress(OSError):  # deleted meanwhile
                        size.bytes += entry.stat(follow_symlinks=False).st_size
        return size

    def _entries(self, top: Path, size: TreeSize, *, folders: bool = False) -> Iterator[os.DirEntry[str]]:
        waiting = [str(top)]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as found:
                    for entry in found:
                        self.entries_left -= 1
                        if self.entries_left < 0 or time.monotonic() > self.ends:
                            size.whole = False
                            return
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                            if not folders:
                                continue
                        yield entry
            except OSError:
                size.whole = False


def expand_glob(text: str, here: Path) -> list[Path]:
    """Expand a glob against the file system, up to `MATCHES_LIMIT`."""
    found = islice(glob.iglob(os.path.join(glob.escape(str(here)), text)), MATCHES_LIMIT)
    return [Path(one) for one in found]


def count_text(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 file``, ``2,310 files``."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
