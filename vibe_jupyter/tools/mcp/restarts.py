"""How often, and after what time, a server that failed is started again."""

import time
from typing import Final

RESTARTS: Final = 3
"""Starts after a failure, in a row, without an answered call between them."""
_DELAYS: Final = (0.0, 0.5, 1.0, 2.0)
"""Seconds before the next start, by the failures so far."""
PROVEN: Final = 60.0
"""Seconds after which a server that ran counts as one that worked."""


class Restarts:
    """The failures of one server since it last worked."""

    def __init__(self) -> None:
        self.failures = 0
        self.start_failed = False
        """Whether its last start failed, so that nobody waits for another one."""
        self._last = 0.0

    @property
    def are_used_up(self) -> bool:
        """Whether only the person starts it again."""
        return self.failures > RESTARTS

    @property
    def delay(self) -> float:
        """Seconds from now until it may be started again."""
        return max(0.0, self._last + _DELAYS[min(self.failures, len(_DELAYS) - 1)] - time.monotonic())

    def failed(self, *, after: float) -> None:
        """It failed, `after` seconds of running."""
        self.failures = 1 if after > PROVEN else self.failures + 1
        self.start_failed = after <= 0
        self._last = time.monotonic()

    def worked(self) -> None:
        """It answered a call, or the person wants it started anew."""
        self.failures = 0
        self.start_failed = False
