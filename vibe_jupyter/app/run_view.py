"""One run as the user sees it: whether it may begin, where it is shown, how it ended.

Its view is opened while the model works: the first request waits for nothing that only its answer needs. What renders a
run (widgets, Markdown, the colours of code) takes as long to import as the rest of the first prompt. So the events of
the run are kept until the view takes them, and the main thread serves meanwhile: ■ works from the start.
"""

import asyncio
import concurrent.futures
import contextlib
import importlib
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.agent.run import Run
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.protocol import (
    AssistantMessage,
    Cell,
    Event,
    FinishReason,
    Interrupt,
    MessageAdded,
    MimeBundle,
    RunFinished,
    RunStarted,
    ToolFinished,
    TurnStarted,
    Usage,
    UserMessage,
)
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.safe_imports import without_collections, without_working_folder
from vibe_jupyter.ui.front_end import RunRetention
from vibe_jupyter.ui.run_output import RunAuthor, UndoableRun, output_metadata

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.ui.cell_references import FindCell
    from vibe_jupyter.ui.front_end import FrontEnd, Metadata, Send
    from vibe_jupyter.ui.front_end_choice import ViewHost
    from vibe_jupyter.ui.page import ShownView
    from vibe_jupyter.ui.unprompted import ExtendedPage


OPEN_WITHIN: Final = 1.0
"""Seconds after which a run is shown though its first request is not on its way yet, such as to a host that is slow."""
DRAWN_WITHIN: Final = 0.5
"""Seconds that the first call of a run leaves a page to draw the view: while code runs, the page is not heard."""
_VIEW: Final = "vibe_jupyter.ui.front_end_choice"
_ATTEMPTS: Final = 2
"""An interrupt drops what waits for the main thread; the view is shown all the same, with how the run ended."""
_REFERENCE: Final = "{{"
"""How the name of a cell begins in an answer."""
CLOSE_WAIT = 3.0
"""Seconds given to what ends when the kernel lets go of it."""
_OPEN = "A run is active in this kernel already. Wait for it, or end it with Stop or ■."
_NOT_OVER = (
    "The previous run has not ended yet. Wait a moment and try again; if that does not help, restart the kernel."
)


class Reply(Value):
    """How a run ended. `str(reply)` is its text."""

    text: str
    """The model's last words, Markdown; empty when it said none. Cells are named by the number they had when it
    was made, since no view keeps that of a string current."""
    reason: FinishReason
    cells_changed: tuple[str, ...] = ()
    """Ids of the cells the run changed, in the order of the first change."""
    usage: Usage
    turns: int
    seconds: float
    cost: float | None = None
    """US dollars; None where the prices of the model are not known."""

    def __repr__(self) -> str:
        """Short, since the run itself was just shown."""
        return f"Reply(reason={self.reason!r}, turns={self.turns}, text={len(self.text)} characters)"

    def __str__(self) -> str:
        return self.text


class RunSummary:
    """What a reply needs of the events of a run."""

    def __init__(self) -> None:
        self.cells_changed: tuple[str, ...] = ()
        """As in `Reply`."""
        self.not_undone: list[str] = []
        """Variables that calls may have changed unasked, and that undo would not restore."""
        self.model = ""
        """Name and server of the model that answers; empty before its start."""
        self._text = ""
        self._finished: RunFinished | None = None

    @property
    def reason(self) -> FinishReason | None:
        """How it ended; None before its end."""
        return self._finished.reason if self._finished is not None else None

    @property
    def changed_something(self) -> bool:
        """Whether its tools changed cells or files."""
        return self._finished is not None and bool(self._finished.changed)

    def take(self, event: Event) -> None:
        """Look at one event."""
        match event:
            case RunStarted():
                self.model = f"{event.model}@{event.provider}"
            case MessageAdded(message=AssistantMessage() as message):
                self._text = message.text
            case RunFinished():
                self._finished = event
            case ToolFinished(details={"not_undone": list(names)}):
                self.not_undone += (str(name) for name in names)
            case _:
                pass

    def reply(self, find_cell: "FindCell") -> Reply:
        """The run, in short. Only after its last event."""
        assert self._finished is not None
        end = self._finished
        return Reply(
            text=_with_cell_words(self._text, find_cell),
            reason=end.reason,
            cells_changed=self.cells_changed,
            usage=end.usage,
            turns=end.turns,
            seconds=end.seconds,
            cost=end.cost,
        )


def _with_cell_words(text: str, find_cell: "FindCell") -> str:
    if _REFERENCE not in text:
        return text
    from vibe_jupyter.ui.cell_references import with_cell_words

    return with_cell_words(text, find_cell)


