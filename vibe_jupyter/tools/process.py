"""One command as a process: its output within bounds, its end with all it started.

A command has a process group of its own. What leaves the group (``setsid``, a daemon) still carries a mark in its
environment, by which it is found on Linux and macOS.
"""

import asyncio
import codecs
import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

import psutil

from vibe_jupyter.errors import ToolError
from vibe_jupyter.tools.shell_path import find_shell

PROGRESS_LIMIT: Final = 200_000
"""Characters shown while a command runs; the end is in the result."""
_WHEN_TOLD: Final = 'read -r _ && exec "$@" </dev/null'
"""Begins the command on a signal, sent once its guard is there; never, if the kernel was killed before."""
DRAIN: Final = 0.3
"""Seconds given to output that is still in the pipes when the shell has ended."""

MARK: Final = "VIBE_COMMAND"
"""Environment variable by which the processes of one command are known."""
TERM_GRACE: Final = 0.4
"""Seconds between the request to end and the end by force."""
_GAP: Final = 0.02
"""Seconds between two looks at a group that is ending."""
_GUARD: Final = """\
read -r _ || true
kill -s KILL -- "-$1" 2>/dev/null
for _ in 1 2; do
  for found in $(grep -lszxF -- "$2" /proc/[0-9]*/environ 2>/dev/null); do
    found="${found#/proc/}"
    kill -s KILL "${found%/environ}" 2>/dev/null
  done
done
"""
"""Waits until the kernel lets go of its end of a pipe, then ends the group, and on Linux what left it: a killed kernel
leaves nothing running. The second look finds what was started during the first."""

_CONTINUATION: Final = range(0x80, 0xC0)
"""Bytes that stand inside a UTF-8 character."""
_LONGEST_CHARACTER: Final = 4
"""Bytes."""


@dataclass(frozen=True)
class FinishedCommand:
    """What became of a command."""

    ended: Literal["exit", "timeout"]
    returncode: int | None
    """Negative for a signal; None where the time ran out."""
    stdout: str
    stderr: str
    was_truncated: bool
    seconds: float
    left_behind: tuple[str, ...] = ()
    """Processes that outlived the shell and were ended."""


@dataclass(frozen=True)
class ShellCommand:
    """What is to run, and within what."""

    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    timeout: float
    """Seconds."""
    output_limit: int
    """Bytes kept of each stream."""


async def run_command(command: ShellCommand, progress: Callable[[str], None]) -> FinishedCommand:
    """Run it to its end, or to the end of its time.

    Raises:
        ToolError: it could not be started.
        asyncio.CancelledError: interrupted; all its processes were ended.
    """
    mark = new_mark()
    began = time.monotonic()
    output = _Output(command.output_limit, progress)
    transport = await _start_process(command, output, mark)
    tree = _guarded(transport, mark)
    in_time = False
    left: list[str] = []
    try:
        _let_go(transport)
        in_time = await _wait_within(command.timeout, output.exited)
        if in_time:
            await _wait_within(DRAIN, output.closed)
    finally:
        try:
            left = await _end_tree(tree)
            await _wait_within(DRAIN, output.closed)
        finally:
            transport.close()
    out, err = output.kept[1], output.kept[2]
    return FinishedCommand(
        ended="exit" if in_time else "timeout",
        returncode=transport.get_returncode() if in_time else None,
        stdout=out.text(),
        stderr=err.text(),
        was_truncated=out.was_truncated or err.was_truncated,
        seconds=time.monotonic() - began,
        left_behind=tuple(left) if in_time else (),
    )


class _Output(asyncio.SubprocessProtocol):
    """Both streams: kept within bounds, shown as they come."""

    def __init__(self, limit: int, progress: Callable[[str], None]) -> None:
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        """Set when nothing more can come, which may be long after the shell ended: its children hold the pipes."""
        self.kept = {1: BoundedOutput(limit), 2: BoundedOutput(limit)}
        self._decoders = {fd: codecs.getincrementaldecoder("utf-8")("replace") for fd in self.kept}
        self._progress = progress
        self._room = PROGRESS_LIMIT

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.kept[fd].write(data)
        text = self._decoders[fd].decode(data)[: self._room]
        if text:
            self._room -= len(text)
            self._progress(text)

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.exited.set()
        self.closed.set()


def _starter() -> Sequence[str]:
    """A shell that passes the environment on as it is: dash, which many call sh, drops functions for bash. With `-p`
    bash passes them on, and runs none of them."""
    bash = find_shell()
    return ("/bin/sh",) if bash is None else (bash, "-p")


