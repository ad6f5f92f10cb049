"""Analyze executed code while the kernel is idle, so that cell dependencies are known at the first prompt."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.notebook.replay import Replay

KEPT: Final = 10_000  # runs remembered
_EVENT: Final = "post_run_cell"
SLICE: Final = 0.005  # seconds of analysis per slice
_PAUSE: Final = 0.002  # seconds between slices


class ReadAhead:
    """Background analysis in a kernel, until its app observes executions itself. Main thread only."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.replay: Replay | None = None  # replay of the runs so far, or None before the first idle time
        self._known = 0  # execution count of the latest analyzed run
        self._timer: asyncio.Handle | None = None
        shell.events.register(_EVENT, self._on_ran)

    def close(self) -> None:
        """Stop the analysis and unregister the callback."""
        if self._on_ran in self._shell.events.callbacks[_EVENT]:
            self._shell.events.unregister(_EVENT, self._on_ran)
        if self._timer is not None:
            self._timer.cancel()

    def _on_ran(self, _result: Any) -> None:
        if len(self._shell.history_manager.input_hist_raw) <= self._known:  # a reset shell counts from 1 again
            self.replay, self._known = None, 0
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # no loop to run the analysis; the first prompt does the rest
                return
            self._timer = loop.call_soon(self._read_some, loop)

    def _read_some(self, loop: asyncio.AbstractEventLoop) -> None:
        with without_working_folder():
            from vibe_jupyter.notebook.replay import Execution, Replay  # noqa: PLC0415 - it comes when a cell has run

        if self.replay is None:
            self.replay = Replay()
        for number, source in earlier_runs(self._shell, self._known):
            self.replay.add(Execution(source, number))
            self._known = number
        self._timer = None if self.replay.read(SLICE) else loop.call_later(_PAUSE, self._read_some, loop)


def earlier_runs(shell: Any, after: int = 0) -> Iterator[tuple[int, str]]:
    """Yield execution counts above `after` with the source of each run, from IPython's history."""
    sources: list[str] = shell.history_manager.input_hist_raw
    first = max(after + 1, len(sources) - KEPT)
    yield from enumerate(islice(list(sources), first, None), first)
