"""The calls that servers are at work on: what a server asks meanwhile, it asks for the innermost of its own."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.mcp.side_tasks import SideTasks

T = TypeVar("T")


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
