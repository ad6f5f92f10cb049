"""HTTP side of the served notebook: access control, client sessions and the server.

In protocol versions with `initialize` each client has a session, and most clients never end theirs, so a client that
restarts forty times a day would leave forty behind. A session with a pending request or an open stream belongs to a
live client and is never evicted.
"""

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.mcp_server.connections import Connection

MAX_SESSIONS: Final = 32
SESSION_HEADER: Final = b"mcp-session-id"
_VERSION_HEADER: Final = b"mcp-protocol-version"

PATH: Final = "/mcp"
GONE: Final = "vibe_jupyter.gone"  # key in the ASGI scope: an event that is set when the client has disconnected

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_REFUSALS: Final = {
    401: "Not allowed: the token is missing or wrong. It is new each time the notebook is served.",
    403: "Not allowed: this is for programs on this machine, not for web pages.",
    404: f"Only {PATH} is served here.",
    415: "Only application/json is accepted.",
}

HOST: Final = "127.0.0.1"
TOKEN_BYTES: Final = 32
MAX_BODY: Final = 4 * 1024 * 1024  # bytes of one request
MAX_CONNECTIONS: Final = 128
KEEP_ALIVE: Final = 75  # seconds; `vibe-jupyter mcp` drops its idle connection earlier (notebook_client.KEEP)
IDLE: Final = 8 * 3600  # seconds after which an idle session expires
CLOSE_WAIT: Final = 3.0  # seconds for connections to close before they are abandoned
START_WAIT: Final = 5.0  # seconds for the server to start
_LOOK: Final = 0.01  # seconds between checks whether the server has started


class Sessions:
    """ASGI middleware that limits the number of sessions and evicts idle ones."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner
        self._under_way: dict[bytes, int] = {}  # number of pending requests by session, least recently used first
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = _header(scope["headers"], SESSION_HEADER)
        if session in self._under_way:
            await self._use_session(session, scope, receive, send)
        elif session is None and scope["method"] == "POST" and not _is_without_sessions(scope):
            await self._open_session(scope, receive, send)
        else:
            await self._inner(scope, receive, send)

    async def _use_session(self, session: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        self._under_way[session] = self._under_way.pop(session) + 1
        gone = scope["method"] == "DELETE"

        async def watched(message: MutableMapping[str, Any]) -> None:
            if message.get("status") == HTTPStatus.NOT_FOUND:  # the session expired
                self._under_way.pop(session, None)
            await send(message)

        try:
            await self._inner(scope, receive, watched)
        finally:
            left = self._under_way.pop(session, None)
            if left is not None and not gone:
                self._under_way[session] = left - 1

    async def _open_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make_room()
        self._opening += 1
        opened: list[bytes] = []

        async def watched(message: MutableMapping[str, Any]) -> None:
            session = _header(message.get("headers", []), SESSION_HEADER)
            if session is not None and message.get("status") == HTTPStatus.OK:
                opened.append(session)
                self._opening -= 1
                self._under_way[session] = 1
            await send(message)

        try:
            await self._inner(scope, receive, watched)
        finally:
            self._opening -= not opened
            for session in self._under_way.keys() & opened:
                self._under_way[session] = self._under_way.pop(session) - 1

    async def _make_room(self) -> None:
        """Evict the least recently used idle session if there are too many.

        If all are in use, the server answers 503.
        """
        while len(self._under_way) + self._opening >= MAX_SESSIONS:
            idle = next((session for session, requests in self._under_way.items() if requests == 0), None)
            if idle is None:
                return
            del self._under_way[idle]
            await self._inner(_end_of(idle), _nothing, _unheard)


def _is_without_sessions(scope: Scope) -> bool:
    version = _header(scope["headers"], _VERSION_HEADER)
    return version is not None and version.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    return next((value for key, value in headers if key.lower() == name), None)


def _end_of(session: bytes) -> Scope:
    """Build the request with which a client ends its session."""
    headers = [(SESSION_HEADER, session), (b"accept", b"*/*")]
    return {"type": "http", "method": "DELETE", "path": PATH, "query_string": b"", "headers": headers}


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_message: MutableMapping[str, Any]) -> None:
    """Discard the response to an internal request."""


class TokenGuard:
    """ASGI middleware that checks host, origin, token, path and content type."""

    def __init__(self, inner: Application, *, token: str, port: int) -> None:
        self._inner = inner
        self._token = f"Bearer {token}".encode()
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal_status(scope)
        if refusal is not None:
            await _send_refusal(refusal, send)
            return
        gone = scope[GONE] = asyncio.Event()

        async def watched() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        await self._inner(scope, watched, send)

    def _refusal_status(self, scope: Scope) -> int | None:
        """Return the status code of the rejection, or None to accept."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]

        def values(name: bytes) -> list[bytes]:
            return [value for key, value in headers if key.lower() == name]

        hosts, origins, tokens, kinds = map(values, (b"host", b"origin", b"authorization", b"content-type"))
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts or not self._origins.issuperset(origins):
            return 403
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token):
            return 401
        if scope["path"] != PATH:
            return 404
        if scope["method"] == "POST" and (len(kinds) != 1 or _media_type(kinds[0]) != b"application/json"):
            return 415
        return None


