"""Messages over the pipes of a program: one a line, in bounded memory.

Imports the SDK: imported itself when the first server starts.
"""

import asyncio
from types import TracebackType
from typing import Final, Self, cast

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from vibe_jupyter.tools.mcp.incoming import Incoming
from vibe_jupyter.tools.mcp.lines import Lines, TooLong
from vibe_jupyter.tools.mcp.log import ServerLog

MESSAGE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of one message; a longer answer fails its call."""
NOISE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that are no message, since the last answer; a program that writes more is ended."""
UNREAD_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that wait for a program to read them."""
PROBE_TIMEOUT: Final = 3.0
"""Seconds for the first question of the newer protocol; who does not answer it is asked in the older one."""
PROBE: Final = "server/discover"
"""That question."""
_ORPHANED: Final = 0.2
"""Seconds for what is still in the pipes when the program has ended; what it started may hold them open."""


class Pipes(asyncio.SubprocessProtocol):
    """Both directions of one program; `incoming` and this are what the SDK calls streams."""

    def __init__(self, log: ServerLog) -> None:
        self.exited = asyncio.Event()
        self.trouble = ""
        """Why we stopped listening, where it was we."""
        self.heard = 0
        """Messages that came."""
        self.lost = False
        """Whether the program closed its output, not we."""
        self.incoming = Incoming(self._parse, self._set_reading)
        self._log = log
        self._lines = Lines(MESSAGE_LIMIT)
        self._asked: set[str | int] = set()
        self._noise = 0
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
                self._too_long(line)
            else:
                self.incoming.put(line)
        self._count_noise(self._lines.take_lost())

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

    # ---- what the SDK calls the stream to write to ----

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message. Where the program has gone nothing happens: the end of `incoming` tells it."""
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._note(item.message)
        pipe = self._stdin()
        if pipe is None or pipe.is_closing():
            return
        pipe.write(data + b"\n")
        if pipe.get_write_buffer_size() > UNREAD_LIMIT:
            self._give_up("it does not read what it is sent")

    async def aclose(self) -> None:
        """Its input stays open until the program is ended."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

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

    def _note(self, message: JSONRPCMessage) -> None:
        """Remember which answers are due."""
        if isinstance(message, JSONRPCRequest):
            self._asked.add(message.id)
            if message.method == PROBE:
                asyncio.get_running_loop().call_later(PROBE_TIMEOUT, self._refuse, message.id, "no answer")
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._asked.discard((message.params or {}).get("requestId", ""))

    def _parse(self, line: bytes) -> JSONRPCMessage | None:
        """The message of a line; None for one that is none, which goes to the log."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if line.strip():
                self._log.add("stdout", line[:4096].decode("utf-8", "replace"))
            self._count_noise(len(line) + 1)
            return None
        self.heard += 1
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._asked:
            self._asked.discard(message.id)
            self._noise = 0
        return message

    def _count_noise(self, size: int) -> None:
        self._noise += size
        if self._noise > NOISE_LIMIT:
            self._give_up(f"it wrote more than {NOISE_LIMIT // 2**20} MiB that are no answer")

    def _too_long(self, line: TooLong) -> None:
        """Fail the call it answers: known by its id, or because no other waits; at its end else all that wait."""
        waiting = set(self._asked)
        if line.request in waiting:
            failed = {line.request}
        elif line.ended or len(waiting) == 1:
            failed = waiting
        else:
            failed = set[str | int]()
        for request in failed:
            self._refuse(request, f"its answer is larger than {MESSAGE_LIMIT // 2**20} MiB")

    def _refuse(self, request: str | int, reason: str) -> None:
        """Answer one of our own requests in the server's place."""
        if request in self._asked:
            self._asked.discard(request)
            self.incoming.put(_error(request, reason))

    def _give_up(self, reason: str) -> None:
        self.trouble = self.trouble or reason
        self.incoming.end()


def _error(request: str | int, reason: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=INTERNAL_ERROR, message=reason))
