"""Work that somebody waits for, and that somebody else may end: each is cancelled once, and waited for until it ended.

Who takes back a question records it on the way out; a second cancellation would cut that short.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SideTasks:
    """Of one loop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._ending: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do it in a task of its own; None when `end` came first."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._cancel(task)
            await asyncio.wait({task})
            raise
        return None if task.cancelled() else task.result()

    async def end(self) -> None:
        """Have all of it ended."""
        running = set(self._running)
        for task in running:
            self._cancel(task)
        if running:
            await asyncio.wait(running)

    def _cancel(self, task: "asyncio.Task[Any]") -> None:
        if task not in self._ending:
            self._ending.add(task)
            task.cancel()

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()  # told to who waits, if anybody still does
