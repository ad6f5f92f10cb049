"""Marks that identify a command's processes if its supervisor can't end them.

On Linux the mark is the value of RLIMIT_LOCKS, an rlimit without effect in current kernels. Processes inherit it even
if they change their session, parent, name, user or environment. On other systems it is an environment variable.
"""

import contextlib
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.tools.supervisor import MARKED_LIMIT

VARIABLE: Final = "VIBE_COMMAND"  # environment variable that contains the mark
TITLE: Final = "vibe-jupyter-supervisor"  # an argument of supervisor processes, which identifies them
# Seconds during which marked processes are searched for repeatedly, so that none that just started is missed
SWEEP_SECONDS: Final = 2.0
_GAP: Final = 0.02  # seconds between two searches
_OURS: Final = int.from_bytes(b"vibe", "big")
_BITS: Final = 32  # bits of a mark below the four bytes that identify it as ours
_LIMIT_LINE: Final = re.compile(r"^Max file locks +\d+ +(\d+) ", re.MULTILINE)


class MarkedProcess(NamedTuple):
    """A process with a mark."""

    pid: int
    name: str
    mark: int
    parent: int
    command: tuple[bytes, ...]

    @property
    def is_supervisor(self) -> bool:
        """True if it is a supervisor."""
        return TITLE.encode() in self.command

    @property
    def is_of_user(self) -> bool:
        """True if the current user may signal it."""
        try:
            return os.geteuid() in (0, os.stat(f"/proc/{self.pid}").st_uid)
        except OSError:  # it has exited
            return False

    @property
    def has_kernel(self) -> bool:
        """True if its supervisor's kernel, whose id is among its last arguments, is still running."""
        return str(self.parent).encode() in self.command[-4:-1]


def new_mark() -> int:
    """Return an unused mark, or 0 if a limit of this machine leaves no room for one."""
    if sys.platform != "linux":
        return secrets.randbits(_BITS)
    import resource  # noqa: PLC0415 - Windows does not have it

    # A command may run another of our kernels. Its limit is a mark already and can only be lowered.
    most = resource.getrlimit(MARKED_LIMIT)[1]
    lowest = _OURS << _BITS
    room = (1 << _BITS) if most == resource.RLIM_INFINITY else min(most - lowest, 1 << _BITS)
    return lowest + secrets.randbelow(room) if room > 0 else 0


def marked_processes(mark: int | None = None) -> Iterator[MarkedProcess]:
    """Yield processes with this mark, or any mark of ours, newest first. Zombies are skipped."""
    if sys.platform == "linux":
        yield from _processes_by_limit(mark)
    elif mark is not None:
        yield from _processes_by_variable(mark)


def end_marked(mark: int) -> list[str]:
    """Kill all processes with a mark and return their names. Blocks until none is left, at most `SWEEP_SECONDS`."""
    ended: dict[int, str] = {}
    until = time.monotonic() + SWEEP_SECONDS
    while mark and time.monotonic() < until:
        found = list(marked_processes(mark))
        if not found:
            break
        for process in found:
            with contextlib.suppress(OSError):
                _kill(process)
                if not process.is_supervisor:
                    ended[process.pid] = f"{process.name} ({process.pid})"
        time.sleep(_GAP)
    return list(ended.values())


def processes_left_behind() -> list[MarkedProcess]:
    """Return processes that one of our kernels started and failed to end.

    Processes below a supervisor whose kernel is running are excluded.
    """
    marked = {process.pid: process for process in marked_processes()}
    return [one for one in reversed(marked.values()) if not one.is_supervisor and not _is_supervised(one, marked)]


def _is_supervised(process: MarkedProcess, marked: dict[int, MarkedProcess]) -> bool:
    above: MarkedProcess | None = process
    while above is not None and not above.is_supervisor:
        above = marked.get(above.parent)
    return above is not None and above.has_kernel


def _kill(process: MarkedProcess) -> None:
    """Kill a process through a pidfd, so that a reused id can't hit another process."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except AttributeError:
        os.kill(process.pid, 9)
        return
    try:
        if _mark_of(process.pid) == process.mark:
            import signal  # noqa: PLC0415

            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _processes_by_limit(mark: int | None) -> Iterator[MarkedProcess]:
    for process in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        found = _mark_of(process)
        if found is None or found >> _BITS != _OURS or mark not in (None, found):
            continue
        with contextlib.suppress(OSError, ValueError):
            status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
            head, _, tail = status.rpartition(") ")
            state, parent = tail.split(maxsplit=2)[:2]
            if state not in "ZX":
                command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                yield MarkedProcess(process, head.partition(" (")[2], found, int(parent), tuple(command))


def _mark_of(process: int) -> int | None:
    with contextlib.suppress(OSError):
        found = _LIMIT_LINE.search(Path(f"/proc/{process}/limits").read_text(encoding="ascii"))
        return int(found[1]) if found else None
    return None


def _processes_by_variable(mark: int) -> Iterator[MarkedProcess]:
    import psutil  # noqa: PLC0415 - only here

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(VARIABLE) == str(mark):
                command = tuple(map(os.fsencode, process.cmdline()))
                yield MarkedProcess(process.pid, process.name(), mark, process.ppid(), command)
