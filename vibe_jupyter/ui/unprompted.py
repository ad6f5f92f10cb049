"""A run where no text can be typed: live if a page shows it, else its kept form once, at the end.

Programs that run notebooks (nbconvert, papermill) and servers that run cells for their pages
(jupyter-server-documents) look the same to a kernel: neither allows text input. Only a page that draws the view tells
them apart, so that is what decides whether anyone can answer.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Protocol

from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] (untyped)
    update_display,  # pyright: ignore[reportUnknownVariableType] (untyped)
)

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import ApprovalRequested, Cell, Event, MimeBundle, QuestionAsked, RunFinished
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.ui import page as run_view
from vibe_jupyter.ui.front_end import CallOnMainThread, Handled, Metadata, Send
from vibe_jupyter.ui.page import ShownView
from vibe_jupyter.ui.text_prompt import rejection
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.widget import ALIVE_GRACE, LOADED_WITHIN, WidgetFrontEnd

NO_PAGE_YET: MimeBundle = {"text/plain": "No live view is available here. The run is shown when it ends."}
"""Stands where the view was that nobody drew."""


class ExtendedPage(Protocol):
    """A page with our extension that shows this notebook, if there is one."""

    async def answers(self) -> bool:
        """Whether there is one; known within a second or so."""
        ...

    async def is_unseen(self) -> bool:
        """Whether a program runs this notebook, and nobody sees it."""
        ...

    async def draw(self, view: ShownView) -> None:
        """Have it draw a view."""
        ...

    def find_cell(self, reference: str) -> Cell | None:
        """The cell that an answer names by its id; None where none is known by it."""
        ...


class UnpromptedFrontEnd:
    """Goes live as soon as a page answers, or at the first question; both share one transcript."""

    def __init__(
        self,
        transcript: Transcript,
        *,
        page: ExtendedPage,
        call_main: CallOnMainThread,
        handled: Handled,
    ) -> None:
        self._transcript = transcript
        self._page = page
        self._call_main = call_main
        self._handled = handled
        self._send: Send | None = None
        self._live: WidgetFrontEnd | None = None
        self._place = ""
        """Display id of the output; empty while there is none."""
        self._going_live = asyncio.Lock()
        self._attended: bool | None = None
        """None before anybody wanted to know."""
        self._looked = False
        """Whether a page was looked for."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def shown(self) -> ShownView | None:
        """What a reloaded page needs to draw the live view again; None where there is none."""
        return self._live.shown if self._live is not None else None

    def open(self, send: Send) -> None:
        """Nothing to show yet. Main thread."""
        self._send = send

    def divide(self, call_id: str) -> None:
        """A call has put outputs into the cell. Main thread."""
        if self._live is not None:
            self._live.divide(call_id)

    def join(self) -> None:
        """A page was loaded. From any thread."""
        if self._live is not None:
            self._live.join()

    async def on_event(self, event: Event) -> None:
        """Fold it, and show it where somebody sees it."""
        if not self._looked:
            self._looked = True
            self._start(self._go_live_for_a_page())
        if self._live is not None:
            await self._live.on_event(event)
        else:
            self._transcript.fold(event)
        if isinstance(event, ApprovalRequested | QuestionAsked):
            self._start(self._reject_if_alone(event))
        if isinstance(event, RunFinished):
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def attended(self) -> bool:
        """Whether a page draws the view; the first call waits for it, at most `ALIVE_GRACE` seconds."""
        async with self._going_live:
            if self._attended is None:
                self._attended = await self._is_drawn()
        return self._attended

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Leave the kept form in the output. Main thread."""
        self._send = None
        if self._live is not None:
            return self._live.close(metadata)
        bundle = self._transcript.bundle()
        if self._place:
            update_display(bundle, metadata=metadata, raw=True, display_id=self._place)
        else:
            display(bundle, metadata=metadata, raw=True)
        return bundle

    async def _go_live_for_a_page(self) -> None:
        if await self._page.answers():
            async with self._going_live:
                if self._attended is None:
                    await self._go_live()

    async def _is_drawn(self) -> bool:
        if await self._page.is_unseen():
            return False
        live = await self._go_live()
        if live is None:
            return False
        if await live.is_drawn(within=LOADED_WITHIN):
            return True
        live.offer_widget()
        if await live.is_drawn(within=ALIVE_GRACE - LOADED_WITHIN):
            return True
        with contextlib.suppress(NotebookError):  # the cell is over
            await self._call_main(self._put_away)
        return False

    async def _go_live(self) -> WidgetFrontEnd | None:
        """The live view, opened if it is not; None where it cannot be."""
        if self._live is None:
            try:
                await self._call_main(self._open_view)
            except NotebookError:
                return None
        if self._live is not None:
            self._live.listen()
            if self._live.shown is not None and await self._page.answers():
                await self._page.draw(self._live.shown)
        return self._live

    def _open_view(self) -> None:
        if self._send is None:
            return  # closed meanwhile
        with without_working_folder():
            if run_view.can_show():
                live = WidgetFrontEnd(self._transcript, handled=self._handled)
                live.open(self._send)
                self._live = live

    def _put_away(self) -> None:
        live, self._live = self._live, None
        if live is not None and live.shown is not None:
            self._place = live.shown.display_id
            live.leave(NO_PAGE_YET)

    async def _reject_if_alone(self, asked: ApprovalRequested | QuestionAsked) -> None:
        if not await self.attended() and self._send is not None:
            self._send(rejection(asked), by="nobody")

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
