"""Run one command as a process, with limited output, and end all its child processes."""

import asyncio
import codecs
import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from vibe_jupyter.errors import ToolError
from vibe_jupyter.tools.supervised import COMMAND_SUPERVISOR, SupervisedProgram, start_supervised

PROGRESS_LIMIT: Final = 200_000  # characters shown while a command runs; the end is in the result
DRAIN: Final = 0.3  # seconds to read output that is still in the pipes after the shell has exited

_CONTINUATION: Final = range(0x80, 0xC0)  # continuation bytes of UTF-8 characters
_LONGEST_CHARACTER: Final = 4  # bytes


@dataclass(frozen=True)
class FinishedCommand:
    """Result of a command."""

    ended: Literal["exit", "timeout"]
    returncode: int | None  # negative for a signal; None after a timeout
    stdout: str
    stderr: str
    was_truncated: bool
    seconds: float
    left_behind: tuple[str, ...] = ()  # processes that outlived the shell and were killed
    # Processes that could not be killed (another user's, or uninterruptible) and still run
    unended: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShellCommand:
    """A command with its environment and limits."""

    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    timeout: float  # seconds
    output_limit: int  # bytes kept of each stream
    # Folder and module of the supervisor, which starts the command and ends its processes
    supervisor: tuple[str, str] = COMMAND_SUPERVISOR


async def run_command(command: ShellCommand, progress: Callable[[str], None]) -> FinishedCommand:
    """Run a command until it exits or times out.

    Raises:
        ToolError: the command could not be started.
        asyncio.CancelledError: the call was interrupted. All processes have been ended.
    """
    began = time.monotonic()
    output = _Output(command.output_limit, progress)
    try:
        asked = SupervisedProgram(command.argv, command.folder, command.environment, command.supervisor)
        process = await start_supervised(asked, lambda: output, stdin=subprocess.DEVNULL)
    except (OSError, ValueError) as error:
        raise ToolError(f"The command could not be started: {error}.") from error
    in_time = False
    try:
        in_time = await _wait_within(command.timeout, process.exited)
        if in_time:
            await _wait_within(DRAIN, output.closed)
    finally:
        try:
            await process.end()
            await _wait_within(DRAIN, output.closed)
        finally:
            process.close()
    out, err = output.kept[1], output.kept[2]
    return FinishedCommand(
        ended="exit" if in_time else "timeout",
        returncode=process.returncode if in_time else None,
        stdout=out.text(),
        stderr=err.text(),
        was_truncated=out.was_truncated or err.was_truncated,
        seconds=time.monotonic() - began,
        left_behind=process.left_behind if in_time else (),
        unended=process.unended,
    )


class _Output(asyncio.SubprocessProtocol):
    """Collects limited output of both streams and reports it as it arrives."""

    def __init__(self, limit: int, progress: Callable[[str], None]) -> None:
        # Set when both pipes are closed, possibly long after the shell exited, since child processes inherit them
        self.closed = asyncio.Event()
        self.kept = {1: BoundedOutput(limit), 2: BoundedOutput(limit)}
        self._open = set(self.kept)
        self._decoders = {fd: codecs.getincrementaldecoder("utf-8")("replace") for fd in self.kept}
        self._progress = progress
        self._room = PROGRESS_LIMIT

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.kept[fd].write(data)
        text = self._decoders[fd].decode(data)[: self._room]
        if text:
            self._room -= len(text)
            self._progress(text)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


async def _wait_within(seconds: float, event: asyncio.Event) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


class BoundedOutput:
    """Keeps at most `limit` bytes of a stream, half of them from the beginning and half from the end."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0  # bytes written in total

    def write(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = self._head_room - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: len(self._tail) - self._tail_room]

    @property
    def was_truncated(self) -> bool:
        """True if bytes in the middle were dropped."""
        return self.total > self._head_room + self._tail_room

    def text(self) -> str:
        """Return the output with a note where bytes were dropped. Invalid UTF-8 becomes U+FFFD."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_room) :])
        if not self.was_truncated:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        head, tail = _without_cut_end(bytes(self._head)), _without_cut_start(tail)
        missing = self.total - len(head) - len(tail)
        mark = f"[… {missing:,} bytes left out …]"
        start = head.decode("utf-8", "replace")
        return f"{start}{'' if start.endswith(chr(10)) else chr(10)}{mark}\n{tail.decode('utf-8', 'replace')}"


def _without_cut_end(data: bytes) -> bytes:
    """Remove an incomplete UTF-8 character at the end."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte in _CONTINUATION:
            continue
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if width > back else data
    return data


def _without_cut_start(data: bytes) -> bytes:
    """Remove an incomplete UTF-8 character at the start."""
    start = next((place for place, byte in enumerate(data[:_LONGEST_CHARACTER]) if byte not in _CONTINUATION), 0)
    return data[start:]
