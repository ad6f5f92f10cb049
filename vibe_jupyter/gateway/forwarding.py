"""HTTP client that sends requests of others to a model server unmodified: no parsing, no retries.

It uses aiohttp, which parses HTTP in C: a request costs a third of what it costs with httpx, the kernel's client.
"""

import asyncio
import math
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import failures
from vibe_jupyter.llm.connections import KEEP_ALIVE, load_http, network_reason, tls_context
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.request import AnswerLimits, Endpoint, Model, Server

FETCH_SECONDS: Final = 60.0  # seconds to download a complete file
END_SECONDS: Final = 5.0  # seconds for a finished stream to close its body
SLICE: Final = 256 * 1024  # bytes of a long request body written at a time
# Bytes of an answer buffered for a slow client; at twice this many, reading from the model server pauses
READ: Final = 64 * 1024
HEADER: Final = 64 * 1024  # bytes of one response header
_PROXIES: Final = frozenset({"http", "https"})  # supported proxy schemes
_CHAT_PATH: Final = "/chat/completions"
_PATHS: Final = {"ollama": "/v1/chat/completions"}  # Chat Completions by dialect; Ollama offers them beside its own API


class OpenAnswer:
    """Response of a model server whose body is still being received. Its bytes are unmodified."""

    def __init__(self, response: aiohttp.ClientResponse, endpoint: Endpoint, limits: AnswerLimits) -> None:
        """
        Args:
            response: response whose headers have been received.
            endpoint: where it was requested.
            limits: timeouts for the first read of the body, and between two reads.
        """
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._endpoint = endpoint
        self._begin, self._idle = limits.answer, limits.gap
        self._has_begun = False
        self._ends_by_itself = False

    async def read(self) -> bytes:
        """Return the next piece of the body, or b"" at its end.

        Raises:
            ModelError: the connection broke, or no data was received in time.
        """
        try:
            piece = await self._response.content.readany()
        except TimeoutError:
            raise self._late_error() from None
        except (aiohttp.ClientError, OSError) as problem:
            raise failures.unreachable_error(self._endpoint, _reason(problem)) from None
        connection = self._response.connection
        if not self._has_begun and connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = _bounded(self._idle)
        self._has_begun = True
        return piece

    def _late_error(self) -> ModelError:
        seconds = self._idle if self._has_begun else self._begin
        setting = failures.IDLE_SETTING if self._has_begun else failures.BEGIN_SETTING
        return failures.broken_error(self._endpoint, failures.late_answer("nothing came for", seconds, setting), "")

    async def whole(self, most: int) -> bytes:
        """Return the complete body, with secrets redacted in case the server echoes the key.

        Raises:
            ModelError: the connection broke, or the body is longer than `most` bytes.
        """
        body = bytearray()
        while piece := await self.read():
            body += piece
            if len(body) > most:
                raise ModelError(f"{self._endpoint.place} sent more than {most:,} bytes.", kind="limit")
        found = bytes(body)
        for secret in self._endpoint.secrets:
            if len(secret) >= failures.MIN_REDACTED_KEY:
                found = found.replace(secret.encode(), b"[redacted]")
        return found

    def read_end(self) -> Coroutine[Any, Any, None]:
        """Return a coroutine that discards the rest of the body and closes the response.

        Calling it makes `close` a no-op at once, before the coroutine starts.
        """
        self._ends_by_itself = True
        return self._read_end()

    async def _read_end(self) -> None:
        try:
            with suppress(TimeoutError, ModelError):
                async with asyncio.timeout(END_SECONDS):
                    while await self.read():
                        pass
        finally:
            self._response.close()

    def close(self) -> None:
        """Close the response. After a body that was read completely, the connection can be reused."""
        if not self._ends_by_itself:
            self._response.close()


