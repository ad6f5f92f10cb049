"""A forked copy of this process: created on the main thread, awaited on an event loop, and always ended."""

import asyncio
import gc
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn

from vibe_jupyter.sandbox.call_numbers import this_processor
from vibe_jupyter.sandbox.confinement import Confined, Confinement, confine

# Seconds without CPU use while every thread waits for a lock, after which the copy counts as deadlocked.
STALL_SECONDS: Final = 1.5
MOST_REPORTED: Final = 32 << 20  # bytes of a copy's report
_LOOK_SECONDS: Final = 0.25  # between two checks of a copy's memory and threads
# First byte of a report. Written before any code runs, so that code can't forge it.
_CONFINED, _NOT_CONFINED = b"+", b"-"

Work = Callable[[Confined], bytes]  # runs in the copy and returns the report
Ending = Literal["done", "not confined", "time", "memory", "too much", "stalled", "died"]


class CopyReport(NamedTuple):
    """Outcome of a copy. The data is a claim of the code that ran in the copy and must not be trusted."""

    ending: Ending
    # Result of `Work`, or whatever the code wrote in its place. If confinement failed, the reason.
    data: bytes = b""
    cpu_seconds: float = 0.0


class ForkedCopy:
    """A forked copy. Created on the main thread, which is the only thread that exists in the copy."""

    def __init__(self, work: Work, confinement: Confinement) -> None:
        """Fork. In the copy, this doesn't return.

        Raises:
            OSError: The system can't create another process.
        """
        self._seconds, self._memory = confinement.seconds, confinement.memory
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError, OSError):  # replaced or closed by the user's code
                stream.flush()
        self._ended = False
        self._cpu_seconds = 0.0
        self._cpu_seen = -1
        self._report, report = os.pipe()
        parent = os.getpid()
        self._pid = -1
        try:
            self._pid = _fork()
            if self._pid == 0:
                _be_the_copy(work, confinement, parent, report)
            os.set_blocking(self._report, False)
            self._process = os.pidfd_open(self._pid)
        except BaseException:  # including interrupts: nothing else knows about the copy
            os.close(self._report)
            if self._pid > 0:
                _end_unwatched(self._pid)
            raise
        finally:
            os.close(report)
        self._began = time.monotonic()
        self._quiet_since = self._looked_at = self._began

    async def report(self) -> CopyReport:
        """Wait for the copy to end, or end it if it exceeds a limit or deadlocks.

        Raises:
            asyncio.CancelledError: The caller was cancelled; the copy has been ended.
        """
        data = bytearray()
        ending: Ending | None = None
        try:
            while ending is None:
                await self._wait_readable()
                chunk = self._read_chunk()
                if chunk == b"":
                    break
                data += chunk or b""
                ending = "too much" if len(data) > MOST_REPORTED else self._judge()
        finally:
            self.end()
        if ending is not None:
            return CopyReport(ending, cpu_seconds=self._cpu_seconds)
        first, rest = bytes(data[:1]), bytes(data[1:])
        ending = "not confined" if first == _NOT_CONFINED else "done" if first == _CONFINED and rest else "died"
        return CopyReport(ending, rest, self._cpu_seconds)

    def end(self) -> None:
        """Kill and reap the copy. Thread-safe and idempotent."""
        if self._ended:
            return
        self._ended = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
        os.close(self._report)
        os.close(self._process)
        with suppress(ChildProcessError):  # the user's code reaped it
            _, _, usage = os.wait4(self._pid, 0)
            self._cpu_seconds = usage.ru_utime + usage.ru_stime

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._report, readable.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await readable.wait()
        finally:
            loop.remove_reader(self._report)

    def _read_chunk(self) -> bytes | None:
        """Read available data. Returns None if there is none yet, and b"" at the end."""
        try:
            return os.read(self._report, 1 << 16)
        except BlockingIOError:
            return None

    def _judge(self) -> Ending | None:
        """Return why the copy must be ended now, or None."""
        now = time.monotonic()
        if now - self._began > self._seconds:
            return "time"
        if now - self._looked_at < _LOOK_SECONDS:
            return None
        self._looked_at = now
        if _own_memory(self._pid) > self._memory:
            return "memory"
        cpu = _cpu_ticks(self._pid)
        if cpu != self._cpu_seen or not _waits_for_locks(self._pid):
            self._cpu_seen, self._quiet_since = cpu, now
        return "stalled" if now - self._quiet_since > STALL_SECONDS else None


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12+ warns that locks held by other threads stay locked in the child; `STALL_SECONDS` handles that.
        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*multi-threaded")
        drawn = random.getstate()
        pid = os.fork()
    if pid == 0:
        random.setstate(drawn)  # Python reseeds after a fork; the copy must draw the numbers that the kernel would draw
    return pid


def _end_unwatched(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _be_the_copy(work: Work, confinement: Confinement, parent: int, report: int) -> NoReturn:
    """Run the work in the copy. Exits with `os._exit`, without the parent's exit handlers, finalizers and buffers."""
    try:
        try:
            confined = confine(confinement, parent, report)
        except BaseException as error:  # noqa: BLE001 - whatever went wrong, the copy must not continue
            _write_all(report, _NOT_CONFINED + f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
            os._exit(1)
        _write_all(report, _CONFINED)
        gc.disable()  # it would run finalizers of the parent's objects and dirty every shared page
        _write_all(report, work(confined))
    finally:
        os._exit(0)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _own_memory(pid: int) -> int:
    """Return the bytes not shared with the parent."""
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")) * 1024
    return 0


def _cpu_ticks(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def _waits_for_locks(pid: int) -> bool:
    """Return whether every thread waits for a lock."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        calls = [
            Path(f"/proc/{pid}/task/{thread}/syscall").read_text(encoding="ascii").split()[0] for thread in threads
        ]
    except (OSError, IndexError):
        return False
    futex = str(this_processor().numbers["futex"])
    return all(call == futex for call in calls)
