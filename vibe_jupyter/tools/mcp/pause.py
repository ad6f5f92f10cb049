"""The time in which a server waited for us, which is not charged to it."""

import time
from collections.abc import Generator
from contextlib import contextmanager


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

    @property
    def seconds(self) -> float:
        """In all, until now."""
        return self._passed + (time.monotonic() - self._since if self._open else 0.0)

    @property
    def is_open(self) -> bool:
        """Whether an answer of ours is due now."""
        return self._open > 0
