"""Streamable HTTP transport for remote servers, with limits on size and time.

Imports the SDK's HTTP client, so import this module only when the first server starts.
"""

import json
import re
import ssl
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from vibe_jupyter.config.tool_servers import ServerAddress
from vibe_jupyter.mcp.declared import is_loopback, public_address
from vibe_jupyter.mcp.pending_responses import MESSAGE_LIMIT, PROBE, PROBE_TIMEOUT, readable_text
from vibe_jupyter.mcp.sdk_errors import failure_reason
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from mcp.client._transport import (
        ReadStream,  # pyright: ignore[reportPrivateUsage]
        WriteStream,  # pyright: ignore[reportPrivateUsage]
    )

CONNECT_TIMEOUT: Final = 10.0  # seconds to connect to the server and to send it a request
# Seconds without data; a call has its own shorter timeout, suspended while a user is asked
STALL_TIMEOUT: Final = 3600.0

NOTICE_TIMEOUT: Final = 5.0  # seconds for a notification, which has no response
GOODBYE_TIMEOUT: Final = 1.0  # seconds for ending a session
ERROR_LIMIT: Final = 64 * 1024  # bytes read of an error response
SESSION_LOST: Final = "session lost"  # error data of a request whose session the server has lost
NOT_ALLOWED: Final = "not allowed"  # error data of a request that the server did not authorize
UNREACHABLE: Final = "unreachable"  # error data of a request that could not reach the server
_SIGN: Final = "; its key is missing or wrong"
_PACKED: Final = "it sent a compressed answer, which was not requested: its content could be of any size"
_ENDLESS: Final = "subscriptions/listen"
_SERVER_ERROR: Final = -32000

# Found in error responses of servers that lost the session
_NO_SESSION: Final = re.compile(rb"session|not initialized", re.IGNORECASE)

_KEPT_HEADERS: Final = ("www-authenticate", "retry-after", "mcp-session-id", "mcp-protocol-version")


@asynccontextmanager
async def http_transport(
    address: ServerAddress, auth: httpx2.Auth | None = None
) -> "AsyncGenerator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]":
    """Connect to a server, for one session."""
    async with (
        _http_client(address, auth) as client,
        streamable_http_client(address.url, http_client=client, max_sse_event_size=None) as streams,
    ):
        yield streams


def _http_client(address: ServerAddress, auth: httpx2.Auth | None) -> httpx2.AsyncClient:
    tls = address.url.lower().startswith("https:")
    with without_working_folder():  # httpx imports its network backend on first use
        # Proxies are used for other machines only.
        inner = httpx2.AsyncClient(
            verify=_ssl_context(tls=tls), trust_env=not is_loopback(address.url), timeout=CONNECT_TIMEOUT
        )
    return httpx2.AsyncClient(
        transport=BoundedTransport(inner, address.url),
        headers={**address.headers, "Accept-Encoding": "identity"},
        auth=auth,
        timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=STALL_TIMEOUT),
    )


def _ssl_context(*, tls: bool) -> ssl.SSLContext:
    """Build a context with certifi's authorities, the system's, and those of SSL_CERT_FILE and SSL_CERT_DIR."""
    if not tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx2.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Transport of one server that enforces limits and turns HTTP failures into JSON-RPC errors."""

    def __init__(self, inner: httpx2.AsyncClient, endpoint: str) -> None:
        self._inner = inner
        self._endpoint = httpx2.URL(endpoint)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = self._is_message(request)
        message = _request_message(request) if asked else {}
        _limit_time(request, message)
        try:
            response = await self._send_bounded(request)
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                await response.aclose()
                raise httpx2.RemoteProtocolError(_PACKED)
            if asked and response.status_code >= HTTPStatus.BAD_REQUEST:
                return await _refusal_response(response, request, message)
        except (httpx2.TransportError, OSError) as problem:
            if not asked:
                raise
            return _unreachable_response(problem)
        headers = [pair for pair in response.headers.multi_items() if pair[0].lower() != "content-length"]
        return httpx2.Response(
            response.status_code, headers=headers, stream=_Body(response), extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _is_message(self, request: httpx2.Request) -> bool:
        """Return whether the SDK expects a JSON-RPC response. Sign-in requests don't."""
        return (
            request.method == "POST"
            and _url_origin(request.url) == _url_origin(self._endpoint)
            and (request.url.path == self._endpoint.path or "mcp-protocol-version" in request.headers)
        )

    async def _send_bounded(self, request: httpx2.Request) -> httpx2.Response:
        if _url_origin(request.url) != _url_origin(self._endpoint):
            request = await self._send_abroad(request)
        return await self._inner.send(request, stream=True, follow_redirects=False)

    async def _send_abroad(self, request: httpx2.Request) -> httpx2.Request:
        """Restrict a request to another origin, as OAuth sends them: HTTPS only, and to a public address."""
        url = str(request.url)
        if is_loopback(url) and is_loopback(str(self._endpoint)):
            return request
        if request.url.scheme != "https":
            raise httpx2.UnsupportedProtocol(f"{request.url.host} is contacted over https only", request=request)
        address = await public_address(request.url.host, request.url.port or 443)
        if urllib.request.getproxies():  # the proxy resolves the host
            return request
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,  # with the host's name
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )


