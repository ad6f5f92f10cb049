"""Make inherited resources private: descriptors, shared memory and thread pools. Called in the copy."""

import contextlib
import ctypes
import fcntl
import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.sandbox.overlay import ProjectOverlay
from vibe_jupyter.sandbox.system_calls import map_private

_MAPS: Final = "/proc/self/maps"
_DELETED: Final = "(deleted)"
_READS, _WRITES = 1, 2
_COMPUTING: Final = re.compile(r"lib[^/]*(gomp|omp|openblas|mkl_rt)[^/]*\.so")
_SET_THREADS: Final = (
    *("omp_set_num_threads", "MKL_Set_Num_Threads"),
    *(f"{start}openblas_set_num_threads{end}" for start in ("", "scipy_") for end in ("", "64_")),
)


class Mapping(NamedTuple):
    """A memory mapping, as listed in /proc/self/maps."""

    start: int
    end: int
    rights: str  # such as ``rw-s``
    offset: int
    path: str  # "" for anonymous memory

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.start

    @property
    def is_file(self) -> bool:
        """True if the mapping is backed by a file that still exists under its name."""
        return self.path.startswith("/") and _DELETED not in self.path


def mappings() -> Iterator[Mapping]:
    """Yield this process's mappings."""
    for line in Path(_MAPS).read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        fields = line.split(None, 5)
        start, _, end = fields[0].partition("-")
        path = fields[5].strip() if len(fields) > 5 else ""
        yield Mapping(int(start, 16), int(end, 16), fields[1], int(fields[2], 16), path)


def shared_mappings() -> list[Mapping]:
    """Return the mappings that this process shares with others."""
    return [one for one in mappings() if one.rights[3] == "s"]


def make_descriptors_private(keep: Collection[int], overlay: ProjectOverlay | None = None) -> None:
    """Reopen files and folders read-only with their own offset, and replace all other descriptors by ``/dev/null``.

    Nothing is closed, since an object that still has the number might later close an unrelated file.

    Args:
        keep: Descriptors to leave alone.
        overlay: Overlay in which files open for writing are reopened for writing.
    """
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for descriptor in sorted(map(int, os.listdir("/proc/self/fd"))):
        if descriptor in keep or descriptor == null:
            continue
        with contextlib.suppress(OSError):  # the descriptor that was used for listing
            _replace_descriptor(descriptor, null, overlay)


def _replace_descriptor(descriptor: int, null: int, overlay: ProjectOverlay | None) -> None:
    mode = os.fstat(descriptor).st_mode
    new = null
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        path, flags = f"/proc/self/fd/{descriptor}", os.O_RDONLY
        if overlay is not None and overlay.covers(descriptor):
            path, flags = os.readlink(path), fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND)
        with contextlib.suppress(OSError):
            new = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    if new != null and stat.S_ISREG(mode):
        os.lseek(new, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
    os.dup2(new, descriptor, inheritable=False)
    if new != null:
        os.close(new)


def make_mappings_private() -> None:
    """Replace shared memory by private memory with the same content.

    Raises:
        OSError: A mapping couldn't be replaced.
    """
    for one in shared_mappings():
        descriptor = -1
        if one.is_file:
            with contextlib.suppress(OSError):
                descriptor = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC)
        protection = (_READS if one.rights[0] == "r" else 0) | (_WRITES if one.rights[1] == "w" else 0)
        if descriptor >= 0:
            map_private(one.start, one.size, protection, descriptor, one.offset)
            os.close(descriptor)
            continue
        content = ctypes.string_at(one.start, one.size) if protection & _READS else None
        map_private(one.start, one.size, protection if content is None else protection | _WRITES, -1, 0)
        if content is not None:
            ctypes.memmove(one.start, content, one.size)


def use_one_thread() -> None:
    """Make libraries compute on this thread. Their pool threads don't exist after a fork and would be waited for."""
    for path in {one.path for one in mappings() if _COMPUTING.search(one.path)}:
        library = ctypes.CDLL(path)
        _start_no_pool(library)
        for name in _SET_THREADS:
            if hasattr(library, name):
                getattr(library, name)(1)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.putenv(name, "1")  # for libraries loaded later; putenv, so that `os.environ` stays unchanged for the code
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _start_no_pool(library: ctypes.CDLL) -> None:
    # Setting OpenBLAS's number of threads restarts its pool, and each idle thread spins for some 30 ms before it
    # sleeps. So its counter is set to 1 first.
    with contextlib.suppress(ValueError):  # a different library
        ctypes.c_int.in_dll(library, "blas_num_threads").value = 1
