"""The connections that are kept between requests, and what the network said when one failed."""

import asyncio
import importlib
import json
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast
from urllib.parse import quote

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import failures, json_text
from vibe_jupyter.llm.request import AnswerLimits, Endpoint
from vibe_jupyter.safe_imports import without_collections, without_working_folder

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
                    verify=_ssl_context(tls=endpoint.tls),
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

    async def post(
        self, endpoint: Endpoint, body: bytes, headers: Mapping[str, str], limits: AnswerLimits
    ) -> "OpenAnswer":
        """Send a body as it is; gives the answer, whatever its status, as soon as it begins.

        Raises:
            ModelError: none began.
        """
        return await self._send("POST", endpoint, body, headers, limits)

    async def get(self, endpoint: Endpoint, headers: Mapping[str, str], limits: AnswerLimits) -> "OpenAnswer":
        """Ask for what is at an address; redirects are not followed.

        Raises:
            ModelError: no answer began.
        """
        return await self._send("GET", endpoint, b"", headers, limits)

    async def _send(
        self, method: str, endpoint: Endpoint, body: bytes, headers: Mapping[str, str], limits: AnswerLimits
    ) -> "OpenAnswer":
        load_http()
        import httpx  # noqa: PLC0415

        timeouts = {"connect": limits.connect, "read": limits.answer, "write": limits.gap, "pool": limits.connect}
        client = self.client(endpoint)
        try:
            request = client.build_request(
                method, endpoint.url, content=body, headers=dict(headers), extensions={"timeout": timeouts}
            )
            response = await client.send(request, stream=True)
        except (httpx.TransportError, httpx.InvalidURL) as problem:
            kind = "limit" if isinstance(problem, httpx.ReadTimeout) else "connection"
            raise failures.unreachable_error(endpoint, network_reason(problem), kind=kind) from None
        return OpenAnswer(response, endpoint)

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

    stand_in = ModuleType(name)
    stand_in.__dict__["main"] = main
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        sys.modules.pop(name, None)


class OpenAnswer:
    """An answer of a model server that is coming in, its bytes as they are."""

    def __init__(self, response: "httpx.Response", endpoint: Endpoint) -> None:
        self._response = response
        self._endpoint = endpoint
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._pieces = self._read()
        self._ends_by_itself = False

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body, read by read; asked again, what is left of it.

        Raises:
            ModelError: it broke off.
        """
        return self._pieces

    async def _read(self) -> AsyncGenerator[bytes, None]:
        import httpx  # noqa: PLC0415

        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except httpx.HTTPError as problem:
            raise failures.unreachable_error(self._endpoint, network_reason(problem)) from None

    async def whole(self, most: int) -> bytes:
        """All of the body, without the key where the server repeats it.

        Raises:
            ModelError: it broke off, or is longer.
        """
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > most:
                raise ModelError(f"{self._endpoint.place} sent more than {most:,} bytes.", kind="limit")
        found = bytes(body)
        for secret in self._endpoint.secrets:
            if len(secret) >= failures.MIN_REDACTED_KEY:
                found = found.replace(secret.encode(), b"[redacted]")
        return found

    def read_end(self, *, within: float) -> Coroutine[Any, Any, None]:
        """Read what is left for nobody, and close it; `close` does nothing from now on, also before this has begun.

        Args:
            within: seconds.
        """
        self._ends_by_itself = True
        return self._read_end(within)

    async def _read_end(self, within: float) -> None:
        try:
            with suppress(TimeoutError, ModelError):
                async with asyncio.timeout(within):
                    async for _ in self._pieces:
                        pass
        finally:
            await self._response.aclose()

    async def close(self) -> None:
        """End it, wherever it is."""
        if not self._ends_by_itself:
            await self._pieces.aclose()
            await self._response.aclose()


def _ssl_context(*, tls: bool) -> ssl.SSLContext:
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
