"""The live front end: a widget in the cell's output, its clicks taken while the cell runs.

The page is a mirror: it says that it is alive when it draws the view, and gets the whole transcript, then patches.

What this cannot promise: a decision is taken from the widget's channel only, but code that already runs in this kernel
reaches that channel as well as the page does. Approvals protect until the first hostile code was approved, not after.
A decision that no message of a front end carried is recorded as made by code; that detects, and does not prevent.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

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
from vibe_jupyter.ui.front_end import Handled, Metadata, Send
from vibe_jupyter.ui.page import FromPage, PageChannel, ShownView, ViewAlive, ViewLoaded
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
        self.listen()
        self._count_pending(event)
        if isinstance(event, RunFinished):
            self._transcript.fold(event)
            self._send = None
            self._page.drop()  # the kept form takes the place of the view right away
            return
        patches = self._transcript.apply(event)
        if not self._is_loaded or not isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta | ToolProgress):
            self._page.hold(self._transcript.held_pieces, rests=_is_answer(event))
        if self.alive:
            self._page.patch(patches)

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Leave the kept form in the place of the view, with this metadata of the output. Main thread."""
        pieces = self._transcript.pieces()
        self._leave(pieces, self._transcript.end_words, metadata)
        return pieces[0] if len(pieces) == 1 else self._transcript.bundle()

    def leave(self, instead: MimeBundle) -> None:
        """Stop listening and showing, with this in the place of the view. Main thread."""
        self._leave((instead,))

    def _leave(self, kept: Sequence[MimeBundle], words: str = "", metadata: Metadata | None = None) -> None:
        self._send = None
        if not self.alive:
            self._page.strip()
        self._page.close(kept, words, metadata)

    def _divide_transcript(self, call_id: str) -> None:
        output = self._page.output
        if output is not None and len(output.marks) > self._transcript.ends.pieces:  # else they were joined meanwhile
            self._transcript.divide(call_id)

    def _join_pieces(self) -> None:
        if self._page.output is not None:
            self._page.output.join()
            self._transcript.ends.steps.clear()
            self._page.hold(self._transcript.held_pieces)

    def _call_soon(self, function: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody looks any more
                self._loop.call_soon_threadsafe(function)

    def _count_pending(self, event: Event) -> None:
        match event:
            case ApprovalRequested():
                self._waiting.add(event.approval_id)
            case ApprovalResolved():
                self._waiting.discard(event.approval_id)
            case QuestionAsked():
                self._waiting.add(event.question_id)
            case QuestionAnswered():
                self._waiting.discard(event.question_id)
            case _:
                pass

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


def _is_answer(event: Event) -> bool:
    """Whether it is a whole message that calls nothing, after which a run mostly ends."""
    return isinstance(event, MessageAdded) and isinstance(event.message, AssistantMessage) and not event.message.calls
