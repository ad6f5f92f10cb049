"""The served notebook over HTTP: who may connect, the sessions of clients, and the requests.

Versions of the protocol with `initialize` give each client a session, and most clients never end theirs: one that
starts forty times a day would leave forty behind. A session with a request under way, or a stream that is listened
to, belongs to a client that is there, and stays.
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
GONE: Final = "vibe_jupyter.gone"
"""In the scope of a request: an event that is set when its client went away."""

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
MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes of one request."""
MAX_CONNECTIONS: Final = 128
KEEP_ALIVE: Final = 75
"""Seconds a connection is kept after a request; `vibe-jupyter mcp` gives it up earlier (notebook_client.KEEP)."""
IDLE: Final = 8 * 3600
"""Seconds after which a client that asks nothing has to introduce itself again."""
CLOSE_WAIT: Final = 3.0
"""Seconds after which connections that do not end are left behind."""
START_WAIT: Final = 5.0
"""Seconds."""
_LOOK: Final = 0.01
"""Seconds between two looks whether it has started."""


class Sessions:
    """Lets requests through to an ASGI application that opens sessions, and ends one on DELETE."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner
        self._under_way: dict[bytes, int] = {}
        """Requests of each session, least recently used first."""
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
            if message.get("status") == HTTPStatus.NOT_FOUND:  # it was idle for too long
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
        """Where all sessions are in use there is none; the server then answers 503."""
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
    """The request by which a client ends its session."""
    headers = [(SESSION_HEADER, session), (b"accept", b"*/*")]
    return {"type": "http", "method": "DELETE", "path": PATH, "query_string": b"", "headers": headers}


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_message: MutableMapping[str, Any]) -> None:
    """Nobody waits for this answer."""


class TokenGuard:
    """Lets requests through to an ASGI application."""

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
        """Status of the refusal; None where there is no reason for one."""
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
    """Has its port from the beginning, and serves from `start` to `close`, which are called on one loop.

    Raises:
        NotebookError: no port can be listened on.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(TOKEN_BYTES)
        # With its protocol named asyncio sends at once; without it each answer would wait 40 ms.
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
        """Where it is."""
        return f"http://{HOST}:{self._port}{PATH}"

    @property
    def place(self) -> str:
        """The same in short, for people."""
        return f"{HOST}:{self._port}"

    async def start(self, server: Server[Any]) -> None:
        """Serve.

        Raises:
            NotebookError: it does not start.
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
        """End sessions and connections."""
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
            timeout_graceful_shutdown=0,  # calls are answered by then; what is left are streams that only listen
        )
        self._uvicorn = uvicorn.Server(config)
        async with manager.run():
            await self._uvicorn.serve(sockets=[self._listening])
