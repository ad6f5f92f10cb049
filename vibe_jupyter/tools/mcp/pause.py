"""The time in which a server waited for us, which is not charged to it."""

import asyncio
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Any, Final

_LOOK: Final = 0.05
"""Seconds between two looks at a pause that goes on when the time is over."""


class Pause:
    """Adds up the time in which at least one answer of ours was due."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._since = 0.0
        self._open = 0

    @contextmanager
    def running(self) -> Generator[None]:
        """While a person, or the model, is asked."""
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
        began, before = time.monotonic(), self._seconds()
        while not any(task.done() for task in tasks):
            left = seconds + (self._seconds() - before) - (time.monotonic() - began)
            if left <= 0 and not self._open:
                return
            await asyncio.wait(tasks, timeout=max(left, _LOOK), return_when=asyncio.FIRST_COMPLETED)

    def _seconds(self) -> float:
        return self._passed + (time.monotonic() - self._since if self._open else 0.0)
