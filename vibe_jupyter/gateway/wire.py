"""The bytes of one answer, and the comments that keep a silent stream alive."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from starlette.types import Send

from vibe_jupyter.gateway.refusals import JSON

_EVENT_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
_TAIL: Final = 3
"""Bytes of the longest of them."""


class AnswerWire:
    """One answer: `begin` it once, then `write` until the last."""

    def __init__(self, send: Send) -> None:
        self.has_begun = False
        self.streams = False
        """Whether it has begun as a stream."""
        self._send = send
        self._is_over = False
        self._written = time.monotonic()
        self._tail = b""
        """The last bytes that were sent."""

    async def begin(self, status: int, headers: Mapping[str, str], *, stream: bool = False) -> None:
        """Send status and headers."""
        self.has_begun, self.streams = True, stream
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        pairs.append((b"cache-control", b"no-store"))
        if stream:
            pairs.append((b"x-accel-buffering", b"no"))  # nginx would collect it
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send bytes; returns when the client can take more."""
        self._written = time.monotonic()
        self._is_over = self._is_over or not more
        self._tail = (self._tail + data[-_TAIL:])[-_TAIL:]
        if data or not more:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer; it is JSON unless its headers say otherwise."""
        await self.begin(status, {"content-type": JSON, **(headers or {}), "content-length": str(len(body))})
        await self.write(body, more=False)

    async def keep_alive(self, sign: bytes, seconds: float) -> None:
        """Send a sign whenever a stream was silent for so long, until cancelled.

        None inside an event: a stream that is passed on as it is may be silent there, as behind a proxy that sends
        blocks of one size.
        """
        while not self._is_over:
            silent = time.monotonic() - self._written
            if silent < seconds:
                await asyncio.sleep(seconds - silent)
            elif self.streams and (not self._tail or self._tail.endswith(_EVENT_ENDS)):
                await self.write(sign)
            else:
                await asyncio.sleep(seconds)
