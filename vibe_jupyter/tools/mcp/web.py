"""A server that runs elsewhere, spoken to over streamable HTTP.

Imports the SDK: imported itself when the first server starts.
"""

import ssl
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from vibe_jupyter.tools.mcp.addresses import is_loopback
from vibe_jupyter.tools.mcp.due import MESSAGE_LIMIT
from vibe_jupyter.tools.mcp.guard import Guard
from vibe_jupyter.tools.mcp.server import Address

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream  # pyright: ignore[reportPrivateUsage]

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to reach the server, and to hand it a request."""
STALL_TIMEOUT: Final = 3600.0
"""Seconds without a byte of an answer; a call has its own, shorter time, which rests while a person is asked."""


class WebTransport:
    """One life of the connection; the SDK's Client enters and leaves it."""

    def __init__(self, address: Address, auth: httpx2.Auth | None = None) -> None:
        self._address = address
        self._auth = auth
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "tuple[ReadStream[SessionMessage | Exception], Checked]":
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._client())
            streams = streamable_http_client(self._address.url, http_client=client, max_sse_event_size=MESSAGE_LIMIT)
            read, write = await stack.enter_async_context(streams)
            self._stack = stack.pop_all()
        return read, Checked(write)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(exc_type, exc_val, exc_tb)

    def _client(self) -> httpx2.AsyncClient:
        tls = self._address.url.lower().startswith("https:")
        # A proxy is asked for what is on other machines only.
        inner = httpx2.AsyncClient(
            verify=_trust(tls=tls), trust_env=not is_loopback(self._address.url), timeout=CONNECT_TIMEOUT
        )
        return httpx2.AsyncClient(
            transport=Guard(inner, self._address.url),
            headers={**self._address.headers, "Accept-Encoding": "identity"},
            auth=self._auth,
            timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=STALL_TIMEOUT),
        )


class Checked:
    """The stream to write to; what cannot be sent fails the call alone, not the connection."""

    def __init__(self, inner: "WriteStream[SessionMessage]") -> None:
        self._inner = inner

    async def send(self, item: SessionMessage, /) -> None:
        """Hand on a message, if it can be written as JSON."""
        item.message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._inner.send(item)

    async def aclose(self) -> None:
        """No more is sent."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def _trust(*, tls: bool) -> ssl.SSLContext:
    """The public authorities, and those of the system, SSL_CERT_FILE and SSL_CERT_DIR."""
    if not tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx2.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context
