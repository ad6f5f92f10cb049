"""Cells run one after the other, also while the loop that starts them is nested in one of them."""

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any, Final

from vibe_jupyter.notebook.shell import Receive, Stream

_ORDER: Final = "_vibe_jupyter_order"
"""Attribute of the shell stream."""


class CellOrder:
    """A turn for each queued cell, in the order they came.

    ipykernel 7 runs all shell messages in one shared context, and a task that starts in it while a nested loop runs is
    lost. So whatever is queued behind a running cell waits for its turn.
    """

    def __init__(self, stream: Stream) -> None:
        self._turn = _turn_of(stream)
        self._held = False

    async def after_earlier_ones(self, cell: Awaitable[None]) -> None:
        """Run a cell in its turn."""
        async with self._turn:
            await cell

    def hold(self, pass_on: Receive) -> None:
        """Keep queued cells back until the running cell ends, if that one did not come in its turn.

        Args:
            pass_on: the kernel's own receiver; one that is no coroutine function handles a cell at once.
        """
        if self._turn.locked() or not inspect.iscoroutinefunction(pass_on):
            return
        running = _running_task()
        if running is None or not _acquire(self._turn):
            return
        self._held = True
        running.add_done_callback(lambda _: self._release())

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._turn.release()


def _turn_of(stream: Stream) -> asyncio.Lock:
    """One lock for all pumps this stream ever has: what waits in it must outlive the pump that made it wait."""
    turn = getattr(stream, _ORDER, None)
    if not isinstance(turn, asyncio.Lock):
        turn = asyncio.Lock()
        setattr(stream, _ORDER, turn)
    return turn


def _running_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None


def _acquire(lock: asyncio.Lock) -> bool:
    attempt = lock.acquire()
    try:
        attempt.send(None)
    except StopIteration:
        return True
    attempt.close()  # somebody is about to get it
    return False
