"""When to ask a server again, and how long to wait (security M12)."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from vibe_jupyter.errors import ModelError

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
"""And everything from 500 up."""


@dataclass(frozen=True)
class Setback:
    """An attempt that gave no answer."""

    reason: str
    """A few words, for `RetryScheduled`."""
    error: Callable[..., ModelError]
    """Makes the final error from ``retries`` and, for a refusal, ``wait``."""
    again: bool
    """Whether another attempt may help."""
    asked: float | None = None
    """Seconds the server asks us to wait; None where it asks nothing."""


@dataclass(frozen=True)
class RetryPolicy:
    """How patient the client is."""

    retries: int = 2
    """Further attempts after the first."""
    first: float = 0.5
    """Seconds before the first retry; doubled for each further one."""
    longest: float = 8.0
    """Seconds the doubling ends at."""
    longest_asked: float = 120.0
    """Seconds a server may ask us to wait; if it asks for more, the person is told instead."""
    jitter: Callable[[], float] = random.random
    """0 to 1; shortens a wait by up to a quarter, so that many clients do not come back at once."""

    def pause(self, setback: Setback, attempt: int) -> float:
        """Seconds before retry number `attempt`, from 0.

        Raises:
            ModelError: there is none.
        """
        asked = setback.asked if setback.again else None
        if asked is not None and (asked > self.longest_asked or attempt >= self.retries):
            raise setback.error(retries=attempt, wait=asked)
        if not setback.again or attempt >= self.retries:
            raise setback.error(retries=attempt)
        if asked is not None:
            return asked
        return min(self.first * 2**attempt, self.longest) * (1 - 0.25 * self.jitter())


def retried(status: int, headers: Mapping[str, str]) -> bool:
    """Whether a status is worth another attempt; the server's own word on it wins."""
    match headers.get("x-should-retry", "").lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in RETRIED_STATUSES or status >= 500


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks us to wait; None where it asks nothing, or nothing that makes sense."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit if seconds > 0 else None
    return _until(headers.get("retry-after", ""))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # A NaN or an endless wait is no number of seconds.
    return value if abs(value) < 1e9 else None


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    seconds = moment.timestamp() - time.time()
    return seconds if seconds > 0 else None
