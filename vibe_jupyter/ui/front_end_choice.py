"""Selection of a run's front end by probing, and a plain one for pages that can't draw the live view."""

import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] (untyped)
    update_display,  # pyright: ignore[reportUnknownVariableType] (untyped)
)

from vibe_jupyter.protocol import Event, MimeBundle, RunFinished
from vibe_jupyter.ui import page as run_view
from vibe_jupyter.ui.front_end import CallOnMainThread, FrontEnd, Metadata, RunRetention, Send, Throttle
from vibe_jupyter.ui.run_output import NO_PIECE
from vibe_jupyter.ui.terminal import TerminalFrontEnd
from vibe_jupyter.ui.terminal_keyboard import TerminalKeyboard, keyboard_of
from vibe_jupyter.ui.terminal_style import PLAIN, TerminalStyle, terminal_style
from vibe_jupyter.ui.text_prompt import PromptTasks, TextPrompt
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.unprompted import ExtendedPage, UnpromptedFrontEnd
from vibe_jupyter.ui.widget import WidgetFallback, WidgetFrontEnd

UPDATE_GAP = 0.25  # seconds between updates, each of which sends the whole view

T = TypeVar("T")

_VS_CODE_CELL: Final = "vscode-notebook-cell:"  # prefix of cell ids in VS Code


class UpdatingFrontEnd:
    """Front end that updates one static output. Questions go to the text prompt, or are rejected without one."""

    def __init__(
        self,
        transcript: Transcript,
        prompt: TextPrompt | None,
        *,
        call_main: CallOnMainThread,
        may_not_renew: Callable[[], bool] = lambda: False,
    ) -> None:
        self._transcript, self._may_not_renew = transcript, may_not_renew
        self._pace = Throttle(call_main, self._prepare_output, gap=UPDATE_GAP)
        self._asking = PromptTasks(prompt, before=self._pace.now)
        self._display_id = secrets.token_hex(8)
        self._send: Send | None = None

    def open(self, send: Send) -> None:
        """Display an empty view. Main thread."""
        self._send = send
        display(self._transcript.so_far(), raw=True, display_id=self._display_id)

    async def on_event(self, event: Event) -> None:
        """Schedule an update of the output."""
        self._transcript.fold(event)
        if isinstance(event, RunFinished):
            await self._pace.stop()
            return
        self._pace.soon()
        self._asking.take(event, self._send)

    async def attended(self) -> bool:
        """Return True: there is a text prompt."""
        return True

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Replace the view with the static output. Main thread."""
        self._send = None
        bundle = self._transcript.bundle()
        if self._may_not_renew():
            update_display(NO_PIECE, raw=True, display_id=self._display_id)
            display(bundle, metadata=metadata, raw=True)
        else:
            update_display(bundle, metadata=metadata, raw=True, display_id=self._display_id)
        return bundle

    def _prepare_output(self) -> Callable[[], None]:
        bundle = self._transcript.so_far()
        return lambda: update_display(bundle, raw=True, display_id=self._display_id)


class SilentFrontEnd:
    """Front end that displays nothing until the run ends."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._asking = PromptTasks(None)
        self._send: Send | None = None

    def open(self, send: Send) -> None:
        """Store `send`. Main thread."""
        self._send = send

    async def on_event(self, event: Event) -> None:
        """Record the event and reject approvals and questions."""
        self._transcript.fold(event)
        self._asking.take(event, self._send)

    async def attended(self) -> bool:
        """Return False: no user watches."""
        return False

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Display the static output. Main thread."""
        self._send = None
        bundle = self._transcript.bundle()
        display(bundle, metadata=metadata, raw=True)
        return bundle


def show_kept(
    events: Iterable[Event], keep: RunRetention, page: ExtendedPage, metadata: Metadata | None = None
) -> MimeBundle:
    """Display a finished or abandoned run in its static form and return the bundle. Main thread."""
    transcript = Transcript(keep=keep, find_cell=page.find_cell)
    for event in events:
        transcript.fold(event)
    bundle = transcript.bundle()
    display(bundle, metadata=metadata, raw=True)
    return bundle


class ViewHost(Protocol):
    """Capabilities of the shell that front ends depend on."""

    @property
    def front_end(self) -> Callable[[], FrontEnd] | None:
        """Factory of the front end for programs, or None if a user is at the shell."""
        ...

    @property
    def has_kernel(self) -> bool:
        """True if this is a Jupyter kernel rather than IPython in a terminal."""
        ...

    @property
    def allow_stdin(self) -> bool:
        """True if the front end accepts text input. Unrelated to whether anyone can see a card."""
        ...

    @property
    def plain_prompt(self) -> bool:
        """True if the user asked for a line-based prompt, as with ``--simple-prompt``."""
        ...

    @property
    def colours(self) -> bool:
        """True if the user's shell is configured to show colors."""
        ...

    async def call_main(self, function: Callable[[], T]) -> T:
        """Run a display function on the main thread. Interrupts are deferred until it returns."""
        ...

    async def ask_main(self, function: Callable[[], T]) -> T:
        """Run a function that waits for the user on the main thread. Interrupts are raised in it."""
        ...

    def read_line(self, prompt: str) -> str:
        """Read a line from the text prompt. Main thread."""
        ...

    @property
    def is_typed(self) -> bool:
        """True if `read_line` reads typed text, rather than a replacement of `input` that code installed."""
        ...

    def handled_message(self) -> Mapping[str, Any] | None:
        """Return the Jupyter message that this thread is handling, or None."""
        ...

    def write(self, text: str) -> None:
        """Print. Main thread."""
        ...


