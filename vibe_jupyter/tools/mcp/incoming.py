"""Messages from a program, in the order they came: one of the two streams that the SDK takes.

Imports the SDK: imported itself when the first server starts.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

_HIGH: Final = 1024 * 1024
"""Bytes that wait to be taken, above which reading rests."""
_LOW: Final = 256 * 1024
"""Bytes below which it goes on."""


class Incoming:
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
                if (message := self._take()) is not None:
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

    def _take(self) -> SessionMessage | None:
        line = self._waiting.popleft()
        if not isinstance(line, bytes):
            return SessionMessage(line)
        self._size -= len(line)
        if self._rests and self._size < _LOW:
            self._rests = False
            self._set_reading(True)
        message = self._parse(line)
        return None if message is None else SessionMessage(message)
