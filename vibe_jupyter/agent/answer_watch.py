"""Detection of a silent model server, so that the user sees what a run is waiting for."""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from vibe_jupyter.llm.request import AnswerLimits
from vibe_jupyter.protocol import AnswerAwaited

SILENCE: Final = 5.0  # seconds without data from the server before the user is notified


class AnswerWatch:
    """Silence timer for one response at a time. Engine loop only.

    Chunks don't reset the timer, since there are thousands of them. When it fires, it checks when the latest chunk
    arrived and re-arms itself.
    """

    def __init__(self, tell: Callable[[AnswerAwaited], None]) -> None:
        self._tell = tell
        self._limit = math.inf
        self._gap = math.inf
        self._has_begun = False
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._was_told = False

    def sent(self, limits: AnswerLimits) -> None:
        """Start watching: a request has been sent."""
        self.stop()
        self._has_begun, self._limit, self._gap = False, limits.answer, limits.gap
        self._listen()

    def headers_came(self, limits: AnswerLimits) -> None:
        """Start waiting for the first chunk of a stream."""
        self._limit = limits.first_byte
        self.heard()

    def piece_came(self) -> None:
        """Start waiting for the next chunk."""
        self._has_begun, self._limit = True, self._gap
        self.heard()

    def heard(self) -> None:
        """Restart the silence period."""
        self._heard_at = asyncio.get_running_loop().time()
        if self._was_told:
            self._listen()

    def stop(self) -> None:
        """Stop watching: the response is complete, or is waiting for something other than the server."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._was_told = False

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._was_told = False
        self._heard_at = loop.time()
        self._timer = loop.call_later(SILENCE, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        silent = loop.time() - self._heard_at
        if silent < SILENCE:
            self._timer = loop.call_at(self._heard_at + SILENCE, self._look)
            return
        self._timer, self._was_told = None, True
        limit = None if math.isinf(self._limit) else self._limit
        self._tell(AnswerAwaited(has_begun=self._has_begun, seconds=round(silent, 3), limit=limit))
