"""Detect whether files have changed since something was read from them.

A stamp is a file's status, read without opening it. Replacing a file changes its inode, and writing to it changes its
times; but two writes within one tick of the file system's clock are indistinguishable. So a stamp is trusted only once
it is older than such a tick (git's index does the same), and what was read from a younger file is read again.
"""

import operator
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

# Nanoseconds since the last change after which a stamp is trusted: FAT has a resolution of two seconds, others less.
SETTLED: Final = 2_000_000_000


class FileStamp(NamedTuple):
    """Status of a file, or of its absence."""

    path: Path
    said: tuple[int, ...]  # mode, device, inode, size and both times, or the error number
    changed: int = 0  # nanoseconds since the epoch
    follow_links: bool = True


def stamp_file(path: Path, *, follow_links: bool = True) -> FileStamp:
    """Return a file's stamp. Missing files have one too."""
    return stamp_files([path], follow_links=follow_links)[0]


def stamp_files(paths: Iterable[Path], *, follow_links: bool = True) -> list[FileStamp]:
    """Return the current stamp of each of these files and folders."""
    stamps: list[FileStamp] = []
    for path in paths:
        try:
            found = os.stat(path, follow_symlinks=follow_links)
        except OSError as error:
            stamps.append(FileStamp(path, (error.errno or 0,), 0, follow_links))
            continue
        identity = (found.st_mode, found.st_dev, found.st_ino, found.st_size)
        times = (found.st_mtime_ns, found.st_ctime_ns)
        stamps.append(FileStamp(path, (*identity, *times), max(times), follow_links))
    return stamps


class LatestMade(Generic[T]):
    """Cache of the last value, valid as long as it would be made from the very same objects."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], T] | None = None

    def get(self, made_of: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the cached value or make a new one.

        Args:
            made_of: All inputs, compared by identity.
            make: Makes the value. If it raises, the cached value is kept.
        """
        if self._kept is None or not all(map(operator.is_, self._kept[0], made_of)):
            self._kept = (made_of, make())
        return self._kept[1]


class ReadCache(Generic[T]):
    """Cache of the last value, valid as long as the files it was read from are unchanged. Not thread-safe."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[list[FileStamp], object], T] | None = None
        self._followed: list[Path] = []  # files that the cached value was read from
        self._links: list[Path] = []  # those whose symbolic links aren't followed

    def standing(self, beside: object) -> T | None:
        """Return the cached value if all its files are unchanged. Checks each file once and lists no folder.

        Args:
            beside: See `get`, whose stamps must then include every folder that was searched for files.
        """
        if self._kept is None:
            return None
        (stamps, said), value = self._kept
        if said != beside:
            return None
        if stamp_files(self._followed) + stamp_files(self._links, follow_links=False) != stamps:
            return None
        return value

    def get(self, stamps: Iterable[FileStamp], beside: object, read: Callable[[], T], began: int | None = None) -> T:
        """Return the cached value or read a new one.

        Args:
            stamps: Stamps of all files involved, taken before this call.
            beside: All other inputs, compared by equality.
            read: Reads the value. If it raises, nothing is cached.
            began: When reading began, in nanoseconds since the epoch, or None if `read` reads everything.
        """
        made_of = (sorted(stamps, key=_is_link), beside)
        if self._kept is not None and self._kept[0] == made_of:
            return self._kept[1]
        self._kept = None
        settled = (time.time_ns() if began is None else began) - SETTLED  # taken before anything is read
        value = read()
        if all(stamp.changed <= settled for stamp in made_of[0]):
            self._kept = (made_of, value)
            self._followed = [stamp.path for stamp in made_of[0] if stamp.follow_links]
            self._links = [stamp.path for stamp in made_of[0] if not stamp.follow_links]
        return value


def _is_link(stamp: FileStamp) -> bool:
    return not stamp.follow_links
