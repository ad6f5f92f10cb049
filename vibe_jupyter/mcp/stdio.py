"""A server that is a program of this machine: started, spoken to over its pipes, and ended with all it started.

Imports the SDK: imported itself when the first server starts.
"""

import asyncio
import contextlib
import subprocess
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from vibe_jupyter.config.tool_servers import ServerProgram
from vibe_jupyter.mcp.log import ServerLog
from vibe_jupyter.mcp.pending_responses import MESSAGE_LIMIT, LineBuffer, PendingResponses, TooLong
from vibe_jupyter.tools.child_environment import ProcessEnvironment, child_environment
from vibe_jupyter.tools.supervised import SupervisedProcess, SupervisedProgram, start_supervised

LEAVE_GRACE: Final = 0.5
"""Seconds a program is given to end by itself once its input is closed."""

UNREAD_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that wait for a program to read them."""
_ORPHANED: Final = 0.2
"""Seconds for what is still in the pipes when the program has ended; what it started may hold them open."""

_HIGH: Final = 1024 * 1024
"""Bytes that wait to be taken, above which reading rests."""
_LOW: Final = 256 * 1024
"""Bytes below which it goes on."""


class ProgramPipes(asyncio.SubprocessProtocol):
    """Both directions of one program."""

    def __init__(self, log: ServerLog) -> None:
        self.exited = asyncio.Event()
        self.trouble = ""
        """Why we stopped listening, where it was we."""
        self.lost = False
        """Whether the program closed its output, not we."""
        self.due = PendingResponses(log, self._put_message, self._give_up)
        self.incoming = IncomingMessages(self.due.parse, self._set_reading)
        self.outgoing = OutgoingMessages(self)
        self._log = log
        self._lines = LineBuffer(MESSAGE_LIMIT)
        self._closed = False
        self._process: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._log.feed(data)
            return
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                self.due.too_long(line)
            else:
                self.incoming.put(line)
        self.due.count_noise(self._lines.take_lost())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.lost = not self._closed
            if rest := self._lines.rest():
                self.incoming.put(rest)
            self.incoming.end()

    def note_exit(self) -> None:
        """Take note that the program exited; what it started may hold its pipes open."""
        self.exited.set()
        self.lost = self.lost or not self._closed
        asyncio.get_running_loop().call_later(_ORPHANED, self.incoming.end)

    def write(self, data: bytes) -> None:
        """Send bytes. Where the program has gone nothing happens: the end of `incoming` tells it."""
        pipe = self._stdin_transport()
        if pipe is None or pipe.is_closing():
            return
        pipe.write(data)
        if pipe.get_write_buffer_size() > UNREAD_LIMIT:
            self._give_up("it does not read what it is sent")

    def close(self) -> None:
        """Close its input; what it says from now on is thrown away."""
        self._closed = True
        self.incoming.end()
        if pipe := self._stdin_transport():
            pipe.close()
        self._set_reading(True)

    def _stdin_transport(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._process.get_pipe_transport(0)) if self._process else None

    def _set_reading(self, reading: bool) -> None:
        """Let the program wait while more came than was taken, or hear it again."""
        pipe = self._process.get_pipe_transport(1) if self._process else None
        if pipe is not None and not pipe.is_closing():
            heard = cast("asyncio.ReadTransport", pipe)  # uvloop's are none by class
            (heard.resume_reading if reading else heard.pause_reading)()

    def _put_message(self, message: JSONRPCMessage) -> None:
        self.incoming.put(message)

    def _give_up(self, reason: str) -> None:
        self.trouble = self.trouble or reason
        self.incoming.end()


class OutgoingMessages:
    """The stream the SDK writes to."""

    def __init__(self, pipes: ProgramPipes) -> None:
        self._pipes = pipes

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._pipes.due.note(item.message)
        self._pipes.write(data + b"\n")

    async def aclose(self) -> None:
        """Its input stays open until the program is ended."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class IncomingMessages:
    """Filled by the event loop as bytes come, emptied by the SDK."""

    def __init__(self, parse: Callable[[bytes], JSONRPCMessage | None], set_reading: Callable[[bool], None]) -> None:
        self._parse = parse
        self._set_reading = set_reading
        self._waiting: deque[bytes | JSONRPCMessage] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._ended = False
        self._rests = False
        self.over = asyncio.Event()
        """Set when nothing comes any more and all that came was taken."""

    def put(self, line: bytes | JSONRPCMessage) -> None:
        """A line that came, or an answer of our own making."""
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
        """Nothing more comes; what waits is still given."""
        self._ended = True
        self._news.set()

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: there is none.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            # One line a turn of the loop, so that a program that never stops talking leaves room for others.
            await asyncio.sleep(0)
            if self._waiting:
                if (message := self._take_message()) is not None:
                    return message
            elif self._ended:
                self.over.set()
                raise StopAsyncIteration
            else:
                self._news.clear()
                await self._news.wait()

    async def aclose(self) -> None:
        """Nothing is taken any more."""
        self._waiting.clear()
        self.end()
        self.over.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

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
    """One life of the program; the SDK's Client enters and leaves it."""

    def __init__(self, program: ServerProgram, surroundings: ProcessEnvironment, log: ServerLog) -> None:
        self._program = program
        self._surroundings = surroundings
        self._folder = surroundings.folder / Path(program.cwd).expanduser()
        self._process: SupervisedProcess | None = None
        self._returncode: int | None = None
        self.pipes = ProgramPipes(log)

    @property
    def trouble(self) -> str:
        """How it ended by itself; empty where it did not."""
        if self.pipes.trouble or not self.pipes.lost or self._process is None:
            return self.pipes.trouble
        code = self._returncode
        if code is None:
            return "it closed its output"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def __aenter__(self) -> tuple[IncomingMessages, OutgoingMessages]:
        given = child_environment(self._surroundings.environ)
        asked = SupervisedProgram(self._program.argv, self._folder, {**given, **self._program.env})
        self._process = await start_supervised(
            asked, lambda: self.pipes, stdin=subprocess.PIPE, on_exit=self.pipes.note_exit
        )
        return self.pipes.incoming, self.pipes.outgoing

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
        """Its input is closed, then it is asked, then forced; nothing that it started is left."""
        process = self._process
        if process is None:
            return
        self.pipes.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.pipes.exited.wait(), LEAVE_GRACE)
        finally:  # also where the engine ends, and with it every task
            self._returncode = process.returncode
            try:
                await process.end()
            finally:
                process.close()
