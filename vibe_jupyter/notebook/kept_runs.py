"""What the last runs left, for pages that missed the end of a run.

The end of a run takes the place of its live view in the page that shows it. A notebook that was closed meanwhile, or
whose cell was moved or brought back by undo, still holds the view, which nothing stands behind any more.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.protocol import MimeBundle

MAX_RUNS: Final = 8
"""Runs whose end is known; each is bounded by what a notebook keeps of a run."""


@dataclass(frozen=True)
class KeptRun:
    """One run that is over."""

    cell: str
    """Id of its prompt's cell."""
    view: str
    """Id of the model of its live view."""
    number: int | None
    """Execution count of that cell; None where it has none."""
    left: MimeBundle


class KeptRuns:
    """The ends of the last runs of this kernel. Asks on the engine's loop."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._runs: deque[KeptRun] = deque(maxlen=MAX_RUNS)

    def add(self, view: str, left: MimeBundle, *, number: int | None, cell: str | None = None) -> None:
        """The run in a cell is over, by default in the present one. Main thread."""
        cell = cell or self._bridge.prompt_cell
        if cell is not None:
            self._runs.append(KeptRun(cell, view, number, left))

    async def deliver_last(self) -> None:
        """Make sure that the page has the end of the run that has just ended; only where the run knew a page."""
        if self._runs and self._bridge.has_page:
            await self._deliver(self._runs[-1])

    async def deliver(self) -> None:
        """Give a page that was just loaded the ends it missed."""
        for run in tuple(self._runs):
            await self._deliver(run)

    async def _deliver(self, run: KeptRun) -> None:
        try:
            answer = await self._bridge.request("keep", cell=run.cell, model_id=run.view, number=run.number)
            if answer.get("stands"):
                await self._bridge.request("keep", cell=run.cell, model_id=run.view, data={**run.left})
        except NotebookError:
            return  # no page, no such cell any more, or an extension that does not know the request
