"""A wait that is counted down on one line of a terminal."""

import asyncio
from collections.abc import Callable

from vibe_jupyter.ui.remark import left_words

TICK = 1.0
"""Seconds between two figures."""


class Countdown:
    """Writes the seconds that are left over each other, and leaves an empty line behind. On the loop."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._task: asyncio.Task[None] | None = None
        self._shown = 0
        """Columns that are on the line now."""

    def begin(self, seconds: float) -> None:
        """Count from here; an earlier wait is over."""
        self.end()
        self._task = asyncio.create_task(self._count(seconds))

    def end(self) -> None:
        """The wait is over, or was ended."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._put("")

    async def _count(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0:
            self._put(f"  {left_words(left)}")
            await asyncio.sleep(min(TICK, left))
        self._put("")

    def _put(self, words: str) -> None:
        """In the place of what was there; blanks and no control sequence, which not every terminal knows."""
        gone = f"\r{' ' * self._shown}\r" if self._shown else ""
        self._write(gone + words)
        self._shown = len(words)
