"""Marks by which the processes of a command are found where its supervisor cannot end them.

On Linux the mark is the value of an rlimit that no longer limits anything, RLIMIT_LOCKS: processes inherit it whatever
they do to their session, parent, name, user or environment. Elsewhere it is a variable of the environment.
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

VARIABLE: Final = "VIBE_COMMAND"
"""Environment variable that holds the mark."""
TITLE: Final = "vibe-jupyter-supervisor"
"""An argument of the programs that end the others."""
SWEEP_SECONDS: Final = 2.0
"""Seconds in which marked processes are looked for again, so that none is missed that was just started."""
_GAP: Final = 0.02  # seconds between two looks
_OURS: Final = int.from_bytes(b"vibe", "big")
_BITS: Final = 32  # of a mark, below the four bytes that say it is ours
_LIMIT_LINE: Final = re.compile(r"^Max file locks +\d+ +(\d+) ", re.MULTILINE)


class MarkedProcess(NamedTuple):
    """A process that carries a mark."""

    pid: int
    name: str
    mark: int
    parent: int
    command: tuple[bytes, ...]

    @property
    def is_supervisor(self) -> bool:
        """Whether it is the program that ends the others."""
        return TITLE.encode() in self.command

    @property
    def is_of_user(self) -> bool:
        """Whether the user who asks may end it."""
        try:
            return os.geteuid() in (0, os.stat(f"/proc/{self.pid}").st_uid)
        except OSError:  # it ended meanwhile
            return False

    @property
    def has_kernel(self) -> bool:
        """Whether the kernel of a supervisor still runs: it is named among the last arguments."""
        return str(self.parent).encode() in self.command[-4:-1]


def new_mark() -> int:
    """A value that no other command has; 0 where a limit of this machine leaves no room for one."""
    if sys.platform != "linux":
        return secrets.randbits(_BITS)
    import resource  # noqa: PLC0415 - Windows does not have it

    # A command may run another kernel of ours: there the limit is a mark already, and can only be lowered.
    most = resource.getrlimit(MARKED_LIMIT)[1]
    lowest = _OURS << _BITS
    room = (1 << _BITS) if most == resource.RLIM_INFINITY else min(most - lowest, 1 << _BITS)
    return lowest + secrets.randbelow(room) if room > 0 else 0


def marked_processes(mark: int | None = None) -> Iterator[MarkedProcess]:
    """Processes with this mark, or with any of ours; zombies left out. Newest first."""
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
    """Processes of this machine that were started by a kernel of ours which did not end them.

    Those below a supervisor whose kernel runs are not among them.
    """
    marked = {process.pid: process for process in marked_processes()}
    return [one for one in reversed(marked.values()) if not one.is_supervisor and not _is_supervised(one, marked)]


def _is_supervised(process: MarkedProcess, marked: dict[int, MarkedProcess]) -> bool:
    above: MarkedProcess | None = process
    while above is not None and not above.is_supervisor:
        above = marked.get(above.parent)
    return above is not None and above.has_kernel


def _kill(process: MarkedProcess) -> None:
    """By a descriptor, so that the id cannot have become another process's since the look."""
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
