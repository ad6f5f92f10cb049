"""Which front end shows a run, found out by probing, and the plain one where no page shows the live view."""

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
from vibe_jupyter.ui.terminal_keyboard import Keyboard, keyboard_of
from vibe_jupyter.ui.terminal_style import PLAIN, TerminalStyle, terminal_style
from vibe_jupyter.ui.text_prompt import PromptTasks, TextPrompt
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.unprompted import ExtendedPage, UnpromptedFrontEnd
from vibe_jupyter.ui.widget import WidgetFallback, WidgetFrontEnd

UPDATE_GAP = 0.25
"""Seconds between two renewals, which each send the whole view."""

T = TypeVar("T")

_VS_CODE_CELL: Final = "vscode-notebook-cell:"
"""Begins the ids of cells in VS Code."""


class UpdatingFrontEnd:
    """Questions go to the text prompt; without one they are answered no."""

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

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Leave the kept form in the output. Main thread."""
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
    """Shows nothing while the run goes on."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._asking = PromptTasks(None)
        self._send: Send | None = None

    def open(self, send: Send) -> None:
        """Nothing to show. Main thread."""
        self._send = send

    async def on_event(self, event: Event) -> None:
        """Keep it for the end; say no for a user who is not there."""
        self._transcript.fold(event)
        self._asking.take(event, self._send)

    async def attended(self) -> bool:
        """Nobody sees it."""
        return False

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Show the kept form. Main thread."""
        self._send = None
        bundle = self._transcript.bundle()
        display(bundle, metadata=metadata, raw=True)
        return bundle


def show_kept(
    events: Iterable[Event], keep: RunRetention, page: ExtendedPage, metadata: Metadata | None = None
) -> MimeBundle:
    """Show a run that is over, or was left behind, in its kept form, and return it. Main thread."""
    transcript = Transcript(keep=keep, find_cell=page.find_cell)
    for event in events:
        transcript.fold(event)
    bundle = transcript.bundle()
    display(bundle, metadata=metadata, raw=True)
    return bundle


class ViewHost(Protocol):
    """What a front end may ask of the shell it runs in."""

    @property
    def front_end(self) -> Callable[[], FrontEnd] | None:
        """Makes what shows a run to a program; None where a user is in front of the shell."""
        ...

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
    """Return whether an output that was just shown may stay as it is, so that an answer needs an output of its own.

    A console, which names no cell, may never renew one. VS Code loses an update with other metadata that comes before
    it has put the output into the cell, and then shows an empty cell.
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


def _text_prompt(host: ViewHost, *, keyboard: Keyboard | None = None, paper: TerminalStyle = PLAIN) -> TextPrompt:
    return TextPrompt(
        host.ask_main,
        host.read_line,
        host.write,
        is_typed=lambda: host.is_typed,
        keyboard=keyboard,
        paper=paper,
    )
