"""Code that ran is read while the kernel rests, so that the first prompt finds known what every cell read and left."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.notebook.replay import Replay

KEPT: Final = 10_000
"""Runs remembered."""
_EVENT: Final = "post_run_cell"
SLICE: Final = 0.005
"""Seconds of reading at a time."""
_PAUSE: Final = 0.002
"""Seconds between two slices."""


class ReadAhead:
    """One for a kernel, until its app listens to the runs itself. Main thread."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.replay: Replay | None = None
        """Of the runs so far; None before the kernel rested after one."""
        self._known = 0
        """Execution count of the newest of them."""
        self._timer: asyncio.Handle | None = None
        shell.events.register(_EVENT, self._on_ran)

    def close(self) -> None:
        """Read no more."""
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
            except RuntimeError:  # nobody would call us; the first prompt reads what is left
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
    """Execution counts above `after`, and the code that ran as each, by IPython's history."""
    sources: list[str] = shell.history_manager.input_hist_raw
    first = max(after + 1, len(sources) - KEPT)
    yield from enumerate(islice(list(sources), first, None), first)
