"""A live view that no page draws in time gives way to another front end.

The kernel can make the widget where the page cannot draw it: the packages of the two may be apart. Nothing says so but
silence.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import Event, MimeBundle, RunFinished
from vibe_jupyter.ui.front_end import CallOnMainThread, FrontEnd, Metadata, Send
from vibe_jupyter.ui.page import ShownView
from vibe_jupyter.ui.widget import ALIVE_GRACE, LOADED_WITHIN, WidgetFrontEnd

PUMP_TURN = 0.1
"""Seconds in which a free main thread has surely looked at its messages."""
SILENT_PAGE = (
    "The live view could not load, so this run continues as plain text. "
    "The live view needs the package anywidget where JupyterLab, or the editor, runs."
)
IN_ITS_PLACE: MimeBundle = {
    "text/html": f'<p style="margin:2px 0;opacity:0.75">{SILENT_PAGE}</p>',
    "text/plain": SILENT_PAGE,
}
"""What is left of a view that nobody saw."""


class WidgetFallback:
    """Shows a run live, and from the beginning through another front end if the page stays silent."""

    def __init__(self, live: WidgetFrontEnd, *, fallback: Callable[[], FrontEnd], call_main: CallOnMainThread) -> None:
        self._live = live
        self._make_fallback = fallback
        self._call_main = call_main
        self._send: Send | None = None
        self._opened_at = 0.0
        self._closed = False
        self._watch: asyncio.Task[None] | None = None
        self._replaying = False
        self._events: deque[Event] = deque()
        """What a fall-back would have to be told."""
        self._fallback: FrontEnd | None = None

    @property
    def shown(self) -> ShownView | None:
        """What a reloaded page needs to draw the live view again; None where there is none."""
        return self._live.shown if self._fallback is None else None

    def open(self, send: Send) -> None:
        """Show an empty view. Main thread."""
        self._send = send
        self._opened_at = time.monotonic()
        self._live.open(send)

    def divide(self, call_id: str) -> None:
        """A call has put outputs into the cell. Main thread."""
        if self._fallback is None:
            self._live.divide(call_id)

    def join(self) -> None:
        """A page was loaded. From any thread."""
        if self._fallback is None:
            self._live.join()

    async def on_event(self, event: Event) -> None:
        """Pass the event on; keep it as long as it may have to be told again."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_page())
        if self._fallback is not None and not self._replaying:
            await self._fallback.on_event(event)
            return
        if self._live.alive and not self._replaying:
            self._events.clear()
        else:
            self._events.append(event)
        await self._live.on_event(event)
        if isinstance(event, RunFinished):
            await self._end_watch()

    async def is_drawn(self, *, within: float) -> bool:
        """Whether a page shows the run by now, or in so many seconds."""
        return self._fallback is not None or await self._live.is_drawn(within=within)

    async def attended(self) -> bool:
        """There is the view, or else a text prompt."""
        return True

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Leave the kept form in the output. Main thread."""
        self._closed = True
        return (self._fallback or self._live).close(metadata)

    async def _watch_page(self) -> None:
        try:
            await self._hear_until(self._opened_at + LOADED_WITHIN)
            self._live.offer_widget()
            await self._hear_until(self._opened_at + ALIVE_GRACE)
            if self._live.alive:
                return
            self._replaying = True
            await self._call_main(self._take_over)
        except NotebookError:
            return  # the cell is over
        await self._replay_events()

    async def _hear_until(self, moment: float) -> None:
        """Wait; the page may have spoken while the main thread was busy with code, so let it look at its messages."""
        await asyncio.sleep(moment - time.monotonic())
        await self._call_main(_return_nothing)
        await asyncio.sleep(PUMP_TURN)
        await self._call_main(_return_nothing)

    async def _replay_events(self) -> None:
        while self._fallback is not None and self._events:
            await self._fallback.on_event(self._events.popleft())
        self._replaying = False

    def _take_over(self) -> None:
        if self._closed or self._send is None:
            return
        self._live.leave(IN_ITS_PLACE)
        fallback = self._make_fallback()
        fallback.open(self._send)
        self._fallback = fallback

    async def _end_watch(self) -> None:
        """Let a change of front ends come to its end; else stop waiting for the page."""
        assert self._watch is not None
        if not self._replaying:
            self._watch.cancel()
        await asyncio.wait([self._watch])
        if not self._watch.cancelled():
            self._watch.result()


def _return_nothing() -> None:
    pass
