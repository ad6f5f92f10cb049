"""Display of a run: checks that it may begin, shows it, and summarizes how it ended.

The view is opened while the model works, so that the first request doesn't wait for it: importing what renders a run
(widgets, Markdown, syntax highlighting) takes as long as the rest of the first prompt. Events are buffered until the
view takes them. The main thread serves meanwhile, so ■ works from the start.
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
from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.errors import NotebookError
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
    from vibe_jupyter.ui.cell_references import FindCell
    from vibe_jupyter.ui.front_end import FrontEnd, Metadata, Send
    from vibe_jupyter.ui.front_end_choice import ViewHost
    from vibe_jupyter.ui.page import ShownView
    from vibe_jupyter.ui.unprompted import ExtendedPage


# Seconds until a run is shown even if its first request hasn't been sent, such as to a slow host.
OPEN_WITHIN: Final = 1.0
# Seconds that the first tool call waits for a page to draw the view: while code runs, comm messages aren't processed.
DRAWN_WITHIN: Final = 0.5
_VIEW: Final = "vibe_jupyter.ui.front_end_choice"
# An interrupt discards calls queued for the main thread; try again, so that the view shows how the run ended.
_ATTEMPTS: Final = 2
_REFERENCE: Final = "{{"  # prefix of a reference to a cell in an answer
CLOSE_WAIT = 3.0  # seconds to wait for tasks when the kernel stops them
_OPEN = "A run is active in this kernel already. Wait for it, or end it with Stop or ■."
_NOT_OVER = (
    "The previous run has not ended yet. Wait a moment and try again; if that does not help, restart the kernel."
)


class Reply(Value):
    """Result of a run. `str(reply)` is its text."""

    text: str
    """The model's final answer in Markdown, or "" without one. Names cells by their numbers when the reply was made,
    because a plain string can't be updated later."""
    reason: FinishReason
    cells_changed: tuple[str, ...] = ()
    """Ids of the cells that the run changed, in order of their first change."""
    usage: Usage
    turns: int
    seconds: float
    cost: float | None = None
    """US dollars; None if the model's prices are unknown."""

    def __repr__(self) -> str:
        """Return a short form, since the run itself was just displayed."""
        return f"Reply(reason={self.reason!r}, turns={self.turns}, text={len(self.text)} characters)"

    def __str__(self) -> str:
        return self.text


class RunSummary:
    """Collector of the data in a run's events that a `Reply` needs."""

    def __init__(self) -> None:
        self.cells_changed: tuple[str, ...] = ()  # see `Reply`
        # Variables that calls may have changed without approval and that undo wouldn't restore.
        self.not_undone: list[str] = []
        self.model = ""  # model@server; "" before the run starts
        self._text = ""
        self._finished: RunFinished | None = None

    @property
    def reason(self) -> FinishReason | None:
        """Finish reason, or None until the run has ended."""
        return self._finished.reason if self._finished is not None else None

    @property
    def changed_something(self) -> bool:
        """True if its tools changed cells or files."""
        return self._finished is not None and bool(self._finished.changed)

    def take(self, event: Event) -> None:
        """Process one event."""
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
        """Build the reply. Only valid after the last event."""
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
    """Front end that chooses and imports the actual view at the first event that needs it."""

    def __init__(self, host: "ViewHost", keep: RunRetention, page: "ExtendedPage") -> None:
        self._host = host
        self._keep = keep
        self._page = page
        self._send: Send | None = None
        self._view: FrontEnd | None = None
        self._wanted = asyncio.Event()
        # Set when a view exists or can't be made; it receives the buffered events afterwards.
        self._is_open = asyncio.Event()
        self._is_drawn = False
        self._opening: asyncio.Task[None] | None = None
        self._waiting: deque[Event] = deque()  # events that the view hasn't taken yet, in order

    @property
    def shown(self) -> "ShownView | None":
        """Data for a reloaded page to draw the live view, or None without one."""
        return getattr(self._view, "shown", None)

    def open(self, send: "Send") -> None:
        """Open the view now if an earlier run imported it, otherwise defer that. Main thread only."""
        self._send = send
        if _VIEW in sys.modules:
            self._open_view()

    async def on_event(self, event: Event) -> None:
        """Pass the event to the view, or buffer it until there is one."""
        opening = self._opening or self._begin_opening()
        if opening.done():
            opening.result()  # end the run if the view can't be made
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
        """Return whether a user can answer. Opens the view to find out."""
        self._wanted.set()
        await asyncio.wait([self._begin_opening()])
        return self._view is not None and await self._view.attended()

    async def let_draw(self) -> None:
        """Wait for the view and, once per run, for a page to draw it."""
        if self._is_drawn:
            return
        self._is_drawn = True
        self._wanted.set()
        self._begin_opening()
        await self._is_open.wait()
        if (is_drawn := getattr(self._view, "is_drawn", None)) is not None:
            await is_drawn(within=DRAWN_WITHIN)

    def divide(self, call_id: str) -> None:
        """Split the view, because a tool call has added outputs to the cell: the run continues below them.

        Main thread only.
        """
        if (divide := getattr(self._view, "divide", None)) is not None:
            divide(call_id)

    def join(self) -> None:
        """Merge the split view, because a newly loaded page lost the outputs of the run. Thread-safe."""
        if (join := getattr(self._view, "join", None)) is not None:
            join()

    def close(self, metadata: "Metadata") -> MimeBundle:
        """Replace the view by its static form with this metadata. Main thread only."""
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
            with contextlib.suppress(NotebookError):  # interrupted, or the cell has ended: `close` shows the rest
                await self._host.call_main(self._open_view)
                break

    def _open_view(self) -> None:
        if self._send is None:
            return  # closed in the meantime
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
        """Show the static form of a run that ended before a view was opened."""
        _import_view()
        from vibe_jupyter.ui.front_end_choice import show_kept

        return show_kept(self._waiting, self._keep, self._page, metadata)


