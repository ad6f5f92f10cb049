"""Stdio transport: a local server that is started, used over its pipes, and stopped with its child processes.

Imports the SDK, so import this module only when the first server starts.
"""

import asyncio
import contextlib
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from vibe_jupyter.config.tool_servers import ServerProgram
from vibe_jupyter.mcp.log import ServerLog
from vibe_jupyter.mcp.pending_responses import LineBuffer, PendingResponses
from vibe_jupyter.tools.child_environment import ProcessEnvironment, child_environment
from vibe_jupyter.tools.supervised import SupervisedProcess, SupervisedProgram, start_supervised

LEAVE_GRACE: Final = 0.5  # seconds for a program to exit after its input is closed

UNREAD_LIMIT: Final = 16 * 1024 * 1024  # unsent bytes after which a program that doesn't read is given up
_ORPHANED: Final = 0.2  # seconds to drain the pipes after the program's exit; its children may keep them open

_HIGH: Final = 1024 * 1024  # received bytes that aren't consumed yet, above which reading pauses
_LOW: Final = 256 * 1024  # bytes below which reading resumes


class ProgramPipes(asyncio.SubprocessProtocol):
    """Pipes of one program; its standard input is a write stream of messages."""

    def __init__(self, log: ServerLog, pending: Mapping[str | int, object]) -> None:
        self.exited = asyncio.Event()
        self.trouble = ""  # reason if we stopped listening
        self.lost = False  # True if the program closed its output or exited on its own
        self.due = PendingResponses(log, pending, self._put_message, self._give_up)
        self.incoming = IncomingMessages(self.due.parse, self._set_reading)
        self._log = log
        self._lines = LineBuffer(self.due)
        self._closed = False
        self._process: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._log.feed(data)
            return
        for line in self._lines.feed(data):
            self.incoming.put(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.lost = not self._closed
            if rest := self._lines.rest():
                self.incoming.put(rest)
            self.incoming.end()

    def note_exit(self) -> None:
        """Handle the program's exit. Its children may keep the pipes open."""
        self.exited.set()
        self.lost = self.lost or not self._closed
        asyncio.get_running_loop().call_later(_ORPHANED, self.incoming.end)

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message. Does nothing if the program has exited; the end of `incoming` reports that."""
        pipe = self._stdin_transport()
        if pipe is None or pipe.is_closing():
            return
        self.due.note(item.message)
        pipe.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if pipe.get_write_buffer_size() > UNREAD_LIMIT:
            self._give_up("it does not read what it is sent")

    async def aclose(self) -> None:
        """Do nothing: the input stays open until the program is stopped."""

    def close(self) -> None:
        """Close the program's input and discard further output."""
        self._closed = True
        self.incoming.end()
        if pipe := self._stdin_transport():
            pipe.close()
        self._set_reading(True)

    def _stdin_transport(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._process.get_pipe_transport(0)) if self._process else None

    def _set_reading(self, reading: bool) -> None:
        """Pause or resume reading the program's output."""
        pipe = self._process.get_pipe_transport(1) if self._process else None
        if pipe is not None and not pipe.is_closing():
            heard = cast("asyncio.ReadTransport", pipe)  # uvloop's transports don't inherit from ReadTransport
            (heard.resume_reading if reading else heard.pause_reading)()

    def _put_message(self, message: JSONRPCMessage) -> None:
        self.incoming.put(message)

    def _give_up(self, reason: str) -> None:
        self.trouble = self.trouble or reason
        self.incoming.end()


class IncomingMessages:
    """Read stream of messages, filled by the event loop."""

    def __init__(self, parse: Callable[[bytes], JSONRPCMessage | None], set_reading: Callable[[bool], None]) -> None:
        self._parse = parse
        self._set_reading = set_reading
        self._waiting: deque[bytes | JSONRPCMessage] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._ended = False
        self._rests = False
        self.over = asyncio.Event()  # set when the stream has ended and every message was consumed

    def put(self, line: bytes | JSONRPCMessage) -> None:
        """Add a received line, or a response that we made ourselves."""
        if self._ended:
            return
        self._waiting.append(line)
        self._news.set()
        if isinstance(line, bytes):
            self._size += len(line)
        if self._size > _HIGH and not self._rests:
            self._rests = True
            self._set_reading(False)

    def end(self) -> None:
        """End the stream after the messages that are already queued."""
        self._ended = True
        self._news.set()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there are no more messages.
        """
        while True:
            # One line per iteration of the event loop, so that a busy program doesn't starve other tasks.
            await asyncio.sleep(0)
            if self._waiting:
                if (message := self._take_message()) is not None:
                    return message
            elif self._ended:
                self.over.set()
                raise anyio.EndOfStream
            else:
                self._news.clear()
                await self._news.wait()

    async def aclose(self) -> None:
        """Discard queued messages and end the stream."""
        self._waiting.clear()
        self.end()
        self.over.set()

    def _take_message(self) -> SessionMessage | None:
        line = self._waiting.popleft()
        if not isinstance(line, bytes):
            return SessionMessage(line)
        self._size -= len(line)
        if self._rests and self._size < _LOW:
            self._rests = False
            self._set_reading(True)
        message = self._parse(line)
        return None if message is None else SessionMessage(message)


class StdioTransport:
    """Transport over one run of the program, entered and exited by the SDK's Client."""

    def __init__(
        self,
        program: ServerProgram,
        surroundings: ProcessEnvironment,
        *,
        log: ServerLog,
        pending: Mapping[str | int, object],
    ) -> None:
        self._program = program
        self._surroundings = surroundings
        self._folder = surroundings.folder / Path(program.cwd).expanduser()
        self._process: SupervisedProcess | None = None
        self._returncode: int | None = None
        self.pipes = ProgramPipes(log, pending)

    @property
    def trouble(self) -> str:
        """Exit description if the program ended on its own, else ""."""
        if self.pipes.trouble or not self.pipes.lost or self._process is None:
            return self.pipes.trouble
        code = self._returncode
        if code is None:
            return "it closed its output"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def __aenter__(self) -> tuple[IncomingMessages, ProgramPipes]:
        given = child_environment(self._surroundings.environ)
        asked = SupervisedProgram(self._program.argv, self._folder, {**given, **self._program.env})
        self._process = await start_supervised(
            asked, lambda: self.pipes, stdin=subprocess.PIPE, on_exit=self.pipes.note_exit
        )
        return self.pipes.incoming, self.pipes

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        ending = asyncio.ensure_future(self._end_program())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    async def _end_program(self) -> None:
        """Close the program's input, then terminate and finally kill it with its child processes."""
        process = self._process
        if process is None:
            return
        self.pipes.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.pipes.exited.wait(), LEAVE_GRACE)
        finally:  # also when the engine shuts down and cancels every task
            self._returncode = process.returncode
            try:
                await process.end()
            finally:
                process.close()
