"""Persistent HTTP connections, and descriptions of network errors."""

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

KEEP_ALIVE = 60.0  # seconds an idle connection is kept open for the next turn
MAX_IDLE = 16  # idle connections; on each request, httpcore scans all connections once per idle one

# Includes modules that httpx imports lazily on first use.
_NETWORK = ("httpx", "httpcore", "h11", "anyio._backends._asyncio", "certifi")

SMALL = 1024 * 1024  # bytes of a JSON response
READ_GAP = 15.0  # seconds to connect, and between two reads
WHOLE = 120.0  # seconds for the whole response


class HttpConnections:
    """HTTP connection pools, one per kind of address, bound to one event loop."""

    def __init__(self) -> None:
        self._clients: dict[tuple[bool, bool], httpx.AsyncClient] = {}  # keyed by (loopback, TLS)
        self._loop: asyncio.AbstractEventLoop | None = None

    def client(self, endpoint: Endpoint) -> "httpx.AsyncClient":
        """Return the pooled client for an address.

        Clients of another event loop can be neither used nor closed from this one, so they are dropped.

        Raises:
            ModelError: The environment names a proxy that can't be used.
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
                    # use the environment's proxy for remote servers only
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
        """Close the connections of this event loop, and drop those of another one."""
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients.values():
                await client.aclose()


@cache
def load_http() -> None:
    """Import the HTTP stack, including what httpx imports lazily."""
    with without_working_folder(), without_collections(), _without_command_line():
        for name in _NETWORK:
            importlib.import_module(name)


@contextmanager
def _without_command_line() -> Generator[None]:
    """Keep httpx from importing its command line.

    It pulls in click, rich and pygments if they are installed, which takes longer than all the rest. `httpx.main` still
    imports it on demand.
    """
    name = "httpx._main"
    if "httpx" in sys.modules:
        yield
        return

    def main() -> None:
        importlib.import_module(name).main()

    with light_module(name, main=main):
        yield


def tls_context(*, tls: bool) -> ssl.SSLContext:
    """Return an SSL context that trusts certifi's CAs and the system's, SSL_CERT_FILE and SSL_CERT_DIR included.

    For plain http it is empty: loading the certificates would take 20 ms for nothing.
    """
    import httpx  # noqa: PLC0415

    if not tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def network_reason(problem: BaseException) -> str:
    """Describe a network error briefly for the user. HTTP libraries wrap the original exception several times."""
    for cause in exception_causes(problem):
        if words := network_words(cause):
            return words
    return str(problem) or type(problem).__name__


def network_words(cause: BaseException) -> str:
    """Describe one exception of the network, without its causes. Returns "" for any other."""
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
            return ""


def is_final(problem: BaseException) -> bool:
    """Return whether retrying can't help, as with an untrusted certificate."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in exception_causes(problem))


def exception_causes(problem: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception, its group members, causes and contexts."""
    while problem is not None:
        yield problem
        if isinstance(problem, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", problem)
            for part in group.exceptions:
                yield from exception_causes(part)
        problem = problem.__cause__ or problem.__context__


class FetchRequest(NamedTuple):
    """A small request outside the conversation."""

    method: str
    path: str  # appended to api_base
    body: JsonValue = None  # JSON body, or None for no body
    most: int = SMALL  # upper bound of the response in bytes

    @property
    def content(self) -> bytes:
        """The encoded body."""
        return b"" if self.body is None else json.dumps(self.body).encode()


class FetchResult(NamedTuple):
    """A response, whatever its status."""

    status: int
    content: bytes

    @property
    def json(self) -> dict[str, JsonValue]:
        """The body as a JSON object, or an empty one if it isn't one."""
        try:
            value = json_text.parse_json(self.content.decode("utf-8", "replace"))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class ResponseBody(Protocol):
    """A streaming HTTP response, as httpx provides it."""

    @property
    def status_code(self) -> int: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


def id_in_path(server_id: str) -> str:
    """Quote an id received from a server as a single path segment, so that it can't escape the path.

    Raises:
        ValueError: The id is empty or consists of dots.
    """
    if not server_id.strip("."):
        raise ValueError("The server gave no id.")
    return quote(server_id, safe="", errors="replace")


async def read_whole(response: ResponseBody, endpoint: Endpoint, most: int) -> FetchResult:
    """Read a whole response.

    Raises:
        ModelError: It is larger than `most` bytes.
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