def _import_view() -> None:
    if _VIEW not in sys.modules:
        with without_working_folder(), without_collections():
            importlib.import_module(_VIEW)


def _may_wait(event: Event) -> bool:
    """Return whether the event precedes the first request and shows nothing new."""
    match event:
        case RunStarted() | TurnStarted() | MessageAdded(message=UserMessage()):
            return True
        case _:
            return False


class BegunRun(NamedTuple):
    """A run that is ready to be shown."""

    run: Run
    kept_in: str  # tells the user where to find the conversation if the run doesn't end in time
    key: str = ""  # cache key of the cell's prompt as in `Options.key`; "" without a prompt
    undoable: UndoableRun | None = None  # identifies the recorded changes; None if they aren't recorded


class RunView:
    """Display of one run at a time. Holds the run until it has ended. Main thread only."""

    def __init__(self, kernel: Kernel) -> None:
        self._life: _Life | None = None  # the active run, or one left over from an exception
        self._front_end: DeferredFrontEnd | None = None  # front end of the active run
        self._engine = kernel.engine
        self._main_thread = kernel.main_thread
        self._host = kernel.host
        self._notebook = kernel.notebook
        self._presses = kernel.presses

    @property
    def run(self) -> Run | None:
        """The run that hasn't ended, if any."""
        return self._life.run if self._life is not None and not self._life.is_over else None

    def check_free(self) -> None:
        """Check that a run may begin. Ends a run left over from an exception first.

        Raises:
            NotebookError: Another run is active or doesn't end, or this isn't the main thread.
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
        """Interrupt the active or leftover run, and wait for its end. Returns whether no run is left."""
        life = self._life
        if life is None or life.end():
            self._life = None
        return self._life is None

    def abandon(self) -> None:
        """End the run like `end`, and drop it if it doesn't end in time."""
        self.end()
        self._life = None

    @property
    def view(self) -> "ShownView | None":
        """The open view, or None between runs and without a page."""
        return self._front_end.shown if self._front_end is not None else None

    def page_loaded(self) -> "ShownView | None":
        """Merge the split view for a newly loaded page.

        Returns the data to draw it, or None between runs. Thread-safe.
        """
        if self._front_end is not None:
            self._front_end.join()
        return self.view

    async def attended(self) -> bool:
        """Return whether a user can answer a question of the active run. Engine loop only."""
        return self._front_end is not None and await self._front_end.attended()

    def show(self, begun: BegunRun, keep: RunRetention) -> RunSummary:
        """Show a run until it ends, and leave its transcript in the output.

        Args:
            begun: A run that hasn't been shown yet.
            keep: Transcript settings.

        Raises:
            NotebookError: The run didn't end in time after an interrupt.
        """
        with self._presses.raising(False):
            with self._begun(begun, keep) as life:
                self._main_thread.serve(life.over, interrupt=lambda: begun.run.send(Interrupt()))
            return self._ending(life, begun.kept_in)

    async def show_beside(self, begun: BegunRun, keep: RunRetention) -> RunSummary:
        """Async variant of `show` for a cell that awaits it. This thread's event loop stays free."""
        with self._presses.raising(False):
            with self._begun(begun, keep) as life:
                await self._main_thread.serve_beside(life.over, interrupt=lambda: begun.run.send(Interrupt()))
            return self._ending(life, begun.kept_in)

    @contextmanager
    def _begun(self, begun: BegunRun, keep: RunRetention) -> "Generator[_Life]":
        with self._living(begun, DeferredFrontEnd(self._host, keep, self)) as life:
            if self._presses.count:
                begun.run.send(Interrupt())  # the run still begins, and ends at once, so that there is a transcript
            life.begin(self._engine)
            yield life

    def _ending(self, life: "_Life", kept_in: str) -> RunSummary:
        if not life.is_over:
            raise NotebookError(
                "The run did not end in time after the interrupt and was left behind; %vibe stop ends it. "
                f"If the kernel acts oddly, restart it; {kept_in}"
            )
        life.over.result()  # raises any error other than `VibeError`: it is a bug of ours, so show its traceback
        if self._notebook is not None:
            life.ending.cells_changed = tuple(self._notebook.cells.changed)
        return life.ending

    @contextmanager
    def _living(self, begun: BegunRun, front_end: DeferredFrontEnd) -> "Generator[_Life]":
        """Track the run. On any exit the run is interrupted, awaited, and its transcript written to the output."""
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
            # Metadata lets programs that execute notebooks read the outcome without parsing prose.
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
        """Return whether a page with our extension shows this notebook. Engine loop only."""
        panel = await self._notebook.page() if self._notebook is not None else None
        return panel is not None and panel.is_seen

    async def is_unseen(self) -> bool:
        """Return whether a program executes this notebook without displaying it. Engine loop only."""
        panel = await self._notebook.page() if self._notebook is not None else None
        return panel is not None and not panel.is_seen

    def find_cell(self, reference: str) -> Cell | None:
        """Return the cell with the id that an answer refers to, or None if it is unknown."""
        return self._notebook.cells.reads.named(reference) if self._notebook is not None else None

    async def _look_for_names(self, event: Event) -> None:
        """Refresh the cell numbers before an event that refers to cells by id is displayed."""
        if self._notebook is not None and _names_cells(event):
            await self._notebook.cells.reads.look_for_names()

    async def draw(self, view: "ShownView") -> None:
        """Make the page draw a view. Engine loop only."""
        if self._notebook is not None:
            await self._notebook.draw(view)


class _Life:
    """A run on the engine, from before its start."""

    def __init__(self, run: Run, front_end: DeferredFrontEnd, before_event: Callable[[Event], Awaitable[None]]) -> None:
        self.run = run
        # Done when the run's task has ended; holds its exception, if any.
        self.over: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.ending = RunSummary()
        self._front_end = front_end
        self._before_event = before_event
        self._task: concurrent.futures.Future[None] | None = None
        self._begins = False

    @property
    def is_over(self) -> bool:
        """True if no task of the run is active."""
        return self.over.done() or not self._begins

    def begin(self, engine: Engine) -> None:
        """Start the run on the engine."""
        self._begins = True
        self._task = engine.submit(self._show())

    def end(self) -> bool:
        """Interrupt the run, then cancel it after `CLOSE_WAIT`. Returns whether it has ended."""
        self.run.send(Interrupt())  # also effective before the run begins: it then ends as soon as it begins
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
    """Return the working folder, which the agent may read.

    Raises:
        NotebookError: The folder has been deleted or can't be entered.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise NotebookError(
            f"The kernel's working folder is gone or cannot be entered ({error.strerror}). Go to one that is there, "
            'such as with %cd "~", then try again.'
        ) from error
