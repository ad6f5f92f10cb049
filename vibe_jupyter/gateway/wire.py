"""ASGI output of a response, with keep-alives for silent streams."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from starlette.types import Send

from vibe_jupyter.gateway.refusals import JSON

_EVENT_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
_TAIL: Final = 3  # length of the longest of `_EVENT_ENDS`


class AnswerWire:
    """HTTP response. Call `begin` once, then `write` until the body is complete."""

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None) -> None:
        """
        Args:
            send: ASGI `send` of the server.
            headers: added to every response.
        """
        self.has_begun = False
        self.streams = False  # True once it has begun as a stream
        self._send = send
        self._headers = headers or {}
        self._is_over = False
        self._written = time.monotonic()
        self._tail = b""  # last bytes that were sent

    async def begin(self, status: int, headers: Mapping[str, str], *, stream: bool = False) -> None:
        """Send status and headers."""
        self.has_begun, self.streams = True, stream
        pairs = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in {**headers, **self._headers}.items()
        ]
        pairs.append((b"cache-control", b"no-store"))
        if stream:
            pairs.append((b"x-accel-buffering", b"no"))  # turns off buffering in nginx
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send data. Returns when the client can accept more."""
        self._written = time.monotonic()
        self._is_over = self._is_over or not more
        self._tail = (self._tail + data[-_TAIL:])[-_TAIL:]
        if data or not more:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a complete response, as JSON unless its headers specify another type."""
        await self.begin(status, {"content-type": JSON, **(headers or {}), "content-length": str(len(body))})
        await self.write(body, more=False)

    async def keep_alive(self, sign: bytes, seconds: float) -> None:
        """Send `sign` whenever a stream has been silent for `seconds`, until cancelled.

        Nothing is sent inside an event: a forwarded stream may pause there, for example behind a proxy that sends
        blocks of fixed size.
        """
        while not self._is_over:
            silent = time.monotonic() - self._written
            if silent < seconds:
                await asyncio.sleep(seconds - silent)
            elif self.streams and (not self._tail or self._tail.endswith(_EVENT_ENDS)):
                await self.write(sign)
            else:
                await asyncio.sleep(seconds)
