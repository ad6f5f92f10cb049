"""The connections that are kept between requests, and what the network said when one failed."""

import asyncio
import importlib
import json
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast
from urllib.parse import quote

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import failures, json_text
from vibe_jupyter.llm.request import Endpoint
from vibe_jupyter.safe_imports import light_module, without_collections, without_working_folder

if TYPE_CHECKING:
    import httpx

KEEP_ALIVE = 60.0
"""Seconds an idle connection is kept for the next turn."""
MAX_IDLE = 16
"""Idle connections that are kept: at each request httpcore looks at all connections once for every idle one."""

_NETWORK = ("httpx", "httpcore", "h11", "anyio._backends._asyncio", "certifi")
"""What httpx imports by itself when it is first used is among them."""

SMALL = 1024 * 1024
"""Bytes of an answer in JSON."""
READ_GAP = 15.0
"""Seconds to a connection, and between two reads."""
WHOLE = 120.0
"""Seconds for all of it."""


class HttpConnections:
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
                    verify=tls_context(tls=endpoint.tls),
                    # A proxy is asked for what is on other machines only.
                    trust_env=not endpoint.loopback,
                    follow_redirects=False,
                    limits=httpx.Limits(max_keepalive_connections=MAX_IDLE, keepalive_expiry=KEEP_ALIVE),
                )
            except (ImportError, ValueError) as problem:
                raise failures.unreachable_error(
                    endpoint, f"the configured proxy cannot be used: {problem}"
                ) from problem
        return self._clients[kind]

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients.values():
                await client.aclose()


@cache
def load_http() -> None:
    """Import what speaks HTTP, with what it imports when first used."""
    with without_working_folder(), without_collections(), _without_command_line():
        for name in _NETWORK:
            importlib.import_module(name)


@contextmanager
def _without_command_line() -> Generator[None]:
    """httpx imports its command line, and with it click, rich and pygments where they are installed, which takes longer
    than all the rest of it. Whoever calls `httpx.main` gets it then."""
    name = "httpx._main"
    if "httpx" in sys.modules:
        yield
        return

    def main() -> None:
        importlib.import_module(name).main()

    with light_module(name, main=main):
        yield


def tls_context(*, tls: bool) -> ssl.SSLContext:
    """The public authorities, and those of the system, SSL_CERT_FILE and SSL_CERT_DIR. For plain http none: reading
    them would take 20 ms for nothing."""
    import httpx  # noqa: PLC0415

    if not tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def network_reason(problem: BaseException) -> str:
    """A few words for a user; HTTP libraries wrap what happened several times."""
    for cause in _exception_causes(problem):
        match cause:
            case ConnectionRefusedError():
                return "connection refused"
            case socket.gaierror():
                return "host not found"
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted: {cause.verify_message}"
            case ssl.SSLError():
                return f"TLS failed: {cause or 'broken handshake'}"
            case ConnectionResetError() | BrokenPipeError():
                return "the connection broke"
            case TimeoutError():
                return "timed out"
            case _:
                pass
    return str(problem) or type(problem).__name__


def is_final(problem: BaseException) -> bool:
    """Whether asking again cannot help: a certificate does not become trusted by it."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _exception_causes(problem))


def _exception_causes(problem: BaseException | None) -> Iterator[BaseException]:
    """The exception, what is in it, and what is behind it."""
    while problem is not None:
        yield problem
        if isinstance(problem, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", problem)
            for part in group.exceptions:
                yield from _exception_causes(part)
        problem = problem.__cause__ or problem.__context__


class FetchRequest(NamedTuple):
    """What to ask."""

    method: str
    path: str
    """What follows api_base."""
    body: JsonValue = None
    """None sends none."""
    most: int = SMALL
    """Bytes that are taken."""

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        return b"" if self.body is None else json.dumps(self.body).encode()


class FetchResult(NamedTuple):
    """What came back, whatever its status."""

    status: int
    content: bytes

    @property
    def json(self) -> dict[str, JsonValue]:
        """The object it is; empty where it is none."""
        try:
            value = json_text.parse_json(self.content.decode("utf-8", "replace"))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class ResponseBody(Protocol):
    """A response that is coming in."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, read by read."""
        ...

    async def aclose(self) -> None:
        """End it."""
        ...


def id_in_path(server_id: str) -> str:
    """An id that a server gave, as one piece of a path: it cannot lead elsewhere.

    Raises:
        ValueError: it is no piece of a path.
    """
    if not server_id.strip("."):
        raise ValueError("The server gave no id.")
    return quote(server_id, safe="", errors="replace")


async def read_whole(response: ResponseBody, endpoint: Endpoint, most: int) -> FetchResult:
    """The whole of a response.

    Raises:
        ModelError: it is longer than wanted.
    """
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > most:
                raise ModelError(f"{endpoint.place} sent more than {most:,} bytes; nothing was kept.", kind="limit")
    finally:
        await response.aclose()
    return FetchResult(response.status_code, bytes(content))