def _media_type(value: bytes) -> bytes:
    return value.split(b";", 1)[0].strip().lower()


async def _send_refusal(status: int, send: Send) -> None:
    body = json.dumps({"error": _REFUSALS[status]}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})


class HttpServer:
    """HTTP server on a loopback port. It is bound on creation; call `start` and `close` on the same event loop.

    Raises:
        NotebookError: no port could be bound.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(TOKEN_BYTES)
        # asyncio disables Nagle's algorithm only if the protocol is given; without that each response is delayed by 40
        # ms.
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            self._listening.bind((HOST, 0))
        except OSError as error:
            self._listening.close()
            raise NotebookError(f"No port of {HOST} can be listened on: {error.strerror}.") from error
        self._port = self._listening.getsockname()[1]
        self._uvicorn: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """URL of the endpoint."""
        return f"http://{HOST}:{self._port}{PATH}"

    @property
    def place(self) -> str:
        """Host and port, for display."""
        return f"{HOST}:{self._port}"

    async def start(self, server: Server[Any]) -> None:
        """Start serving.

        Raises:
            NotebookError: the server did not start.
        """
        self._task = asyncio.create_task(self._serve_requests(server))
        try:
            async with asyncio.timeout(START_WAIT):
                while not (self._uvicorn is not None and self._uvicorn.started):
                    if self._task.done():
                        self._task.result()
                        raise NotebookError("The server for external clients ended while it was starting.")
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            await self.close()
            raise NotebookError(f"The server for external clients did not start within {START_WAIT:g} s.") from None

    async def close(self) -> None:
        """End all sessions and connections, and release the port."""
        task, self._task = self._task, None
        if task is not None:
            if self._uvicorn is not None:
                self._uvicorn.should_exit = True
            await asyncio.wait([task], timeout=CLOSE_WAIT)
            task.cancel()
            await asyncio.wait([task])
        self._listening.close()

    async def _serve_requests(self, server: Server[Any]) -> None:
        manager = StreamableHTTPSessionManager(
            server, max_request_body_size=MAX_BODY, session_idle_timeout=IDLE, max_sessions=MAX_SESSIONS
        )
        config = uvicorn.Config(
            TokenGuard(Sessions(manager.handle_request), token=self.token, port=self._port),  # pyright: ignore[reportArgumentType] (the same shapes, by other names)
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            http=Connection,
            ws="none",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=0,  # calls have been answered by then; only idle event streams remain
        )
        self._uvicorn = uvicorn.Server(config)
        async with manager.run():
            await self._uvicorn.serve(sockets=[self._listening])