async def _start_process(command: ShellCommand, output: _Output, mark: str) -> asyncio.SubprocessTransport:
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: output,
            *_starter(),
            "-c",
            _WHEN_TOLD,
            "sh",
            *command.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=command.folder,
            env={**command.environment, MARK: mark},
            start_new_session=True,
        )
    )
    try:
        transport, _ = await asyncio.shield(starting)
    except (OSError, ValueError) as error:
        raise ToolError(f"The command could not be started: {error}.") from error
    except asyncio.CancelledError:  # the shell may run already, and have begun others
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            begun, _ = starting.result()
            await _end_tree(ProcessTree(begun.get_pid(), mark))
            begun.close()
        raise
    return transport


class ProcessTree:
    """The processes below one that was started in a session of its own."""

    def __init__(self, leader: int, mark: str) -> None:
        self._group = leader
        self._mark = mark
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", str(leader), f"{MARK}={mark}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
        )

    def end(self) -> list[str]:
        """End all of it, by force where it must be; what ran still is named. Blocks at most about a second."""
        found = self._tree_members()
        names = [_process_name(process) for process in found]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signal.SIGTERM)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        _wait_for_end(found, TERM_GRACE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signal.SIGKILL)
        late = self._tree_members()
        for process in late:
            with contextlib.suppress(psutil.Error):
                process.kill()
        _wait_for_end(late, TERM_GRACE)
        return names

    def close(self) -> None:
        """Nothing needs to be guarded any more."""
        self._guard.kill()
        self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()

    def _tree_members(self) -> list[psutil.Process]:
        """Those that run now, whether in the group or only marked."""
        return [process for process in psutil.process_iter() if self._is_member(process)]

    def _is_member(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return os.getpgid(process.pid) == self._group or process.environ().get(MARK) == self._mark
        except (psutil.Error, OSError):
            return False


def _guarded(transport: asyncio.SubprocessTransport, mark: str) -> ProcessTree:
    try:
        return ProcessTree(transport.get_pid(), mark)
    except OSError as error:
        transport.close()
        raise ToolError(f"The command could not be started: {error}.") from error


def _let_go(transport: asyncio.SubprocessTransport) -> None:
    pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))  # another loop's is of another class
    pipe.write(b"\n")
    pipe.close()


async def _wait_within(seconds: float, event: asyncio.Event) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def _end_tree(tree: ProcessTree) -> list[str]:
    """End what still runs; an interrupt that comes meanwhile waits for it."""
    ending = asyncio.ensure_future(asyncio.to_thread(tree.end))
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])
        raise
    finally:
        tree.close()


def new_mark() -> str:
    """A value of `MARK` that nothing else has."""
    return secrets.token_hex(8)


def _wait_for_end(processes: list[psutil.Process], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(_is_running(process) for process in processes):
        time.sleep(_GAP)


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _process_name(process: psutil.Process) -> str:
    try:
        return f"{process.name()} ({process.pid})"
    except psutil.Error:
        return str(process.pid)


class BoundedOutput:
    """Keeps at most `limit` bytes of what was written: half from the head, half from the tail."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes written in all."""

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.total += len(chunk)
        room = self._head_room - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: len(self._tail) - self._tail_room]

    @property
    def was_truncated(self) -> bool:
        """Whether something in the middle is gone."""
        return self.total > self._head_room + self._tail_room

    def text(self) -> str:
        """What was kept, with a line where something is missing; bytes that are no UTF-8 become U+FFFD."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_room) :])
        if not self.was_truncated:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        head, tail = _without_cut_end(bytes(self._head)), _without_cut_start(tail)
        missing = self.total - len(head) - len(tail)
        mark = f"[… {missing:,} bytes left out …]"
        start = head.decode("utf-8", "replace")
        return f"{start}{'' if start.endswith(chr(10)) else chr(10)}{mark}\n{tail.decode('utf-8', 'replace')}"


def _without_cut_end(data: bytes) -> bytes:
    """Without a last character of which only the beginning is there."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte in _CONTINUATION:
            continue
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if width > back else data
    return data


def _without_cut_start(data: bytes) -> bytes:
    """Without bytes of a character that began earlier."""
    start = next((place for place, byte in enumerate(data[:_LONGEST_CHARACTER]) if byte not in _CONTINUATION), 0)
    return data[start:]
