"""What a server may ask of us while it runs, for which call, and the time that takes.

Who takes back a question records it on the way out; a second cancellation would cut that short.
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

_LOOK: Final = 0.05
"""Seconds between two looks at a pause that goes on when the time is over."""

T = TypeVar("T")


class ServerPause:
    """Adds up the time in which at least one answer of ours was due."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._since = 0.0
        self._open = 0

    @contextmanager
    def running(self) -> Generator[None]:
        """While a user, or the model, is asked."""
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
        """Until one of them is done, or the time is over; it does not pass while the server waits for us."""
        began, before = time.monotonic(), self._paused_seconds()
        while not any(task.done() for task in tasks):
            left = seconds + (self._paused_seconds() - before) - (time.monotonic() - began)
            if left <= 0 and not self._open:
                return
            await asyncio.wait(tasks, timeout=max(left, _LOOK), return_when=asyncio.FIRST_COMPLETED)

    def _paused_seconds(self) -> float:
        return self._passed + (time.monotonic() - self._since if self._open else 0.0)


class ServerHooks(Protocol):
    """Answers to the requests of servers. A call's time does not run while a server waits for an answer of ours."""

    @property
    def offers(self) -> frozenset[OfferedFeature]:
        """The capabilities we announce to servers; sampling only to those it is declared for."""
        ...

    async def elicit(self, server: str, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        """Put a server's question to the user."""
        ...

    async def sample(self, server: str, params: "CreateMessageRequestParams") -> "CreateMessageResult | ErrorData":
        """Let the model write something for a server."""
        ...

    async def roots(self) -> "ListRootsResult | ErrorData":
        """The folders a server may look into."""
        ...

    def log(self, server: str, level: str, text: str) -> None:
        """A server sent a line for its log, which is kept already."""
        ...

    def auth(self, server: ToolServer, pause: ServerPause) -> "httpx2.Auth | None":
        """What signs the requests to a remote server beside its declared headers.

        Args:
            server: a remote one.
            pause: held by `running()` while a user signs in, so that no time-out runs.
        """
        ...


class RefuseAllHooks:
    """Where nobody answers servers."""

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
    """Of one loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._ending: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do it in a task of its own; None when `end` came first."""
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
        """Have all of it ended."""
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
            task.exception()  # told to who waits, if anybody still does


@dataclass(eq=False)
class _OpenCall:
    server: str
    context: ToolContext
    asked: SideTasks = field(default_factory=SideTasks)
    """What the server asked and nobody has answered yet."""


class OpenCalls:
    """Engine loop only."""

    def __init__(self) -> None:
        self._open: list[_OpenCall] = []

    @asynccontextmanager
    async def of(self, server: str, context: ToolContext) -> AsyncGenerator[None]:
        """A call of this server goes on. At its end nothing that the server asked for it waits any longer."""
        call = _OpenCall(server, context)
        self._open.append(call)
        try:
            yield
        finally:
            self._open.remove(call)
            await call.asked.end()

    def has(self, server: str) -> bool:
        """Whether a call of this server is open."""
        return any(call.server == server for call in self._open)

    async def ask_for(self, server: str, work: Callable[[ToolContext], Coroutine[Any, Any, T]]) -> T | None:
        """Do what a server asked, for the innermost of its calls; None when none is open, or when it ended meanwhile.

        It runs in a task of its own, which ends with the call, since whoever delivers the question lives longer.
        """
        call = next((one for one in reversed(self._open) if one.server == server), None)
        return None if call is None else await call.asked.run(work(call.context))
