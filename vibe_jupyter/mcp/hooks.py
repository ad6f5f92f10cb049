"""Callbacks for requests that a server sends while it runs, the calls they belong to, and the time they take.

Withdrawing a question writes a record during cancellation, and a second cancellation would interrupt that. Tasks are
therefore cancelled only once.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from vibe_jupyter.config.tool_servers import ToolServer
from vibe_jupyter.tools.contract import ToolContext

if TYPE_CHECKING:
    import httpx2
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        ListRootsResult,
    )

OfferedFeature = Literal["elicitation", "sampling", "roots"]

_LOOK: Final = 0.05  # seconds between checks while paused after the timeout

T = TypeVar("T")


class ServerPause:
    """Total time in which the server waited for at least one response of ours."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._since = 0.0
        self._open = 0

    @contextmanager
    def running(self) -> Generator[None]:
        """Count the time inside the block, in which the user or the model is asked."""
        if not self._open:
            self._since = time.monotonic()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._passed += time.monotonic() - self._since

    async def wait(self, tasks: "Collection[asyncio.Future[Any]]", seconds: float) -> None:
        """Wait until a task is done or the timeout has passed.

        The timeout is suspended while the server waits for us.
        """
        began, before = time.monotonic(), self._paused_seconds()
        while not any(task.done() for task in tasks):
            left = seconds + (self._paused_seconds() - before) - (time.monotonic() - began)
            if left <= 0 and not self._open:
                return
            await asyncio.wait(tasks, timeout=max(left, _LOOK), return_when=asyncio.FIRST_COMPLETED)

    def _paused_seconds(self) -> float:
        return self._passed + (time.monotonic() - self._since if self._open else 0.0)


class ServerHooks(Protocol):
    """Handlers of server requests. A call's timeout is suspended while the server waits for a response of ours."""

    @property
    def offers(self) -> frozenset[OfferedFeature]:
        """Client capabilities to advertise. Sampling is advertised only to servers whose settings enable it."""
        ...

    async def elicit(self, server: str, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        """Ask the user a server's question."""
        ...

    async def sample(self, server: str, params: "CreateMessageRequestParams") -> "CreateMessageResult | ErrorData":
        """Generate text for a server with the run's model."""
        ...

    async def roots(self) -> "ListRootsResult | ErrorData":
        """Return the folders that a server may access."""
        ...

    def log(self, server: str, level: str, text: str) -> None:
        """Handle a log message of a server. The connection has stored it already."""
        ...

    def auth(self, server: ToolServer, pause: ServerPause) -> "httpx2.Auth | None":
        """Return authentication for a remote server's requests, in addition to its declared headers.

        Args:
            server: a remote server.
            pause: entered with `running()` while the user signs in, so that no timeout runs.
        """
        ...


class RefuseAllHooks:
    """Hooks that decline every request."""

    @property
    def offers(self) -> frozenset[OfferedFeature]:
        return frozenset()

    async def elicit(self, server: str, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        return _refusal_error()

    async def sample(self, server: str, params: "CreateMessageRequestParams") -> "CreateMessageResult | ErrorData":
        return _refusal_error()

    async def roots(self) -> "ListRootsResult | ErrorData":
        return _refusal_error()

    def log(self, server: str, level: str, text: str) -> None:
        return None

    def auth(self, server: ToolServer, pause: ServerPause) -> "httpx2.Auth | None":
        return None


def _refusal_error() -> "ErrorData":
    from mcp_types import INVALID_REQUEST, ErrorData  # noqa: PLC0415

    return ErrorData(code=INVALID_REQUEST, message="Not offered here")


class SideTasks:
    """Tasks of one event loop that can be cancelled together."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._ending: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run `work` in a separate task. Returns None if `end` cancelled it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._forget_task)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._cancel_task(task)
            await asyncio.wait({task})
            raise
        return None if task.cancelled() else task.result()

    async def end(self) -> None:
        """Cancel all tasks and wait for them."""
        running = set(self._running)
        for task in running:
            self._cancel_task(task)
        if running:
            await asyncio.wait(running)

    def _cancel_task(self, task: "asyncio.Task[Any]") -> None:
        if task not in self._ending:
            self._ending.add(task)
            task.cancel()

    def _forget_task(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved; `run` raises it if its caller still waits


@dataclass(eq=False)
class _OpenCall:
    server: str
    context: ToolContext
    asked: SideTasks = field(default_factory=SideTasks)  # pending requests of the server


class OpenCalls:
    """Open calls of all servers, innermost last. Engine loop only."""

    def __init__(self) -> None:
        self._open: list[_OpenCall] = []

    @asynccontextmanager
    async def of(self, server: str, context: ToolContext) -> AsyncGenerator[None]:
        """Register a call while the block runs.

        Requests of the server for it that are still pending at the end are cancelled.
        """
        call = _OpenCall(server, context)
        self._open.append(call)
        try:
            yield
        finally:
            self._open.remove(call)
            await call.asked.end()

    def has(self, server: str) -> bool:
        """Return whether a call of this server is open."""
        return any(call.server == server for call in self._open)

    async def ask_for(self, server: str, work: Callable[[ToolContext], Coroutine[Any, Any, T]]) -> T | None:
        """Handle a server's request within its innermost call. Returns None if no call is open or the call ended first.

        The work runs in a separate task that ends with the call, because the caller's task, which delivers the request,
        outlives it.
        """
        call = next((one for one in reversed(self._open) if one.server == server), None)
        return None if call is None else await call.asked.run(work(call.context))
