"""An external client: the SDK's own, on a thread, so that the test can be the user meanwhile.

The SDK is imported where it is used: every worker imports this file, and few of them need a client.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.patience import patient
from vibe_jupyter.llm.connections import tls_context

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.client import Client

WAIT = patient(30.0)
"""Seconds that any one answer may take."""


class Outsider:
    """One connection; `close` ends it as a program does that ends."""

    def __init__(self, connect: "AbstractAsyncContextManager[Client]") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._end = asyncio.Event()
        self.told: list[str] = []
        """Progress of its calls."""
        ready: Future[Client] = Future()
        self._life = asyncio.run_coroutine_threadsafe(self._live(connect, ready), self._loop)
        self.client = ready.result(WAIT)

    async def _live(self, connect: "AbstractAsyncContextManager[Client]", ready: "Future[Client]") -> None:
        try:
            async with connect as client:
                ready.set_result(client)
                await self._end.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    def start(self, name: str, /, **arguments: Any) -> "Future[types.CallToolResult]":
        """Begin a call; cancel the future and the call is cancelled."""
        return self._submit(self.client.call_tool(name, arguments, progress_callback=self._hear))

    def call(self, name: str, /, **arguments: Any) -> "types.CallToolResult":
        """A whole call."""
        return self.start(name, **arguments).result(WAIT)

    def tools(self) -> "list[types.Tool]":
        return self._submit(self.client.list_tools()).result(WAIT).tools

    def close(self) -> None:
        """Once is enough, twice does no harm."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._end.set)
        try:
            self._life.result(WAIT)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(WAIT)
            self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _hear(self, _progress: float, _total: float | None, message: str | None) -> None:
        self.told.append(message or "")


@asynccontextmanager
async def over_http(
    url: str, token: str, *, mode: str = "auto", name: str = "tester", ends_session: bool = True
) -> Any:
    """A client that was given address and token."""
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import Implementation

    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(
        headers=headers, timeout=WAIT, trust_env=False, verify=tls_context(tls=False)
    ) as http:
        transport = streamable_http_client(url, http_client=http, terminate_on_close=ends_session)
        who = Implementation(name=name, version="1")
        async with Client(transport, mode=mode, client_info=who) as client:
            yield client


@asynccontextmanager
async def over_stdio(command: str, *arguments: str, env: dict[str, str], mode: str = "auto") -> Any:
    """A client that starts a program."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    parameters = StdioServerParameters(command=command, args=list(arguments), env=env)
    async with Client(parameters, mode=mode) as client:
        yield client


def text(result: "types.CallToolResult") -> str:
    """All text of a result."""
    return "\n".join(part.text for part in result.content if part.type == "text")
