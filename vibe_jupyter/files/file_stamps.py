"""Whether files are as they were when something was read of them.

A stamp is what the system says of a file without opening it. Who replaces a file changes its inode, and who writes into
it changes its times; but two writes within one tick of the file system's clock look like one. So a stamp proves nothing
until it is older than such a tick (git's index does the same), and what was read of a younger file is read again.
"""

import operator
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

SETTLED: Final = 2_000_000_000
"""Nanoseconds since its last change from which a stamp is proof: FAT counts whole pairs of seconds, others less."""


class FileStamp(NamedTuple):
    """One file, or that there is none."""

    path: Path
    said: tuple[int, ...]
    """Mode, device, inode, size and both times; or the number of the error."""
    changed: int = 0
    """Nanoseconds since the epoch."""
    follow_links: bool = True


def stamp_file(path: Path, *, follow_links: bool = True) -> FileStamp:
    """How a file stands now; one that is not there has a stamp too."""
    return stamp_files([path], follow_links=follow_links)[0]


def stamp_files(paths: Iterable[Path], *, follow_links: bool = True) -> list[FileStamp]:
    """How each of these files and folders stands now."""
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
    """Keeps what was made last for as long as it would be made of the very same objects."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], T] | None = None

    def get(self, made_of: tuple[object, ...], make: Callable[[], T]) -> T:
        """What was made, now or before.

        Args:
            made_of: all that takes part; compared by identity.
            make: makes it; what it raises is raised, and what there was is kept.
        """
        if self._kept is None or not all(map(operator.is_, self._kept[0], made_of)):
            self._kept = (made_of, make())
        return self._kept[1]


class ReadCache(Generic[T]):
    """Keeps what was read last for as long as nothing of what it was made of has changed. Not for several threads."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[list[FileStamp], object], T] | None = None
        self._followed: list[Path] = []
        """Files that what is kept was made of."""
        self._links: list[Path] = []
        """Those of which links are not followed."""

    def standing(self, beside: object) -> T | None:
        """What was read last, if everything it was made of is as it was; looks at each file once and lists no folder.

        Args:
            beside: as in `get`, whose stamps must then include each folder in which files were looked for.
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
        """What was read, now or before.

        Args:
            stamps: of every file that takes part, taken before this call.
            beside: everything else that takes part; compared by equality.
            read: reads again; what it raises is raised, and nothing is kept.
            began: when the first of it was read, in nanoseconds since the epoch; None where `read` reads all of it.
        """
        made_of = (sorted(stamps, key=_is_link), beside)
        if self._kept is not None and self._kept[0] == made_of:
            return self._kept[1]
        self._kept = None
        settled = (time.time_ns() if began is None else began) - SETTLED  # before anything is read
        value = read()
        if all(stamp.changed <= settled for stamp in made_of[0]):
            self._kept = (made_of, value)
            self._followed = [stamp.path for stamp in made_of[0] if stamp.follow_links]
            self._links = [stamp.path for stamp in made_of[0] if not stamp.follow_links]
        return value


def _is_link(stamp: FileStamp) -> bool:
    return not stamp.follow_links