class _Body(httpx2.AsyncByteStream):
    """Response body with a size limit, of one document or of each event, and with JSON cut where it is too deep.

    Exceeding it raises a read error, which the SDK reports for this request only.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            async for event in httpx2.EventSource(self._response, MESSAGE_LIMIT):
                yield _event_text(event).encode(self._response.encoding or "utf-8", "replace")
            return
        try:
            body = await _read_body(self._response, MESSAGE_LIMIT)
        except httpx2.TransportError as problem:
            raise httpx2.StreamError("incomplete") from problem
        if len(body) > MESSAGE_LIMIT:
            raise httpx2.StreamError(f"larger than {MESSAGE_LIMIT // 2**20} MiB")
        yield readable_text(body)

    async def aclose(self) -> None:
        await self._response.aclose()


def _event_text(event: httpx2.ServerSentEvent) -> str:
    lines = readable_text(event.data.encode()).decode().split("\n")
    fields = [("event", event.event), ("id", event.id), *(("data", line) for line in lines)]
    if event.retry is not None:
        fields.append(("retry", str(event.retry)))
    return "".join(f"{name}: {value}\n" for name, value in fields) + "\n"


async def _refusal_response(
    response: httpx2.Response, request: httpx2.Request, message: dict[str, Any]
) -> httpx2.Response:
    """Convert a response of 400 and above to a JSON-RPC error: the server's own, or one that we make."""
    try:
        body = await _read_body(response, ERROR_LIMIT)
    finally:
        await response.aclose()
    said, status = _error_in(body), response.status_code
    data = None
    if "mcp-session-id" in request.headers and _is_session_lost(response, body, message):
        data, status = SESSION_LOST, HTTPStatus.NOT_FOUND  # no other status: 401 would begin a sign-in
    elif response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        data = NOT_ALLOWED
    in_our_words = said is None or data is not None
    words = _status_words(response.status_code) + (_SIGN if data == NOT_ALLOWED else "")
    content = _error_body(words, data) if in_our_words else body
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() in _KEPT_HEADERS]
    return httpx2.Response(status, headers=[*headers, ("content-type", "application/json")], content=content)


def _is_session_lost(response: httpx2.Response, body: bytes, message: dict[str, Any]) -> bool:
    """Return whether the server no longer knows the session, as after a restart.

    The protocol says 404. Many servers send 400, because an example of the SDK does, or 401. A response with the id of
    this very request is an ordinary error.
    """
    if response.status_code == HTTPStatus.NOT_FOUND:
        return True
    if response.status_code not in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED):
        return False
    if "www-authenticate" in response.headers or _NO_SESSION.search(body) is None:
        return False
    return _json_object(body).get("id") != message.get("id")


def _limit_time(request: httpx2.Request, message: dict[str, Any]) -> None:
    """Limit requests that have no waiting caller, so that they can't block later ones."""
    limits: dict[str, float | None] = dict(request.extensions.get("timeout", {}))
    if request.method == "DELETE":
        limits = dict.fromkeys(("connect", "read", "write", "pool"), GOODBYE_TIMEOUT)
    elif request.method == "GET" or message.get("method") == _ENDLESS:
        limits["read"] = None
    elif message and "id" not in message:
        limits["read"] = NOTICE_TIMEOUT
    elif message.get("method") == PROBE:
        limits["read"] = PROBE_TIMEOUT
    request.extensions = {**request.extensions, "timeout": limits}


def _request_message(request: httpx2.Request) -> dict[str, Any]:
    try:
        return _json_object(request.content)
    except httpx2.RequestNotRead:
        return {}


async def _read_body(response: httpx2.Response, limit: int) -> bytes:
    """Read a body. Of one beyond the limit, what was read until then is returned."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > limit:
            break
    return bytes(body)


def _error_in(body: bytes) -> object:
    """Return the JSON-RPC error in a response, or None."""
    return _json_object(body).get("error")


def _json_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object. Returns {} for anything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _status_words(status: int) -> str:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    return f"HTTP {status} {phrase}".strip()


def _unreachable_response(problem: Exception) -> httpx2.Response:
    content = _error_body(failure_reason(problem), UNREACHABLE)
    return httpx2.Response(
        HTTPStatus.SERVICE_UNAVAILABLE, headers={"content-type": "application/json"}, content=content
    )


def _error_body(message: str, data: str | None) -> bytes:
    error: dict[str, object] = {"code": _SERVER_ERROR, "message": message}
    if data is not None:
        error["data"] = data
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()


def _url_origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
