"""The live front end: a widget in the cell's output, whose clicks are handled while the cell runs.

The page mirrors the transcript: it reports when it has drawn the view, then receives all parts and, from then on,
patches.

What this can't guarantee: decisions are only accepted from the widget's channel, but code already running in this
kernel can use that channel just as the page can. Approvals protect until the first hostile code is approved, not after.
A decision that no front-end message carried is recorded as made by code. That detects tampering; it doesn't prevent it.

A live view that no page draws in time is replaced by another front end (`WidgetFallback`). The kernel can make a widget
that the page can't draw, since their packages may be installed separately, and the only sign of that is silence.
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

LOADED_WITHIN = 1.5  # seconds for pages that load a widget on creation to load the view
ALIVE_GRACE = 5.0  # seconds for a page to draw a view before assuming that there is no user


class WidgetFrontEnd:
    """Front end that displays one run live. The transcript and the pending answers belong to the engine loop."""

    def __init__(self, transcript: Transcript, *, handled: Handled) -> None:
        """
        Args:
            transcript: Transcript of the run.
            handled: Returns the message being handled, to tell a click from a call of the widget's methods.
        """
        self._drawn = asyncio.Event()
        # True once a page has loaded the view; until then users only see what the document contains.
        self._is_loaded = False
        self._transcript = transcript
        self._page = PageChannel(self._hear_page, handled)
        self._loop: asyncio.AbstractEventLoop | None = None  # the engine's loop, once it listens
        self._send: Send | None = None  # None before and after the run, when clicks have no effect
        self._waiting: set[str] = set()  # ids of open approvals and questions

    @property
    def alive(self) -> bool:
        """True if a page has reported drawing the view where it is now."""
        return self._drawn.is_set()

    @property
    def shown(self) -> ShownView | None:
        """Ids a page needs to redraw the view after a reload, or None before `open`."""
        return self._page.shown

    def open(self, send: Send) -> None:
        """Display an empty view. Main thread."""
        self._send = send
        self._page.open(self._transcript.held())

    def move_here(self) -> None:
        """Move the view to the output of the running cell. Main thread."""
        self._drawn.clear()
        self._page.move_here()

    def divide(self, call_id: str) -> None:
        """Start a new piece, since a call has put outputs into the cell. Main thread."""
        if self._page.output is not None:
            self._page.output.divide()
            self._call_soon(lambda: self._divide_transcript(call_id))

    def join(self) -> None:
        """Merge the pieces: a newly loaded page has no outputs of the run except the first. Thread-safe."""
        self._call_soon(self._join_pieces)

    def listen(self) -> None:
        """Start handling messages from the page. On the loop."""
        self._loop = asyncio.get_running_loop()
        self._page.attach(self._loop)

    async def is_drawn(self, *, within: float) -> bool:
        """Return whether a page has drawn the view, waiting up to `within` seconds. On the loop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._drawn.wait()
        return self.alive

    def offer_widget(self) -> None:
        """Offer the view as a widget if no page has loaded it: some load widgets only on first display."""
        if not self._is_loaded:
            self._page.offer_widget()

    async def attended(self) -> bool:
        """Return whether a page has drawn the view."""
        return self.alive

    async def on_event(self, event: Event) -> None:
        """Update the page."""
        if self._loop is None:
            self.listen()
        if isinstance(event, ApprovalRequested | ApprovalResolved | QuestionAsked | QuestionAnswered):
            self._count_pending(event)
        if isinstance(event, RunFinished):
            self._transcript.fold(event)
            self._send = None
            self._page.drop()  # the static output replaces the view immediately
            return
        patches = self._transcript.apply(event)
        # Deltas are only stored while no page has loaded the view: until then, users see nothing but the document.
        holds = not self._is_loaded or not isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta | ToolProgress)
        if self._drawn.is_set():
            self._page.patch(patches, self._transcript.held_pieces if holds else None, rests=_is_answer(event))
        elif holds:
            self._page.hold(self._transcript.held_pieces, rests=_is_answer(event))

    def close(self, metadata: Metadata | None = None, *, below: bool = False) -> MimeBundle:
        """Replace the view with the static output. Main thread.

        Args:
            metadata: Metadata of the output.
            below: Add the output below everything in the cell instead, and leave nothing in place of the view.
        """
        if below:
            self.leave(NO_PIECE)
            display(bundle := self._transcript.bundle(), metadata=metadata, raw=True)
            return bundle
        pieces = self._transcript.pieces()
        self._leave(pieces, self._transcript.end_words, metadata)
        return pieces[0] if len(pieces) == 1 else self._transcript.bundle()

    def leave(self, instead: MimeBundle) -> None:
        """Stop, with this in place of the view. Main thread."""
        self._leave((instead,))

    def _leave(self, kept: Sequence[MimeBundle], words: str = "", metadata: Metadata | None = None) -> None:
        self._send = None
        self._page.close(kept, words, metadata, is_drawn=self.alive)

    def _divide_transcript(self, call_id: str) -> None:
        output = self._page.output
        if output is not None and len(output.marks) > self._transcript.ends.pieces:  # else merged meanwhile
            self._transcript.divide(call_id)

    def _join_pieces(self, *, again: bool = False) -> None:
        """Merge all pieces into the first, or into a new one if the user cleared the cell's outputs (`again`)."""
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
            with contextlib.suppress(RuntimeError):  # the loop is closed
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
                self._page.hold(self._transcript.held_pieces)  # a reloaded page has nothing yet
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


