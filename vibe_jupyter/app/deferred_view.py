"""The view of a run, opened while the model works: the first request waits for nothing that only its answer needs.

What renders a run (widgets, Markdown, the colours of code) takes as long to import as the rest of the first prompt. So
the events of the run are kept until the view takes them, and the main thread serves meanwhile: ■ works from the start.
"""

import asyncio
import contextlib
import sys
from collections import deque
from typing import TYPE_CHECKING, Final

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import Event, MessageAdded, MimeBundle, RunFinished, RunStarted, TurnStarted, UserMessage
from vibe_jupyter.safe_imports import without_collections, without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.ui.front_end import FrontEnd, Send
    from vibe_jupyter.ui.front_end_choice import ViewHost
    from vibe_jupyter.ui.page import ShownView
    from vibe_jupyter.ui.run_retention import RunRetention
    from vibe_jupyter.ui.unprompted import ExtendedPage

OPEN_WITHIN: Final = 1.0
"""Seconds after which a run is shown though its first request is not on its way yet, such as to a host that is slow."""
DRAWN_WITHIN: Final = 0.5
"""Seconds that the first call of a run leaves a page to draw the view: while code runs, the page is not heard."""
_VIEW: Final = "vibe_jupyter.ui.front_end_choice"
_ATTEMPTS: Final = 2
"""An interrupt drops what waits for the main thread; the view is shown all the same, with how the run ended."""


class DeferredFrontEnd:
    """Shows one run by the front end that fits, from the first event on that cannot wait for it."""

    def __init__(self, host: "ViewHost", keep: "RunRetention", page: "ExtendedPage") -> None:
        self._host = host
        self._keep = keep
        self._page = page
        self._send: Send | None = None
        self._view: FrontEnd | None = None
        self._wanted = asyncio.Event()
        self._is_open = asyncio.Event()
        """Set when there is a view, or none can be had; what it missed comes after that."""
        self._is_drawn = False
        self._opening: asyncio.Task[None] | None = None
        self._waiting: deque[Event] = deque()
        """What the view has not taken yet, in order."""

    @property
    def shown(self) -> "ShownView | None":
        """What a page that was reloaded needs to draw the live view; None where there is none."""
        return getattr(self._view, "shown", None)

    def open(self, send: "Send") -> None:
        """Nothing to show yet, unless the view was imported for an earlier run: then it opens now. Main thread."""
        self._send = send
        if _VIEW in sys.modules:
            self._open_view()

    async def on_event(self, event: Event) -> None:
        """Pass the event on, or keep it until there is a view."""
        opening = self._begin_opening()
        if opening.done():
            opening.result()  # a view that cannot be made ends the run
        if opening.done() and self._view is not None:
            await self._view.on_event(event)
            return
        self._waiting.append(event)
        if not _may_wait(event):
            self._wanted.set()
        if isinstance(event, RunFinished):
            await asyncio.wait([opening])
            opening.result()

    async def attended(self) -> bool:
        """Whether anyone can answer; the view is there when this is known."""
        self._wanted.set()
        await asyncio.wait([self._begin_opening()])
        return self._view is not None and await self._view.attended()

    async def let_draw(self) -> None:
        """Wait until there is a view and, once in a run, for a page to draw it."""
        if self._is_drawn:
            return
        self._is_drawn = True
        self._wanted.set()
        self._begin_opening()
        await self._is_open.wait()
        if (is_drawn := getattr(self._view, "is_drawn", None)) is not None:
            await is_drawn(within=DRAWN_WITHIN)

    def close(self) -> MimeBundle:
        """Leave the kept form in the output. Main thread."""
        self._send = None
        return self._view.close() if self._view is not None else self._show_kept()

    def _begin_opening(self) -> "asyncio.Task[None]":
        if self._opening is None:
            self._opening = asyncio.create_task(self._open_when_wanted())
        return self._opening

    async def _open_when_wanted(self) -> None:
        try:
            if self._view is None:
                await self._open_late()
        finally:
            self._is_open.set()
        while self._view is not None and self._waiting:
            await self._view.on_event(self._waiting.popleft())

    async def _open_late(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPEN_WITHIN):
                await self._wanted.wait()
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(NotebookError):  # interrupted, or the cell is over: closing shows the rest
                await self._host.call_main(self._open_view)
                break

    def _open_view(self) -> None:
        if self._send is None:
            return  # closed meanwhile
        with without_working_folder(), without_collections():
            from vibe_jupyter.ui.front_end_choice import choose_front_end

            view = choose_front_end(self._host, self._keep, self._page)
            view.open(self._send)
        self._view = view

    def _show_kept(self) -> MimeBundle:
        """What became of a run that ended before it could be shown."""
        with without_working_folder(), without_collections():
            from vibe_jupyter.ui.front_end_choice import show_kept

            return show_kept(self._waiting, self._keep)


def _may_wait(event: Event) -> bool:
    """Whether it comes before the first request and says nothing new."""
    match event:
        case RunStarted() | TurnStarted() | MessageAdded(message=UserMessage()):
            return True
        case _:
            return False
