"""A run without text input: live if a page draws it, else its static form at the end.

Programs that run notebooks (nbconvert, papermill) and servers that run cells for their pages (jupyter-server-documents)
look the same to a kernel: neither allows text input. Only whether a page draws the view tells them apart, so that
decides whether a user can answer.
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

# Left in place of a view that no page drew.
NO_PAGE_YET: MimeBundle = {"text/plain": "No live view is available here. The run is shown when it ends."}


class ExtendedPage(Protocol):
    """A page with our extension that may show this notebook."""

    async def answers(self) -> bool:
        """Return whether there is one. Takes about a second at most."""
        ...

    async def is_unseen(self) -> bool:
        """Return whether a program runs this notebook, so that no user sees it."""
        ...

    async def draw(self, view: ShownView) -> None:
        """Make the page draw a view."""
        ...

    def find_cell(self, reference: str) -> Cell | None:
        """Return the cell that an answer refers to by id, or None."""
        ...


class UnpromptedFrontEnd:
    """Front end that goes live once a page answers, or at the first question. Both share one transcript."""

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
        self._place = ""  # display id of the output, or "" if there is none
        self._going_live = asyncio.Lock()
        self._attended: bool | None = None  # None until first determined
        self._looked = False  # True once a page was looked for
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def shown(self) -> ShownView | None:
        """Ids a page needs to redraw the live view after a reload, or None if there is none."""
        return self._live.shown if self._live is not None else None

    def open(self, send: Send) -> None:
        """Store `send`. Main thread."""
        self._send = send

    def divide(self, call_id: str) -> None:
        """Start a new piece, since a call has put outputs into the cell. Main thread."""
        if self._live is not None:
            self._live.divide(call_id)

    def join(self) -> None:
        """Merge the pieces, since a page was loaded. Thread-safe."""
        if self._live is not None:
            self._live.join()

    async def on_event(self, event: Event) -> None:
        """Fold the event, and display it if the view is live."""
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
        """Return whether a page draws the view. The first call waits up to `ALIVE_GRACE` seconds."""
        async with self._going_live:
            if self._attended is None:
                self._attended = await self._is_drawn()
        return self._attended

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Replace the view with the static output. Main thread."""
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
        with contextlib.suppress(NotebookError):  # the cell has finished
            await self._call_main(self._put_away)
        return False

    async def _go_live(self) -> WidgetFrontEnd | None:
        """Open the live view if necessary and return it, or None if it can't be opened."""
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
            return  # closed in the meantime
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
