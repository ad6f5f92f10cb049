"""The server over streamable HTTP: on loopback, on a port of its own, behind the guard."""

import asyncio
import secrets
import socket
from typing import Any, Final

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.outward.guard import PATH, Guard

HOST: Final = "127.0.0.1"
TOKEN_BYTES: Final = 32
MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes of one request."""
MAX_SESSIONS: Final = 32
MAX_CONNECTIONS: Final = 128
IDLE: Final = 8 * 3600
"""Seconds after which a client that asks nothing has to introduce itself again."""
CLOSE_WAIT: Final = 3.0
"""Seconds after which connections that do not end are left behind."""
START_WAIT: Final = 5.0
"""Seconds."""
_LOOK: Final = 0.01
"""Seconds between two looks whether it has started."""


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
        self._task = asyncio.create_task(self._serve(server))
        try:
            async with asyncio.timeout(START_WAIT):
                while not (self._uvicorn is not None and self._uvicorn.started):
                    if self._task.done():
                        self._task.result()
                        raise NotebookError("The server for agents outside ended as it began.")
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            await self.close()
            raise NotebookError(f"The server for agents outside did not start within {START_WAIT:g} s.") from None

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

    async def _serve(self, server: Server[Any]) -> None:
        manager = StreamableHTTPSessionManager(
            server, max_request_body_size=MAX_BODY, session_idle_timeout=IDLE, max_sessions=MAX_SESSIONS
        )
        config = uvicorn.Config(
            Guard(manager.handle_request, token=self.token, port=self._port),  # pyright: ignore[reportArgumentType] (the same shapes, by other names)
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=0,  # calls are answered by then; what is left are streams that only listen
        )
        self._uvicorn = uvicorn.Server(config)
        async with manager.run():
            await self._uvicorn.serve(sockets=[self._listening])
