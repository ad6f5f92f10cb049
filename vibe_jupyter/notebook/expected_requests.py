"""Requests that a page was asked to send, also those that come when nobody wants them any more.

A page that is asked to run a cell may send the request late: it was busy, its connection was cut, or the user pressed ■
in between. Then nothing may run unasked, so the kernel answers the request as aborted, also long after the run.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.notebook.pump import QueuedCell
from vibe_jupyter.notebook.shell import Frames

REMEMBERED: Final = 64
"""Requests that were called off and have not come yet; the oldest is forgotten first."""
ANSWER_WAIT: Final = 1.0
"""Seconds in which the page names the request it sent; its answer follows the request on another channel."""
IN_DOUBT: Final = 10.0
"""Seconds, from asking on, in which a request that fits counts as the page's though the page has not said so."""


@dataclass(eq=False)
class Expected:
    """A request that a page was asked to send."""

    cell: str
    code: str
    frames: Frames | None = None
    """The request as it came; None until then."""
    too_late: bool = False
    """Whether the code ran without it, so that it must not run again."""
    request: str | None = None
    """Id of the request, where the page has said it."""
    asked_at: float = field(default_factory=time.monotonic)
    answered: threading.Event = field(default_factory=threading.Event)
    """Set when the page has said which request it sent, or that it sends none."""
    doubted: str | None = None
    """Id of the request that was taken for this one before the page had answered."""

    def hear(self, result: Mapping[str, JsonValue] | None) -> None:
        """The page's answer, None where it refused or was not asked. Any thread."""
        request = result.get("request") if result is not None else None
        if isinstance(request, str):
            self.request = request
        elif result is not None:
            return  # an older page: it sent the request, and does not say which
        self.answered.set()

    def fits(self, cell: QueuedCell) -> bool:
        """Whether this may be the request: by its id where the page has said it, else by cell and exact code."""
        if self.request is not None:
            return self.request == cell.request
        return (self.cell, self.code) == (cell.cell_id, cell.code)


class CalledOff:
    """Requests that must not run when they come. Main thread only."""

    def __init__(self) -> None:
        self._left: deque[Expected] = deque(maxlen=REMEMBERED)

    def add(self, expected: Expected) -> None:
        """It has not come, and must not run."""
        self._left.append(expected)

    def takes(self, cell: QueuedCell) -> bool:
        """Whether this is one of them, which then is to be answered as not run."""
        return any(self._is_it(expected, cell) for expected in list(self._left))

    def _is_it(self, expected: Expected, cell: QueuedCell) -> bool:
        if not expected.fits(cell):
            return False
        if not expected.answered.wait(ANSWER_WAIT):
            # A server that runs the cells for its pages does not tell them the id.
            is_it = expected.doubted is None and time.monotonic() < expected.asked_at + IN_DOUBT
            expected.doubted = cell.request if is_it else expected.doubted
            return is_it
        if expected.request in (None, expected.doubted, cell.request):
            self._left.remove(expected)
        return expected.request == cell.request
