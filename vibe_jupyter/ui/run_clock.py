"""Working time of a run, excluding waits for the user."""

from collections.abc import Callable


class RunClock:
    """Stopwatch that starts when it is created."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._waited = 0.0  # seconds of finished waits
        self._since: float | None = None  # start of the current wait, or None while the run works

    @property
    def worked(self) -> float:
        """Seconds of work so far."""
        return self._clock() - self._began - self.waited

    @property
    def waited(self) -> float:
        """Seconds of waiting for the user so far."""
        return self._waited + (self._clock() - self._since if self._since is not None else 0.0)

    def note(self, *, waits: bool) -> None:
        """Record whether the run now waits for the user."""
        if waits and self._since is None:
            self._since = self._clock()
        elif not waits and self._since is not None:
            self._waited, self._since = self.waited, None
