"""The live front end: a widget in the cell's output, its clicks taken while the cell runs.

The page is a mirror: it says that it is alive when it draws the view, and gets the whole transcript, then patches.

What this cannot promise: a decision is taken from the widget's channel only, but code that already runs in this kernel
reaches that channel as well as the page does. Approvals protect until the first hostile code was approved, not after.
A decision that no message of a front end carried is recorded as made by code; that detects, and does not prevent.

A live view that no page draws in time gives way to another front end (`WidgetFallback`). The kernel can make the widget
where the page cannot draw it: the packages of the two may be apart. Nothing says so but silence.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence

from IPython.display import display  # pyright: ignore[reportUnknownVariableType] (untyped)

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import (
    Answer,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    DecidedBy,
    Event,
    Interrupt,
    MessageAdded,
    MimeBundle,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    RunFinished,
    TextDelta,
    ToolCallDelta,
    ToolProgress,
)
from vibe_jupyter.ui.front_end import CallOnMainThread, FrontEnd, Handled, Metadata, Send
from vibe_jupyter.ui.page import FromPage, PageChannel, ShownView, ViewAlive, ViewGone, ViewLoaded
from vibe_jupyter.ui.run_output import NO_PIECE
from vibe_jupyter.ui.transcript import Transcript

LOADED_WITHIN = 1.5
"""Seconds in which a page that loads widgets as they are made has loaded the view."""
ALIVE_GRACE = 5.0
"""Seconds a page has to draw a view before nobody is taken to see it."""


class WidgetFrontEnd:
    """Shows one run live. The transcript and what waits for an answer belong to the engine loop."""

    def __init__(self, transcript: Transcript, *, handled: Handled) -> None:
        """
        Args:
            transcript: of the run.
            handled: tells a click from a call of the widget's methods.
        """
        self._drawn = asyncio.Event()
        self._is_loaded = False
        """Whether a page has the view. Until then what the document holds is all that a user can read."""
        self._transcript = transcript
        self._page = PageChannel(self._hear_page, handled)
        self._loop: asyncio.AbstractEventLoop | None = None
        """The engine's, once it listens."""
        self._send: Send | None = None
        """None before the run and after it: whatever is pressed then is nobody's business."""
        self._waiting: set[str] = set()
        """Approvals and questions without an answer."""

    @property
    def alive(self) -> bool:
        """Whether a page ever said that it shows the view, where it is now."""
        return self._drawn.is_set()

    @property
    def shown(self) -> ShownView | None:
        """What a reloaded page needs to draw the view again; None before it is open."""
        return self._page.shown

    def open(self, send: Send) -> None:
        """Show an empty view. Main thread."""
        self._send = send
        self._page.open(self._transcript.held())

    def move_here(self) -> None:
        """Show the view in the output of the cell that runs now instead. Main thread."""
        self._drawn.clear()
        self._page.move_here()

    def divide(self, call_id: str) -> None:
        """A call has put outputs into the cell: the run goes on behind them. Main thread."""
        if self._page.output is not None:
            self._page.output.divide()
            self._call_soon(lambda: self._divide_transcript(call_id))

    def join(self) -> None:
        """A page was loaded, which has no outputs of the run but the first: all goes there. From any thread."""
        self._call_soon(self._join_pieces)

    def listen(self) -> None:
        """Begin to hear the page. On the loop."""
        self._loop = asyncio.get_running_loop()
        self._page.attach(self._loop)

    async def is_drawn(self, *, within: float) -> bool:
        """Whether a page shows the view by now, or in so many seconds. On the loop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._drawn.wait()
        return self.alive

    def offer_widget(self) -> None:
        """Show the view as a widget if no page has loaded it: some load widgets only when they are to draw one."""
        if not self._is_loaded:
            self._page.offer_widget()

    async def attended(self) -> bool:
        """Whether a page shows the view."""
        return self.alive

    async def on_event(self, event: Event) -> None:
        """Bring the page up to date."""
        if self._loop is None:
            self.listen()
        if isinstance(event, ApprovalRequested | ApprovalResolved | QuestionAsked | QuestionAnswered):
            self._count_pending(event)
        if isinstance(event, RunFinished):
            self._transcript.fold(event)
            self._send = None
            self._page.drop()  # the kept form takes the place of the view right away
            return
        patches = self._transcript.apply(event)
        holds = not self._is_loaded or not isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta | ToolProgress)
        if self._drawn.is_set():
            self._page.patch(patches, self._transcript.held_pieces if holds else None, rests=_is_answer(event))
        elif holds:
            self._page.hold(self._transcript.held_pieces, rests=_is_answer(event))

    def close(self, metadata: Metadata | None = None, *, below: bool = False) -> MimeBundle:
        """Leave the kept form in the place of the view, with this metadata of the output. Main thread.

        Args:
            metadata: of the output.
            below: leave it behind all that the cell shows instead, and nothing in the place of the view.
        """
        if below:
            self.leave(NO_PIECE)
            display(bundle := self._transcript.bundle(), metadata=metadata, raw=True)
            return bundle
        pieces = self._transcript.pieces()
        self._leave(pieces, self._transcript.end_words, metadata)
        return pieces[0] if len(pieces) == 1 else self._transcript.bundle()

    def leave(self, instead: MimeBundle) -> None:
        """Stop listening and showing, with this in the place of the view. Main thread."""
        self._leave((instead,))

    def _leave(self, kept: Sequence[MimeBundle], words: str = "", metadata: Metadata | None = None) -> None:
        self._send = None
        self._page.close(kept, words, metadata, is_drawn=self.alive)

    def _divide_transcript(self, call_id: str) -> None:
        output = self._page.output
        if output is not None and len(output.marks) > self._transcript.ends.pieces:  # else they were joined meanwhile
            self._transcript.divide(call_id)

    def _join_pieces(self, *, again: bool = False) -> None:
        """All goes into one piece: into the first, or `again` into the cell, whose outputs the user cleared."""
        output = self._page.output
        if output is not None:
            if again:
                output.put_again()
            else:
                output.join()
            self._transcript.ends.steps.clear()
            self._page.hold(self._transcript.held_pieces)

    def _call_soon(self, function: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody looks any more
                self._loop.call_soon_threadsafe(function)

    def _count_pending(self, event: ApprovalRequested | ApprovalResolved | QuestionAsked | QuestionAnswered) -> None:
        match event:
            case ApprovalRequested():
                self._waiting.add(event.approval_id)
            case ApprovalResolved():
                self._waiting.discard(event.approval_id)
            case QuestionAsked():
                self._waiting.add(event.question_id)
            case QuestionAnswered():
                self._waiting.discard(event.question_id)

    def _hear_page(self, message: FromPage, by: DecidedBy) -> None:
        if isinstance(message, ViewLoaded | ViewAlive):
            self._is_loaded = True
            if isinstance(message, ViewAlive):
                self._drawn.set()
                self._page.show(self._transcript.parts())
                if self._page.output is not None:
                    self._page.output.renew()
                self._page.hold(self._transcript.held_pieces)  # a page that was reloaded has nothing yet
            return
        if isinstance(message, ViewGone):
            self._join_pieces(again=True)
            return
        command = message.command
        if self._send is None:
            return
        if isinstance(command, Interrupt):
            self._send(command)
            return
        asked = command.question_id if isinstance(command, Answer) else command.approval_id
        if asked in self._waiting:
            self._waiting.discard(asked)
            self._send(command, by=by)


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

    def __init__(
        self,
        live: WidgetFrontEnd,
        *,
        fallback: Callable[[], FrontEnd],
        call_main: CallOnMainThread,
        may_not_renew: Callable[[], bool] = lambda: False,
    ) -> None:
        self._live, self._may_not_renew = live, may_not_renew
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
        if self._fallback is not None:
            return self._fallback.close(metadata)
        return self._live.close(metadata, below=not self._live.alive and self._may_not_renew())

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


def _is_answer(event: Event) -> bool:
    """Whether it is a whole message that calls nothing, after which a run mostly ends."""
    return isinstance(event, MessageAdded) and isinstance(event.message, AssistantMessage) and not event.message.calls
