"""How much is in the places that a command would change, counted within bounds and without following links."""

import glob
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

MEASURED_ENTRIES: Final = 100_000
"""Files and folders that are counted for one command line."""
MEASURING_SECONDS: Final = 0.5
"""How long is counted for one command line."""
MATCHES_LIMIT: Final = 1_000
"""Names that one glob may stand for."""


@dataclass
class TreeSize:
    """What is in some places."""

    files: int = 0
    folders: int = 0
    """Of the places themselves, not those inside them."""
    bytes: int = 0
    whole: bool = True
    """False where there was more than could be counted."""

    def add(self, other: "TreeSize") -> None:
        """Count this in too."""
        self.files += other.files
        self.folders += other.folders
        self.bytes += other.bytes
        self.whole = self.whole and other.whole


@dataclass
class Meter:
    """Counts for one command line."""

    entries_left: int = MEASURED_ENTRIES
    ends: float = field(default_factory=lambda: time.monotonic() + MEASURING_SECONDS)

    def size_of(self, path: Path) -> TreeSize | None:
        """What a file or folder holds; None where nothing is there."""
        try:
            found = os.lstat(path)
        except OSError:
            return None
        if not os.path.isdir(path) or os.path.islink(path):
            return TreeSize(files=1, bytes=found.st_size)
        size = TreeSize(folders=1)
        for entry in self._entries(path, size):
            try:
                size.files += 1
                size.bytes += entry.stat(follow_symlinks=False).st_size
            except OSError:
                continue
        return size

    def matching(self, top: Path, keep: Iterable[str], *, kind: str) -> TreeSize:
        """The files, or the folders too, below a folder whose names match every one of these globs."""
        import fnmatch  # noqa: PLC0415 (only for find)

        patterns = tuple(keep)
        size = TreeSize()
        for entry in self._entries(top, size, folders=kind != "f"):
            if all(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns):
                is_folder = entry.is_dir(follow_symlinks=False)
                size.folders += is_folder
                if not is_folder and kind != "d":
                    size.files += 1
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
    """The names a glob stands for now, as far as they are looked at."""
    found = islice(glob.iglob(os.path.join(glob.escape(str(here)), text)), MATCHES_LIMIT)
    return [Path(one) for one in found]


def count_text(count: int, noun: str) -> str:
    """``1 file``, ``2,310 files``."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"