def choose_front_end(host: ViewHost, keep: RunRetention, page: ExtendedPage) -> FrontEnd:
    """Choose the front end of one run. Main thread.

    Args:
        host: The shell.
        keep: Settings of the saved output.
        page: The page with our extension, if any.
    """
    if not host.has_kernel:
        return _terminal_front_end(host, keep, page)
    if not host.allow_stdin:
        return UnpromptedFrontEnd(
            Transcript(keep=keep, find_cell=page.find_cell),
            page=page,
            call_main=host.call_main,
            handled=host.handled_message,
        )
    if not run_view.can_show():
        return _plain_front_end(host, keep, page)
    live = WidgetFrontEnd(Transcript(keep=keep, find_cell=page.find_cell), handled=host.handled_message)
    return WidgetFallback(
        live,
        fallback=lambda: _plain_front_end(host, keep, page),
        call_main=host.call_main,
        may_not_renew=lambda: _may_not_renew(host),
    )


def _may_not_renew(host: ViewHost) -> bool:
    """Return whether an output shown just now may ignore updates, so that the answer needs an output of its own.

    A console, which names no cell, may never update an output. VS Code loses an update with other metadata if it
    arrives before the output was added to the cell, and then shows an empty cell.
    """
    handled: Mapping[str, Any] = host.handled_message() or {}
    cell = str(handled.get("metadata", {}).get("cellId") or "")
    return not cell or cell.startswith(_VS_CODE_CELL)


def _terminal_front_end(host: ViewHost, keep: RunRetention, page: ExtendedPage) -> FrontEnd:
    paper = terminal_style(sys.stdout, colours=host.colours)
    keyboard = None if host.plain_prompt else keyboard_of(paper)
    prompt = _text_prompt(host, keyboard=keyboard, paper=paper)
    return TerminalFrontEnd(
        Transcript(keep=keep, find_cell=page.find_cell), prompt, call_main=host.call_main, write=host.write, paper=paper
    )


def _plain_front_end(host: ViewHost, keep: RunRetention, page: ExtendedPage) -> FrontEnd:
    return UpdatingFrontEnd(
        Transcript(keep=keep, find_cell=page.find_cell),
        _text_prompt(host),
        call_main=host.call_main,
        may_not_renew=lambda: _may_not_renew(host),
    )


def _text_prompt(
    host: ViewHost, *, keyboard: TerminalKeyboard | None = None, paper: TerminalStyle = PLAIN
) -> TextPrompt:
    return TextPrompt(
        host.ask_main,
        host.read_line,
        host.write,
        is_typed=lambda: host.is_typed,
        keyboard=keyboard,
        paper=paper,
    )