class DeferredFrontEnd:
    """Shows one run by the front end that fits, from the first event on that cannot wait for it."""

    def __init__(self, host: "ViewHost", keep: RunRetention, page: "ExtendedPage") -> None:
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
        opening = self._opening or self._begin_opening()
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

    def divide(self, call_id: str) -> None:
        """A tool call has put outputs into the cell: the run goes on behind them. Main thread."""
        if (divide := getattr(self._view, "divide", None)) is not None:
            divide(call_id)

    def join(self) -> None:
        """A page was loaded, which has lost the outputs of the run. From any thread."""
        if (join := getattr(self._view, "join", None)) is not None:
            join()

    def close(self, metadata: "Metadata") -> MimeBundle:
        """Leave the kept form in the output, with this metadata. Main thread."""
        self._send = None
        return self._view.close(metadata) if self._view is not None else self._show_kept(metadata)

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
        view = self._make_view()
        view.open(self._send)
        self._view = view

    def _make_view(self) -> "FrontEnd":
        if self._host.front_end is not None:
            return self._host.front_end()
        _import_view()
        from vibe_jupyter.ui.front_end_choice import choose_front_end

        return choose_front_end(self._host, self._keep, self._page)

    def _show_kept(self, metadata: "Metadata") -> MimeBundle:
        """What became of a run that ended before it could be shown."""
        _import_view()
        from vibe_jupyter.ui.front_end_choice import show_kept

        return show_kept(self._waiting, self._keep, self._page, metadata)


def _import_view() -> None:
    if _VIEW not in sys.modules:
        with without_working_folder(), without_collections():
            importlib.import_module(_VIEW)


def _may_wait(event: Event) -> bool:
    """Whether it comes before the first request and says nothing new."""
    match event:
        case RunStarted() | TurnStarted() | MessageAdded(message=UserMessage()):
            return True
        case _:
            return False


class BegunRun(NamedTuple):
    """A run that waits to be shown."""

    run: Run
    kept_in: str
    """Where the user finds it if it does not end in time."""
    key: str = ""
    """Of its cell's prompt, as `Options.key` makes it; empty where it had none."""
    undoable: UndoableRun | None = None
    """As what its changes are kept; None where they are not."""


class RunView:
    """Shows one run at a time, and knows it until it has ended. Main thread."""

    def __init__(
        self,
        engine: Engine,
        main_thread: MainThread,
        host: ShellHost,
        notebook: "NotebookAccess | None",
        presses: Presses,
    ) -> None:
        self._life: _Life | None = None
        """The current run, or one left behind; None when each came to its end."""
        self._front_end: DeferredFrontEnd | None = None
        """Shows the open run; None between runs."""
        self._engine = engine
        self._main_thread = main_thread
        self._host = host
        self._notebook = notebook
        self._presses = presses

    @property
    def run(self) -> Run | None:
        """The run that has not come to its end."""
        return self._life.run if self._life is not None and not self._life.is_over else None

    def check_free(self) -> None:
        """A run may begin; what an exception left behind is ended first.

        Raises:
            NotebookError: another is open, or does not end, or this is not the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            raise NotebookError("A run must start in a cell of the main shell, not in a subshell or another thread.")
        if self.run is None:
            return
        if self._main_thread.is_serving:
            raise NotebookError(_OPEN)
        if not self.end():
            raise NotebookError(_NOT_OVER)

    def end(self) -> bool:
        """Interrupt the current run, or one left behind, and wait for its end; whether there is none any more."""
        life = self._life
        if life is None or life.end():
            self._life = None
        return self._life is None

    def abandon(self) -> None:
        """End the run as `end` does; what does not end is none of this kernel's business any more."""
        self.end()
        self._life = None

    @property
    def view(self) -> "ShownView | None":
        """The run view that is open; None between runs, and where no page shows one."""
        return self._front_end.shown if self._front_end is not None else None

    def page_loaded(self) -> "ShownView | None":
        """A page was loaded; what it needs to draw the open run again, None between runs. From any thread."""
        if self._front_end is not None:
            self._front_end.join()
        return self.view

    async def attended(self) -> bool:
        """Whether anyone can answer a question of the open run. On the engine's loop."""
        return self._front_end is not None and await self._front_end.attended()

    def show(self, begun: BegunRun, keep: RunRetention) -> RunSummary:
        """Take a run to its end and leave its transcript in the output.

        Args:
            begun: one that has not begun to be shown.
            keep: what stays of it.

        Raises:
            NotebookError: it did not end in time after an interrupt.
        """
        with self._presses.raising(False):
            with self._begun(begun, keep) as life:
                self._main_thread.serve(life.over, interrupt=lambda: begun.run.send(Interrupt()))
            return self._ending(life, begun.kept_in)

    async def show_beside(self, begun: BegunRun, keep: RunRetention) -> RunSummary:
        """As `show`, for a cell that awaits it: the loop of this thread goes on meanwhile."""
        with self._presses.raising(False):
            with self._begun(begun, keep) as life:
                await self._main_thread.serve_beside(life.over, interrupt=lambda: begun.run.send(Interrupt()))
            return self._ending(life, begun.kept_in)

    @contextmanager
    def _begun(self, begun: BegunRun, keep: RunRetention) -> "Generator[_Life]":
        with self._living(begun, DeferredFrontEnd(self._host, keep, self)) as life:
            if self._presses.count:
                begun.run.send(Interrupt())  # it begins and ends, so that there is a transcript
            life.begin(self._engine)
            yield life

    def _ending(self, life: "_Life", kept_in: str) -> RunSummary:
        if not life.is_over:
            raise NotebookError(
                "The run did not end in time after the interrupt and was left behind; %vibe stop ends it. "
                f"If the kernel acts oddly, restart it; {kept_in}"
            )
        life.over.result()  # an error that is no `VibeError` is ours, and keeps its traceback
        if self._notebook is not None:
            life.ending.cells_changed = tuple(self._notebook.cells.changed)
        return life.ending

    @contextmanager
    def _living(self, begun: BegunRun, front_end: DeferredFrontEnd) -> "Generator[_Life]":
        """However this is left, the run is interrupted, its end is awaited, and its transcript is in the output."""
        life = _Life(begun.run, front_end, self._look_for_names)
        try:
            self._life = life
            front_end.open(begun.run.send)
            self._front_end = front_end
            self._main_thread.before_calls, self._main_thread.after_outputs = front_end.let_draw, front_end.divide
            if self._notebook is not None:
                self._notebook.cells.begin()
            yield life
        except BaseException:
            life.end()
            raise
        finally:
            if life.is_over:
                self._life = None
            # For programs that run notebooks: they want to know without reading prose.
            ending, kept = life.ending, begun.undoable
            undoable = kept if ending.changed_something else None
            named = (kept.conversation, kept.number) if kept is not None else ("", None)
            author = RunAuthor(ending.model, *named) if ending.model else None
            self._leave(
                front_end, output_metadata(ending.reason, begun.key, undoable, ending.not_undone, author=author)
            )

    def _leave(self, front_end: DeferredFrontEnd, metadata: "Metadata") -> None:
        view, self._front_end = self.view, None
        self._main_thread.before_calls = self._main_thread.after_outputs = None
        try:
            if self._notebook is not None:
                self._notebook.cells.end()
        finally:
            left = front_end.close(metadata)
        if self._notebook is not None and view is not None:
            self._notebook.ends.add(
                view.model_id, left, more=view.more, metadata=metadata, number=self._notebook.number
            )
            self._engine.submit(self._notebook.ends.deliver_last())

    async def answers(self) -> bool:
        """Whether a page with our extension shows this notebook. On the engine's loop."""
        panel = await self._notebook.page() if self._notebook is not None else None
        return panel is not None and panel.is_seen

    async def is_unseen(self) -> bool:
        """Whether a program runs this notebook, and nobody sees it. On the engine's loop."""
        panel = await self._notebook.page() if self._notebook is not None else None
        return panel is not None and not panel.is_seen

    def find_cell(self, reference: str) -> Cell | None:
        """The cell that an answer names by its id; None where none is known by it."""
        return self._notebook.cells.reads.named(reference) if self._notebook is not None else None

    async def _look_for_names(self, event: Event) -> None:
        """An answer, or the end of a run, names cells by their ids: their numbers are those of now."""
        if self._notebook is not None and _names_cells(event):
            await self._notebook.cells.reads.look_for_names()

    async def draw(self, view: "ShownView") -> None:
        """Have that page draw a view. On the engine's loop."""
        if self._notebook is not None:
            await self._notebook.draw(view)


