"""Messages over the pipes of a program: one a line, in bounded memory.

Imports the SDK: imported itself when the first server starts.
"""

import asyncio
from types import TracebackType
from typing import Final, Self, cast

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from vibe_jupyter.tools.mcp.due import MESSAGE_LIMIT, Due
from vibe_jupyter.tools.mcp.incoming import Incoming
from vibe_jupyter.tools.mcp.lines import Lines, TooLong
from vibe_jupyter.tools.mcp.log import ServerLog

UNREAD_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that wait for a program to read them."""
_ORPHANED: Final = 0.2
"""Seconds for what is still in the pipes when the program has ended; what it started may hold them open."""


class Pipes(asyncio.SubprocessProtocol):
    """Both directions of one program."""

    def __init__(self, log: ServerLog) -> None:
        self.exited = asyncio.Event()
        self.trouble = ""
        """Why we stopped listening, where it was we."""
        self.lost = False
        """Whether the program closed its output, not we."""
        self.due = Due(log, self._put, self._give_up)
        self.incoming = Incoming(self.due.parse, self._set_reading)
        self.outgoing = Outgoing(self)
        self._log = log
        self._lines = Lines(MESSAGE_LIMIT)
        self._closed = False
        self._process: asyncio.SubprocessTransport | None = None

    # ---- what asyncio tells ----

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

    def process_exited(self) -> None:
        self.exited.set()
        self.lost = self.lost or not self._closed
        asyncio.get_running_loop().call_later(_ORPHANED, self.incoming.end)

    # ---- what we tell it ----

    def write(self, data: bytes) -> None:
        """Send bytes. Where the program has gone nothing happens: the end of `incoming` tells it."""
        pipe = self._stdin()
        if pipe is None or pipe.is_closing():
            return
        pipe.write(data)
        if pipe.get_write_buffer_size() > UNREAD_LIMIT:
            self._give_up("it does not read what it is sent")

    def close(self) -> None:
        """Close its input; what it says from now on is thrown away."""
        self._closed = True
        self.incoming.end()
        if pipe := self._stdin():
            pipe.close()
        self._set_reading(True)

    # ---- private ----

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._process.get_pipe_transport(0)) if self._process else None

    def _set_reading(self, reading: bool) -> None:
        """Let the program wait while more came than was taken, or hear it again."""
        pipe = self._process.get_pipe_transport(1) if self._process else None
        if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
            (pipe.resume_reading if reading else pipe.pause_reading)()

    def _put(self, message: JSONRPCMessage) -> None:
        self.incoming.put(message)

    def _give_up(self, reason: str) -> None:
        self.trouble = self.trouble or reason
        self.incoming.end()


class Outgoing:
    """The stream the SDK writes to."""

    def __init__(self, pipes: Pipes) -> None:
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