class Forwarder:
    """HTTP client with a connection pool. Bound to one event loop."""

    def __init__(self, *, user_agent: str, limits: AnswerLimits | None = None) -> None:
        # Bodies are forwarded as received, so the server must not compress them
        self._agent = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._limits = limits or AnswerLimits()
        self._session: aiohttp.ClientSession | None = None
        self._proxies: Mapping[str, str] = {}
        self._tls: ssl.SSLContext | None = None
        self._endings: set[asyncio.Task[None]] = set()

    async def post(self, model: Model, body: bytes) -> OpenAnswer:
        """Send a Chat Completions request and return the response once its headers arrive, whatever its status.

        The caller closes the response.

        Raises:
            ModelError: the server can't be reached, or didn't respond in time.
        """
        name = model.server.dialect
        endpoint = Endpoint.of(model, _PATHS.get(name, _CHAT_PATH), base_ends=DIALECTS[name].base_ends)
        headers = {**endpoint.headers, **self._agent, "Content-Type": "application/json"}
        if endpoint.key is not None:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        limits = self._limits_of(model.server)
        if len(body) <= SLICE:
            return await self._send("POST", endpoint, headers, body, limits=limits)
        headers["Content-Length"] = str(len(body))
        return await self._send("POST", endpoint, headers, _slices(body), limits=limits)

    def _limits_of(self, server: Server) -> AnswerLimits:
        begin = self._limits.answer if server.begin_wait is None else server.begin_wait
        return self._limits._replace(answer=begin, gap=begin if server.idle_wait is None else server.idle_wait)

    async def fetch(self, url: str, *, most: int) -> bytes:
        """Download a file from another server. Redirects aren't followed.

        Raises:
            ModelError: it doesn't exist, took too long, or is longer than `most` bytes.
        """
        endpoint = Endpoint.at(url)
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                answer = await self._send("GET", endpoint, self._agent)
                try:
                    if answer.status != HTTPStatus.OK:
                        raise ModelError(
                            f"{endpoint.host} answered {answer.status}.", kind="http", status=answer.status
                        )
                    return await answer.whole(most)
                finally:
                    answer.close()
        except TimeoutError:
            raise ModelError(f"{endpoint.host} did not send it in {FETCH_SECONDS:g} s.", kind="limit") from None

    async def _send(
        self,
        method: str,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes] | None = None,
        limits: AnswerLimits | None = None,
    ) -> OpenAnswer:
        session = self._session or self._open()
        limits = limits or self._limits._replace(gap=self._limits.answer)
        proxy = self._proxy(endpoint)
        try:
            async with asyncio.timeout(limits.answer):
                response = await session.request(
                    method,
                    endpoint.url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=proxy,
                    ssl=self._context() if endpoint.tls else True,
                    timeout=aiohttp.ClientTimeout(
                        total=None, connect=limits.connect, sock_read=_bounded(limits.answer)
                    ),
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            if isinstance(problem, TimeoutError) and not isinstance(problem, aiohttp.ConnectionTimeoutError):
                raise failures.late_error(endpoint, limits.answer) from None
            raise failures.unreachable_error(endpoint, _reason(problem)) from None
        except ValueError as problem:
            raise failures.unreachable_error(endpoint, f"its address cannot be used: {problem}") from None
        return OpenAnswer(response, endpoint, limits)

    def _open(self) -> aiohttp.ClientSession:
        self._proxies = getproxies()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),  # unlimited: streams must not queue
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ,
            max_line_size=HEADER,
            max_field_size=HEADER,
        )
        return self._session

    def _context(self) -> ssl.SSLContext:
        load_http()
        self._tls = self._tls or tls_context(tls=True)
        return self._tls

    def _proxy(self, endpoint: Endpoint) -> str | None:
        """Return the proxy that the environment sets for a host. Loopback hosts are never proxied.

        Raises:
            ModelError: the proxy can't be used.
        """
        if endpoint.loopback or not self._proxies or proxy_bypass(endpoint.host):
            return None
        kind = next((one for one in ("https" if endpoint.tls else "http", "all") if one in self._proxies), None)
        return None if kind is None else _proxy_url(endpoint, f"{kind.upper()}_PROXY", self._proxies[kind])

    def let_end(self, answer: OpenAnswer) -> None:
        """Close a finished answer in the background once its body ends, so that the connection can be reused."""
        ending = asyncio.create_task(answer.read_end())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._endings)
        if self._session is not None:
            await self._session.close()


def _bounded(seconds: float) -> float | None:
    """Return a timeout for aiohttp, which can't round an infinite one to whole seconds and takes None for it."""
    return None if math.isinf(seconds) else seconds


def _proxy_url(endpoint: Endpoint, variable: str, value: str) -> str:
    """Return the proxy's URL. The variable may omit the scheme.

    Raises:
        ModelError: the proxy can't be used. The message omits the value, which may contain a password.
    """
    url = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(url)
        if parts.scheme in _PROXIES and parts.hostname and parts.port != 0:
            return url
        is_socks = parts.scheme.startswith("socks")
    except ValueError:
        is_socks = False
    words = "a SOCKS proxy, which the gateway cannot use" if is_socks else "no HTTP proxy"
    raise failures.unreachable_error(endpoint, f"{variable} names {words}")


def _reason(problem: BaseException) -> str:
    """Describe a network error to the user in a few words."""
    match problem:
        case aiohttp.InvalidURL():  # the exception's text may contain a password
            return "its address, or that of the proxy, cannot be read"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {problem.status}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy: {network_reason(problem.os_error)}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "the connection broke"
        case aiohttp.ClientConnectorCertificateError():
            return network_reason(problem.certificate_error)
        case aiohttp.ClientConnectorError():
            return network_reason(problem.os_error)
        case _:
            return network_reason(problem)


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for place in range(0, len(body), SLICE):
        yield body[place : place + SLICE]
