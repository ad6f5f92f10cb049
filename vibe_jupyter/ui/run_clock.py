"""Working time of a run, without the time in which it waits for the user."""

from collections.abc import Callable


class RunClock:
    """Counts from its creation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._waited = 0.0
        """Seconds of the waits that are over."""
        self._since: float | None = None
        """When the present wait began; None while the run works."""

    @property
    def worked(self) -> float:
        """Seconds of work so far."""
        return self._clock() - self._began - self.waited

    @property
    def waited(self) -> float:
        """Seconds in which the user was waited for so far."""
        return self._waited + (self._clock() - self._since if self._since is not None else 0.0)

    def note(self, *, waits: bool) -> None:
        """Take note of whether the run waits for the user from now on."""
        if waits and self._since is None:
            self._since = self._clock()
        elif not waits and self._since is not None:
            self._waited, self._since = self.waited, None
