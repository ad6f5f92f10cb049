"""Code that ran is parsed while the kernel rests, so that the first prompt finds the names of every cell known."""

import asyncio
import time
from typing import Any, Final

from vibe_jupyter.safe_imports import without_working_folder

_EVENT: Final = "post_run_cell"
SLICE: Final = 0.005
"""Seconds of parsing at a time."""
_PAUSE: Final = 0.01
"""Seconds between two slices."""


class ReadAhead:
    """One for a kernel, until its app listens to the runs itself. Main thread."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._waiting: list[str] | None = None
        """Sources not parsed yet, the newest last; None before the first run is over."""
        self._timer: asyncio.Handle | None = None
        shell.events.register(_EVENT, self._on_ran)

    def close(self) -> None:
        """Parse no more."""
        if self._on_ran in self._shell.events.callbacks[_EVENT]:
            self._shell.events.unregister(_EVENT, self._on_ran)
        if self._timer is not None:
            self._timer.cancel()
        self._waiting = []

    def _on_ran(self, result: Any) -> None:
        if self._waiting is None:
            self._waiting = [source for source in self._shell.history_manager.input_hist_raw if source]
        self._waiting.append(result.info.raw_cell)
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # nobody would call us; the first prompt parses what is left
                return
            self._timer = loop.call_soon(self._parse_some, loop)

    def _parse_some(self, loop: asyncio.AbstractEventLoop) -> None:
        with without_working_folder():
            from vibe_jupyter.notebook.cell_names import cell_names  # noqa: PLC0415 - it comes when a cell has run

        waiting, end = self._waiting or [], time.perf_counter() + SLICE
        while waiting and time.perf_counter() < end:
            cell_names(waiting.pop())
        self._timer = loop.call_later(_PAUSE, self._parse_some, loop) if waiting else None
