"""Which front end shows a run, found out by probing, and the plain one where no page shows the live view.

The kernel can make the widget where the page cannot draw it: the packages of the two may be apart. Nothing says so but
silence.
"""

import asyncio
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] (untyped)
    update_display,  # pyright: ignore[reportUnknownVariableType] (untyped)
)

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import Event, FinishReason, MimeBundle, RunFinished
from vibe_jupyter.ui import page as run_view
from vibe_jupyter.ui.front_end import CallOnMainThread, FrontEnd, RunRetention, Send, Throttle
from vibe_jupyter.ui.page import ShownView
from vibe_jupyter.ui.terminal import TerminalFrontEnd
from vibe_jupyter.ui.text_prompt import (
    PLAIN,
    Keyboard,
    PromptTasks,
    TerminalStyle,
    TextPrompt,
    keyboard_of,
    terminal_style,
)
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.unprompted import ExtendedPage, UnpromptedFrontEnd
from vibe_jupyter.ui.widget import WidgetFrontEnd

UPDATE_GAP = 0.25
"""Seconds between two renewals, which each send the whole view."""

T = TypeVar("T")

ALIVE_GRACE = 5.0
"""Seconds the page has to draw the view before the other front end takes over."""
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


class UpdatingFrontEnd:
    """Questions go to the text prompt; without one they are answered no."""

    def __init__(self, transcript: Transcript, prompt: TextPrompt | None, *, call_main: CallOnMainThread) -> None:
        self._transcript = transcript
        self._pace = Throttle(call_main, self._prepare_output, gap=UPDATE_GAP)
        self._asking = PromptTasks(prompt, before=self._pace.now)
        self._display_id = secrets.token_hex(8)
        self._send: Send | None = None

    def open(self, send: Send) -> None:
        """Show an empty view. Main thread."""
        self._send = send
        display(self._transcript.so_far(), raw=True, display_id=self._display_id)

    async def on_event(self, event: Event) -> None:
        """Bring the output up to date soon."""
        self._transcript.fold(event)
        if isinstance(event, RunFinished):
            await self._pace.stop()
            return
        self._pace.soon()
        self._asking.take(event, self._send)

    async def attended(self) -> bool:
        """There is a text prompt."""
        return True

    def close(self) -> MimeBundle:
        """Leave the kept form in the output. Main thread."""
        self._send = None
        bundle = self._transcript.bundle()
        update_display(bundle, raw=True, display_id=self._display_id)
        return bundle

    def _prepare_output(self) -> Callable[[], None]:
        bundle = self._transcript.so_far()
        return lambda: update_display(bundle, raw=True, display_id=self._display_id)


