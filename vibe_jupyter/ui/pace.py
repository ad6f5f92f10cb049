"""Work for the main thread that is asked for often and done now and then."""

import asyncio
from collections.abc import Callable

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.ui.front_end import CallMain

REST = 4
"""Times as long as the work itself took is waited until it is done again."""


class Pace:
    """Prepares a piece of work on the engine loop and does it on the main thread, never twice within the gap."""

    def __init__(self, call_main: CallMain, prepare: Callable[[], Callable[[], None]], *, gap: float) -> None:
        self._call_main = call_main
        self._prepare = prepare
        self._gap = gap
        """Seconds."""
        self._wanted = False
        self._free_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Ask for it; many askings before its turn are one. On the loop."""
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def now(self) -> None:
        """Do it at once. On the loop.

        Raises:
            NotebookError: the person interrupted, or the cell is over.
        """
        self._wanted = False
        await self._call_main(self._prepare())

    async def stop(self) -> None:
        """Do nothing more; what is being done is waited for. On the loop."""
        self._wanted = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._wanted:
            if (rest := self._free_at - loop.time()) > 0:
                await asyncio.sleep(rest)
            self._wanted = False
            began = loop.time()
            try:
                await self._call_main(self._prepare())
            except NotebookError:
                return  # interrupted, or the cell is over: closing shows the rest
            took = loop.time() - began
            self._free_at = loop.time() + max(self._gap, REST * took)
