"""The connections that are kept from one request to the next."""

import asyncio
import importlib
import ssl
from functools import cache
from typing import TYPE_CHECKING

from vibe_jupyter.llm import failures
from vibe_jupyter.llm.endpoint import Endpoint
from vibe_jupyter.own_imports import without_working_folder

if TYPE_CHECKING:
    import httpx

KEEP_ALIVE = 60.0
"""Seconds an idle connection is kept for the next turn."""

_NETWORK = ("httpx", "httpcore", "h11", "anyio._backends._asyncio", "certifi")
"""What httpx imports by itself when it is first used is among them."""


class Connections:
    """One pool for each kind of address, all on one event loop."""

    def __init__(self) -> None:
        self._clients: dict[tuple[bool, bool], httpx.AsyncClient] = {}
        """By whether the address is loopback, and whether it speaks TLS."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def client(self, endpoint: Endpoint) -> "httpx.AsyncClient":
        """The kept client; one that belongs to another event loop cannot be used or closed here, and is dropped.

        Raises:
            ModelError: the environment names a proxy that cannot be used.
        """
        import httpx  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._clients = loop, {}
        kind = (endpoint.loopback, endpoint.tls)
        if kind not in self._clients:
            try:
                self._clients[kind] = httpx.AsyncClient(
                    verify=_trust(tls=endpoint.tls),
                    # A proxy is asked for what is on other machines only.
                    trust_env=not endpoint.loopback,
                    follow_redirects=False,
                    limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE),
                )
            except (ImportError, ValueError) as problem:
                raise failures.unreachable(endpoint, f"the proxy that is set cannot be used: {problem}") from problem
        return self._clients[kind]

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients.values():
                await client.aclose()


@cache
def load() -> None:
    """Import what speaks HTTP, with what it imports when first used."""
    with without_working_folder():
        for name in _NETWORK:
            importlib.import_module(name)


def _trust(*, tls: bool) -> ssl.SSLContext:
    """The public authorities, and those of the system, SSL_CERT_FILE and SSL_CERT_DIR. For plain http none: reading
    them would take 20 ms for nothing."""
    import httpx  # noqa: PLC0415

    if not tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context
