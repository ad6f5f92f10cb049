"""Requests of others, sent on to a model server as they are: nothing of them is understood, or sent twice.

By aiohttp, which reads HTTP in C: a request costs a third of what it does with httpx, by which a kernel asks.
"""

import asyncio
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
from vibe_jupyter.llm.request import AnswerLimits, Endpoint, Model

FETCH_SECONDS: Final = 60.0
"""For a whole file."""
END_SECONDS: Final = 5.0
"""For an answer that has said all."""
SLICE: Final = 256 * 1024
"""Bytes of a long body that are sent at a time."""
READ: Final = 64 * 1024
"""Bytes of an answer that wait for the client; with twice as many the model server waits too."""
HEADER: Final = 64 * 1024
"""Bytes of one header of an answer."""
_PROXIES: Final = frozenset({"http", "https"})
"""Schemes of proxies that can be used."""
_CHAT_PATH: Final = "/chat/completions"
_PATHS: Final = {"ollama": "/v1/chat/completions"}
"""Of Chat Completions, by dialect; Ollama speaks them beside an API of its own."""


class OpenAnswer:
    """An answer of a model server that is coming in, its bytes as they are."""

    def __init__(self, response: aiohttp.ClientResponse, endpoint: Endpoint) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._endpoint = endpoint
        self._ends_by_itself = False

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end.

        Raises:
            ModelError: it broke off.
        """
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise failures.unreachable_error(self._endpoint, _reason(problem)) from None

    async def whole(self, most: int) -> bytes:
        """All of the body, without the key where the server repeats it.

        Raises:
            ModelError: it broke off, or is longer.
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
        """Read what is left for nobody, and close it; `close` does nothing from now on, also before this has begun."""
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
        """End it, wherever it is; one that has said all leaves its connection to the next request."""
        if not self._ends_by_itself:
            self._response.close()


class Forwarder:
    """Keeps its connections from one request to the next. On one event loop."""

    def __init__(self, *, user_agent: str, limits: AnswerLimits | None = None) -> None:
        self._agent = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._limits = limits or AnswerLimits()
        self._session: aiohttp.ClientSession | None = None
        self._proxies: Mapping[str, str] = {}
        self._tls: ssl.SSLContext | None = None
        self._endings: set[asyncio.Task[None]] = set()

    async def post(self, model: Model, body: bytes) -> OpenAnswer:
        """The answer to Chat Completions of a body, whatever its status, as soon as it begins. Close it.

        Raises:
            ModelError: none began.
        """
        name = model.server.dialect
        endpoint = Endpoint.of(model, _PATHS.get(name, _CHAT_PATH), base_ends=DIALECTS[name].base_ends)
        headers = {**endpoint.headers, **self._agent, "Content-Type": "application/json"}
        if endpoint.key is not None:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        if len(body) <= SLICE:
            return await self._send("POST", endpoint, headers, body)
        return await self._send("POST", endpoint, {**headers, "Content-Length": str(len(body))}, _slices(body))

    async def fetch(self, url: str, *, most: int) -> bytes:
        """What is at an address of another server; redirects are not followed.

        Raises:
            ModelError: it is not there, too slow, or too long.
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
    ) -> OpenAnswer:
        session = self._session or self._open()
        proxy = self._proxy(endpoint)
        try:
            async with asyncio.timeout(self._limits.answer):
                response = await session.request(
                    method,
                    endpoint.url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=proxy,
                    ssl=self._context() if endpoint.tls else True,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            waits = isinstance(problem, TimeoutError) and not isinstance(problem, aiohttp.ConnectionTimeoutError)
            raise failures.unreachable_error(
                endpoint, _reason(problem), kind="limit" if waits else "connection"
            ) from None
        except ValueError as problem:
            raise failures.unreachable_error(endpoint, f"its address cannot be used: {problem}") from None
        return OpenAnswer(response, endpoint)

    def _open(self) -> aiohttp.ClientSession:
        limits = self._limits
        self._proxies = getproxies()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect, sock_read=limits.answer),
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
        """That of the environment; it is asked for what is on other machines only.

        Raises:
            ModelError: it cannot be used.
        """
        if endpoint.loopback or not self._proxies or proxy_bypass(endpoint.host):
            return None
        kind = next((one for one in ("https" if endpoint.tls else "http", "all") if one in self._proxies), None)
        return None if kind is None else _proxy_url(endpoint, f"{kind.upper()}_PROXY", self._proxies[kind])

    def let_end(self, answer: OpenAnswer) -> None:
        """Close an answer that has said all once it has ended, so that its connection serves the next request too.

        Nobody waits for that.
        """
        ending = asyncio.create_task(answer.read_end())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*self._endings)
        if self._session is not None:
            await self._session.close()


def _proxy_url(endpoint: Endpoint, variable: str, value: str) -> str:
    """The address of a proxy, which may be given without its scheme.

    Raises:
        ModelError: it cannot be used; says so without the value, which may hold a password.
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
    """A few words for a user."""
    match problem:
        case aiohttp.InvalidURL():  # its text may hold a password
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