class SilentFrontEnd:
    """Shows nothing while the run goes on."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._asking = PromptTasks(None)
        self._send: Send | None = None
        self._reason: FinishReason | None = None
        """How the run ended; None before its end."""

    def open(self, send: Send) -> None:
        """Nothing to show. Main thread."""
        self._send = send

    async def on_event(self, event: Event) -> None:
        """Keep it for the end; say no for a user who is not there."""
        self._transcript.fold(event)
        self._asking.take(event, self._send)
        if isinstance(event, RunFinished):
            self._reason = event.reason

    async def attended(self) -> bool:
        """Nobody sees it."""
        return False

    def close(self) -> MimeBundle:
        """Show the kept form. Main thread."""
        self._send = None
        bundle = self._transcript.bundle()
        # For programs that run notebooks: they want to know without reading prose.
        display(bundle, metadata={"vibe_jupyter": {"reason": self._reason}}, raw=True)
        return bundle


def show_kept(events: Iterable[Event], keep: RunRetention) -> MimeBundle:
    """Show a run that is over, or was left behind, in its kept form, and return it. Main thread."""
    transcript = Transcript(keep=keep)
    for event in events:
        transcript.fold(event)
    bundle = transcript.bundle()
    display(bundle, raw=True)
    return bundle


class ViewHost(Protocol):
    """What a front end may ask of the shell it runs in."""

    @property
    def has_kernel(self) -> bool:
        """Whether this is a Jupyter kernel, and not IPython in a terminal."""
        ...

    @property
    def allow_stdin(self) -> bool:
        """Whether text can be typed at a prompt; says nothing about whether someone sees a card."""
        ...

    @property
    def plain_prompt(self) -> bool:
        """Whether the user asked for a prompt that takes lines only, such as with ``--simple-prompt``."""
        ...

    @property
    def colours(self) -> bool:
        """Whether the user's shell shows colours, as far as it was told."""
        ...

    async def call_main(self, function: Callable[[], T]) -> T:
        """Run a function on the main thread that only shows something: an interrupt waits for its end."""
        ...

    async def ask_main(self, function: Callable[[], T]) -> T:
        """Run a function on the main thread that waits for the user: an interrupt is raised in it."""
        ...

    def read_line(self, prompt: str) -> str:
        """Ask on the text prompt. Main thread."""
        ...

    @property
    def is_typed(self) -> bool:
        """Whether `read_line` reads what is typed, and nothing that code put in the place of `input`."""
        ...

    def handled_message(self) -> Mapping[str, Any] | None:
        """The Jupyter message that this thread handles now; None where it handles none."""
        ...

    def write(self, text: str) -> None:
        """Print. Main thread."""
        ...


def choose_front_end(host: ViewHost, keep: RunRetention, page: ExtendedPage) -> FrontEnd:
    """The front end of one run. Main thread.

    Args:
        host: the shell.
        keep: what stays of the run.
        page: the one with our extension, where there is one.
    """
    if not host.has_kernel:
        return _terminal_front_end(host, keep)
    if not host.allow_stdin:
        return UnpromptedFrontEnd(
            Transcript(keep=keep),
            page=page,
            call_main=host.call_main,
            handled=host.handled_message,
        )
    if not run_view.can_show():
        return _plain_front_end(host, keep)
    live = WidgetFrontEnd(Transcript(keep=keep), handled=host.handled_message)
    return WidgetFallback(live, fallback=lambda: _plain_front_end(host, keep), call_main=host.call_main)


def _terminal_front_end(host: ViewHost, keep: RunRetention) -> FrontEnd:
    paper = terminal_style(sys.stdout, colours=host.colours)
    keyboard = None if host.plain_prompt else keyboard_of(paper)
    prompt = _text_prompt(host, keyboard=keyboard, paper=paper)
    return TerminalFrontEnd(Transcript(keep=keep), prompt, call_main=host.call_main, write=host.write, paper=paper)


def _plain_front_end(host: ViewHost, keep: RunRetention) -> FrontEnd:
    return UpdatingFrontEnd(Transcript(keep=keep), _text_prompt(host), call_main=host.call_main)


def _text_prompt(host: ViewHost, *, keyboard: Keyboard | None = None, paper: TerminalStyle = PLAIN) -> TextPrompt:
    return TextPrompt(
        host.ask_main,
        host.read_line,
        host.write,
        is_typed=lambda: host.is_typed,
        keyboard=keyboard,
        paper=paper,
    )


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

    def close(self) -> MimeBundle:
        """Leave the kept form in the output. Main thread."""
        self._closed = True
        return (self._fallback or self._live).close()

    async def _watch_page(self) -> None:
        await asyncio.sleep(self._opened_at + ALIVE_GRACE - time.monotonic())
        try:
            # The page may have spoken while the main thread was busy with code; let it look at its messages first.
            await self._call_main(_return_nothing)
            await asyncio.sleep(PUMP_TURN)
            await self._call_main(_return_nothing)
            if self._live.alive:
                return
            self._replaying = True
            await self._call_main(self._take_over)
        except NotebookError:
            return  # the cell is over
        await self._replay_events()

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