class _Life:
    """One run on the engine, from before it begins."""

    def __init__(self, run: Run, front_end: DeferredFrontEnd, before_event: Callable[[Event], Awaitable[None]]) -> None:
        self.run = run
        self.over: concurrent.futures.Future[None] = concurrent.futures.Future()
        """Done when nothing of the run goes on; has the error of one that broke."""
        self.ending = RunSummary()
        self._front_end = front_end
        self._before_event = before_event
        self._task: concurrent.futures.Future[None] | None = None
        self._begins = False

    @property
    def is_over(self) -> bool:
        """Whether nothing of it goes on."""
        return self.over.done() or not self._begins

    def begin(self, engine: Engine) -> None:
        """Start it on the engine."""
        self._begins = True
        self._task = engine.submit(self._show())

    def end(self) -> bool:
        """Interrupt it, wait, and then cancel it; whether it is over."""
        self.run.send(Interrupt())  # also one that has not begun: it ends when it does
        for last_resort in (False, True):
            if last_resort and self._task is not None:
                self._task.cancel()
            if self.is_over or concurrent.futures.wait([self.over], timeout=CLOSE_WAIT).done:
                return True
        return False

    async def _show(self) -> None:
        try:
            async with aclosing(aiter(self.run)) as events:
                async for event in events:
                    self.ending.take(event)
                    if isinstance(event, MessageAdded | RunFinished):
                        await self._before_event(event)
                    await self._front_end.on_event(event)
        except BaseException as error:
            self.over.set_exception(error)
            raise
        self.over.set_result(None)


def _names_cells(event: Event) -> bool:
    match event:
        case MessageAdded(message=AssistantMessage() as message):
            return _REFERENCE in message.text
        case RunFinished():
            return any(one.kind == "cell" for one in event.changed)
        case _:
            return False


def working_folder() -> Path:
    """The folder that the agent may read in.

    Raises:
        NotebookError: it was removed while the kernel runs in it.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise NotebookError(
            f"The kernel's working folder is gone or cannot be entered ({error.strerror}). Go to one that is there, "
            'such as with %cd "~", then try again.'
        ) from error
