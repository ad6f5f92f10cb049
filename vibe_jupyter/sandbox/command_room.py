"""Limits on the total size of files and memory of a confined command's processes.

Resource limits apply per process and file; limiting a sum takes a cgroup or a mount, which few users may create. So
the guard measures usage, often enough that what is written between two measurements is small compared to the limit.
"""

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_WRITTEN: Final = 256 << 20  # bytes per command, all files together; RLIMIT_FSIZE limits each file to the same size
MOST_FILES: Final = 10_000  # files and folders that may exist at a time
MOST_DEEP: Final = 100  # levels of nested folders
_LOOK_SECONDS: Final = 0.05  # between two measurements
_REST: Final = 10  # multiple of a measurement's duration for which the guard pauses after it
_BLOCK: Final = 512  # bytes, as stat(2) counts them
_KIB, _MIB = 1 << 10, 1 << 20
_HELD: Final = ("RssAnon:", "RssShmem:", "VmSwap:")
_SHARED_OUT: Final = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")


class _NotSeen(Exception):
    """Something that a command created can't be inspected, or exceeds a limit."""


class CommandRoom:
    """Limits of one command, checked by its guard."""

    def __init__(self, own: str, memory: int) -> None:
        """Set the limits.

        Args:
            own: The folder that the command writes to.
            memory: Bytes that its processes may use.
        """
        self._own = own
        self._memory = memory
        self._next = 0.0

    @property
    def wait(self) -> float:
        """Milliseconds until the next measurement."""
        return max(0.0, self._next - time.monotonic()) * 1_000

    def excess(self, processes: Iterable[int]) -> str:
        """Measure if it is time to, and return how the command exceeds its limits in words, or ""."""
        began = time.monotonic()
        if began < self._next:
            return ""
        found = self._excess(tuple(processes))
        ended = time.monotonic()
        self._next = ended + max(_LOOK_SECONDS, _REST * (ended - began))
        return found

    def _excess(self, processes: tuple[int, ...]) -> str:
        try:
            sizes = _sizes_below(self._own)
        except _NotSeen as error:
            return str(error)
        for process in processes:
            sizes |= _deleted_files(process, self._own)
        if sum(sizes.values()) > MOST_WRITTEN:
            return f"write more than {MOST_WRITTEN // _MIB:,} MB"
        # The first figure is an upper bound, but fast to read.
        memory = self._memory
        if _memory_of(processes, "status", _HELD) > memory < _memory_of(processes, "smaps_rollup", _SHARED_OUT):
            return f"take more than {memory // _MIB:,} MB of memory"
        return ""


def _sizes_below(folder: str) -> dict[tuple[int, int], int]:
    """Return sizes of the files in a folder by device and inode. Uses descriptors: paths may be too long to open."""
    sizes: dict[tuple[int, int], int] = {}
    _measure(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), sizes, MOST_DEEP)
    return sizes


def _measure(folder: int, sizes: dict[tuple[int, int], int], depth: int) -> None:
    try:
        if depth == 0:
            raise _NotSeen(f"make more than {MOST_DEEP:,} folders within each other")
        for name in os.listdir(folder):
            with suppress(FileNotFoundError):
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
                sizes[state.st_dev, state.st_ino] = state.st_blocks * _BLOCK
                if len(sizes) > MOST_FILES:
                    raise _NotSeen(f"make more than {MOST_FILES:,} files")
                if stat.S_ISDIR(state.st_mode):
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                    _measure(os.open(name, flags, dir_fd=folder), sizes, depth - 1)
    except OSError as error:
        raise _NotSeen("make a folder that cannot be looked into") from error
    finally:
        os.close(folder)


def _deleted_files(process: int, own: str) -> dict[tuple[int, int], int]:
    """Return sizes of deleted files that a process still has open or mapped."""
    sizes: dict[tuple[int, int], int] = {}
    with suppress(OSError):  # the process ended
        for line in Path(f"/proc/{process}/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            if line.endswith(" (deleted)") and f" {own}/" in line:
                places, _, _, device, inode, *_ = line.split()
                start, end = (int(place, 16) for place in places.split("-"))
                major, minor = (int(part, 16) for part in device.split(":"))
                key = os.makedev(major, minor), int(inode)
                sizes[key] = sizes.get(key, 0) + end - start
        for descriptor in os.listdir(f"/proc/{process}/fd"):
            path = f"/proc/{process}/fd/{descriptor}"
            with suppress(OSError):
                target = os.readlink(path)
                if target.endswith(" (deleted)") and target.startswith(f"{own}/"):
                    state = os.stat(path)
                    sizes[state.st_dev, state.st_ino] = state.st_blocks * _BLOCK
    return sizes


def _memory_of(processes: Iterable[int], file: str, fields: tuple[str, ...]) -> int:
    """Sum up the processes' memory in bytes, from fields of a file in /proc."""
    total = 0
    for process in processes:
        with suppress(OSError):
            for line in Path(f"/proc/{process}/{file}").read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith(fields):
                    total += int(line.split()[1]) * _KIB
    return total
