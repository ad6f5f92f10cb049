"""Time that a run waits for its user: approvals, questions, and code that waits for typed input."""

import time
from collections import defaultdict

from vibe_jupyter.protocol import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolProgress,
)


class _Stopwatch:
    """Stopwatch that runs while at least one wait is open, so that simultaneous waits count once."""

    def __init__(self) -> None:
        self._open = 0
        self._since = 0.0
        self._before = 0.0

    @property
    def seconds(self) -> float:
        return self._before + (time.monotonic() - self._since if self._open else 0.0)

    def begin(self) -> None:
        if not self._open:
            self._since = time.monotonic()
        self._open += 1

    def end(self) -> None:
        self._open -= 1
        if not self._open:
            self._before += time.monotonic() - self._since


class WaitClock:
    """Waiting times of a run, derived from its events. Engine loop only."""

    def __init__(self) -> None:
        self._whole = _Stopwatch()
        self._calls: defaultdict[str, _Stopwatch] = defaultdict(_Stopwatch)
        self._open: dict[str, str] = {}  # call id by the id of an approval or question, or of a call whose code waits

    @property
    def seconds(self) -> float:
        """Total waiting time so far, in seconds."""
        return self._whole.seconds

    def seconds_of(self, call_id: str) -> float:
        """Return the seconds that one call waited, including those of a sub-agent that works for it."""
        return self._calls[call_id].seconds if call_id in self._calls else 0.0

    def take(self, event: Event) -> None:
        """Process an event."""
        match event:
            case ApprovalRequested():
                self._begin(event.approval_id, event.call.id)
            case QuestionAsked():
                self._begin(event.question_id, event.call_id)
            case ToolProgress(waits=True):
                self._begin(event.call_id, event.call_id)
            case ApprovalResolved():
                self._end(event.approval_id)
            case QuestionAnswered():
                self._end(event.question_id)
            case ToolProgress(waits=False) | ToolFinished():
                self._end(event.call_id)
            case _:
                pass

    def _begin(self, key: str, call_id: str) -> None:
        if key not in self._open:
            self._open[key] = call_id
            for stopwatch in self._stopwatches(call_id):
                stopwatch.begin()

    def _end(self, key: str) -> None:
        if key in self._open:
            for stopwatch in self._stopwatches(self._open.pop(key)):
                stopwatch.end()

    def _stopwatches(self, call_id: str) -> list[_Stopwatch]:
        """Return the stopwatches of the run, of the call, and of each call whose sub-agent made it."""
        parts = call_id.split("/")
        ids = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return [self._whole, *(self._calls[one] for one in ids)]