PUMP_TURN = 0.1  # seconds in which an idle main thread is sure to process its messages
SILENT_PAGE = (
    "The live view could not load, so this run continues as plain text. "
    "The live view needs the package anywidget where JupyterLab, or the editor, runs."
)
# Left in place of a view that no page drew.
IN_ITS_PLACE: MimeBundle = {
    "text/html": f'<p style="margin:2px 0;opacity:0.75">{SILENT_PAGE}</p>',
    "text/plain": SILENT_PAGE,
}


class WidgetFallback:
    """Front end that runs live, and replays the run through another front end if no page responds."""

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
        self._events: deque[Event] = deque()  # events to replay to a fallback
        self._fallback: FrontEnd | None = None

    @property
    def shown(self) -> ShownView | None:
        """Ids a page needs to redraw the live view after a reload, or None if there is none."""
        return self._live.shown if self._fallback is None else None

    def open(self, send: Send) -> None:
        """Display an empty view. Main thread."""
        self._send = send
        self._opened_at = time.monotonic()
        self._live.open(send)

    def divide(self, call_id: str) -> None:
        """Start a new piece, since a call has put outputs into the cell. Main thread."""
        if self._fallback is None:
            self._live.divide(call_id)

    def join(self) -> None:
        """Merge the pieces, since a page was loaded. Thread-safe."""
        if self._fallback is None:
            self._live.join()

    async def on_event(self, event: Event) -> None:
        """Forward the event. Keeps it while a replay may be necessary."""
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
        """Return whether the run is displayed, waiting up to `within` seconds."""
        return self._fallback is not None or await self._live.is_drawn(within=within)

    async def attended(self) -> bool:
        """Return True: there is the view, or else a text prompt."""
        return True

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Replace the view with the static output. Main thread."""
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
            return  # the cell has finished
        await self._replay_events()

    async def _hear_until(self, moment: float) -> None:
        """Sleep until `moment`, then let the main thread process messages that arrived while it was running code."""
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
        """Let a change of front ends finish; otherwise stop watching for the page."""
        assert self._watch is not None
        if not self._replaying:
            self._watch.cancel()
        await asyncio.wait([self._watch])
        if not self._watch.cancelled():
            self._watch.result()


def _return_nothing() -> None:
    pass


def _is_answer(event: Event) -> bool:
    """Return whether the event is a complete message without calls, after which most runs end."""
    return isinstance(event, MessageAdded) and isinstance(event.message, AssistantMessage) and not event.message.calls
