"""Where a run is shown: from its first event to the kept form in the output."""

import concurrent.futures
from contextlib import aclosing

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.agent.run import Run
from vibe_jupyter.app.ending import Ending
from vibe_jupyter.app.host import ShellHost
from vibe_jupyter.app.tools import NotebookSide
from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.own_imports import without_working_folder
from vibe_jupyter.protocol import Interrupt
from vibe_jupyter.ui.choose import choose
from vibe_jupyter.ui.front_end import FrontEnd
from vibe_jupyter.ui.handover import HandOver
from vibe_jupyter.ui.keep import Keep
from vibe_jupyter.ui.page import ShownView

CLOSE_WAIT = 3.0
"""Seconds given to what ends when the kernel lets go of it."""


class Stage:
    """Shows one run at a time. Main thread."""

    def __init__(self, engine: Engine, foreground: Foreground, host: ShellHost, notebook: NotebookSide | None) -> None:
        self.run: Run | None = None
        """The one that is open."""
        self.view: ShownView | None = None
        """The run view that is open; None between runs, and where no page shows one."""
        self.left: concurrent.futures.Future[None] | None = None
        """A run that did not end in time; None where each came to its end, or the conversation is another."""
        self._engine = engine
        self._foreground = foreground
        self._host = host
        self._notebook = notebook

    def show(self, run: Run, keep: Keep, *, kept_in: str) -> Ending:
        """Take a run to its end and leave its transcript in the output.

        Args:
            run: one that has not begun.
            keep: what stays of it.
            kept_in: where the person finds it if it does not end in time.

        Raises:
            NotebookError: it did not end in time after an interrupt.
        """
        with without_working_folder():
            front_end = choose(self._host, keep)
            front_end.open(run.send)
        self.view = front_end.shown if isinstance(front_end, HandOver) else None
        if self._notebook is not None:
            self._notebook.cells.begin()
        ending = Ending()
        self.run = run
        future = self._engine.submit(_show(run, front_end, ending))
        try:
            self._foreground.serve(future, interrupt=lambda: run.send(Interrupt()))
        except KeyboardInterrupt:  # in the moment before serving began, or after it ended
            run.send(Interrupt())
            concurrent.futures.wait([future], timeout=CLOSE_WAIT)
        finally:
            view, self.run, self.view = self.view, None, None
            if self._notebook is not None:
                self._notebook.cells.end()
            left = front_end.close()
            if self._notebook is not None and view is not None:
                self._notebook.ends.add(view.model_id, left, number=self._notebook.number)
                self._engine.submit(self._notebook.ends.deliver_last())
        if not future.done():
            self.left = future
            raise NotebookError(
                "The run did not end in time after the interrupt and was left behind. "
                f"If the kernel acts oddly, restart it; {kept_in}"
            )
        _raise_bug(future)
        return ending


async def _show(run: Run, front_end: FrontEnd, ending: Ending) -> None:
    async with aclosing(aiter(run)) as events:
        async for event in events:
            ending.take(event)
            await front_end.on_event(event)


def _raise_bug(future: "concurrent.futures.Future[None]") -> None:
    """An error that is no `VibeError` is ours, and keeps its traceback."""
    if not future.cancelled():
        future.result()
