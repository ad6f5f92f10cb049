"""A session of serving a notebook to external clients, and its view in the cell output."""

import asyncio
import concurrent.futures
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from vibe_jupyter import config
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.deferred_tools import tool_lists
from vibe_jupyter.app.hooks import command_hooks
from vibe_jupyter.app.kernel_copies import kernel_copies
from vibe_jupyter.app.kernel_parts import ServingParts
from vibe_jupyter.app.notebook_access import NotebookAccess
from vibe_jupyter.app.saved_sessions import new_conversation
from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.errors import NotebookError, ToolError, VibeError
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import KernelBusy, MainThreadTurns
from vibe_jupyter.mcp_server.external_run import ExternalGate, ExternalRun
from vibe_jupyter.mcp_server.http import HttpServer
from vibe_jupyter.mcp_server.notebook_client import NotebookNote, register_notebook, unregister_notebook
from vibe_jupyter.mcp_server.server import mcp_server
from vibe_jupyter.notebook.access import CellAccess, ReadVersions
from vibe_jupyter.notebook.open_notebook import notebook_file
from vibe_jupyter.notebook.tools.arrange_cells import DeleteCellsTool, MoveCellsTool
from vibe_jupyter.notebook.tools.edit_cells import EditCellTool, InsertCellTool
from vibe_jupyter.notebook.tools.exploration import CodeExploration
from vibe_jupyter.notebook.tools.read_cells import ReadNotebookTool
from vibe_jupyter.notebook.tools.run_cells import RunCellsTool, RunCodeTool
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import Event, Headline, Interrupt, Preview, Resource, ToolResult
from vibe_jupyter.session.journal import ID_BYTES
from vibe_jupyter.tools.contract import (
    FilteredToolset,
    NotExplored,
    Restriction,
    StaticToolset,
    Tool,
    ToolContext,
)
from vibe_jupyter.ui import page
from vibe_jupyter.ui.front_end import Handled, RunRetention, Send
from vibe_jupyter.ui.front_end_choice import SilentFrontEnd
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.widget import ALIVE_GRACE, WidgetFrontEnd
from vibe_jupyter.variables.kept import VariableLooks
from vibe_jupyter.variables.missing_names import MissingNames
from vibe_jupyter.variables.tools import InspectTool
from vibe_jupyter.version import __version__

T = TypeVar("T")
BorrowTurn = Callable[[], AbstractAsyncContextManager[None]]
START_WAIT: Final = 10.0
END_WAIT: Final = 5.0  # seconds allowed to end a session, as START_WAIT is to start one
_TOKEN: Final = "token of this server"  # used as the name of a redacted secret instead of a variable's name

SERVING: Final = "Serving"
_LOOK: Final = 0.05  # seconds between polls


class ServingSession:
    """A session of serving one notebook. Main thread only, except where noted.

    Raises:
        NotebookError: The notebook can't be served.
        JournalError: The calls can't be recorded.
    """

    def __init__(self, parts: ServingParts, settings: config.Settings) -> None:
        self._parts, kernel = parts, parts.kernel
        self._turns = MainThreadTurns(getattr(kernel.shell, "kernel"), kernel.main_thread)  # noqa: B009 (only a kernel's shell has it)
        self._approve_all = settings.approves_all
        self._access = parts.notebook.access()
        self._read: dict[str, ReadVersions] = {}  # cell versions that each client has read
        tools = exposed_tools(kernel, self._access, self._turns.turn, copies=self._copies(settings))
        self._conversation = new_conversation(settings, parts.setup.environ, secrets.token_hex(ID_BYTES))
        parts.notebook.sign(self._access, self._conversation.id, None)
        self.view = ServingView(kernel.engine, parts.notebook, settings.keep(), handled=kernel.host.handled_message)
        self.http = HttpServer()
        gate = ExternalGate(
            FilteredToolset(tools, settings.offers_tool),
            # A copy fixes the settings as of now, regardless of later prompts. Permissions granted by the user are
            # shared.
            replace(
                parts.permissions,
                levels=settings.levels(),
                lists=tool_lists(settings),
                outside=settings.denies_outside(),
                hooks=command_hooks(parts.setup.current(), parts.setup.environ, lambda: (self._conversation.id, "")),
            ),
            self._run_terms,
            parts.setup.redactor(settings, {_TOKEN: self.http.token}, (_TOKEN,)),
            settings.privacy.schema_only,
            self._enter_call,
        )
        self._run = ExternalRun(gate, self._conversation, place=self.http.place)
        self._turns.around = self._around_session
        self._turns.on_interrupt = self._run.interrupt_call
        self._note: Path | None = None
        self._ended_here = False
        self._future: concurrent.futures.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """True once the session has ended, by its Stop button or otherwise. Thread-safe."""
        return self._run.run.interrupted or (self._future is not None and self._future.done())

    def begin(self) -> None:
        """Show the view in the running cell, and accept calls from now on.

        Raises:
            NotebookError: The server doesn't start.
        """
        engine = self._parts.kernel.engine
        self._access.begin()
        engine.submit(self.http.start(mcp_server(self._run, version=__version__))).result(START_WAIT)
        try:
            self._note = register_notebook(_registry_note(self._parts.kernel, self.http))
        except NotebookError:
            engine.submit(self._close_server())
            raise
        self._turns.install()
        self.view.open(self._run.run.send, cell=self._access.prompt_cell)
        self._future = engine.submit(self._run_session())

    def move_here(self) -> None:
        """Move the view to the running cell."""
        self._turns.offer_here()
        self._access.resume()
        self.view.move_here(cell=self._access.prompt_cell)
        self._access.end()

    def end(self) -> None:
        """End the session, and leave its transcript in the output of its cell."""
        self._ended_here = True
        self._take_down()
        self._run.run.send(Interrupt())
        if self._future is not None:
            with suppress(TimeoutError):
                self._future.result(END_WAIT)
        self.view.close()
        with suppress(TimeoutError):
            self._parts.kernel.engine.submit(self._close_server()).result(END_WAIT)
        self._parts.kernel.engine.submit(self._parts.notebook.ends.deliver_last())

    def at_exit(self) -> None:
        """Unregister the notebook as the kernel exits."""
        self._take_down()
        with suppress(Exception):  # parts of the kernel may already be gone
            self.view.close()

    async def _run_session(self) -> None:
        """Show the run's events until it ends. Engine loop only."""
        async with aclosing(aiter(self._run.run)) as events:
            async for event in events:
                await self.view.on_event(event)
        if self._ended_here:
            return
        # Ended by its Stop button or by a journal error: close the view as soon as no cell is running.
        self._take_down()
        with suppress(VibeError):
            async with self._turns.turn(patient=True):
                await self._parts.kernel.main_thread.call(self.view.close)
        await self._close_server()
        await self._parts.notebook.ends.deliver_last()

    async def _close_server(self) -> None:
        await self.http.close()
        await self._turns.close()
        await asyncio.to_thread(self._conversation.journal.close)

    async def _run_terms(self) -> RunTerms:
        return RunTerms(attended=await self.view.is_seen(), external=True, approve_all=self._approve_all)

    def _copies(self, settings: config.Settings) -> CodeExploration | None:
        kernel = self._parts.kernel
        if not settings.sandbox.is_used:
            return None
        return kernel_copies(kernel)

    def _enter_call(self, agent: str) -> None:
        """Switch to this client's record of read cells. Called on the engine's loop before each of its calls."""
        self._access.reads.remembered = self._read.setdefault(agent, ReadVersions())

    @contextmanager
    def _around_session(self) -> Generator[None]:
        """Prepare access to the cells for a turn on the main thread."""
        self._access.resume()
        try:
            yield
        finally:
            self._access.end()

    def _take_down(self) -> None:
        note, self._note = self._note, None
        if note is not None:
            unregister_notebook(note)


def _registry_note(kernel: Kernel, http: HttpServer) -> NotebookNote:
    shell = cast(Any, kernel.shell)
    file = notebook_file(shell.user_ns, os.environ)
    connection = str(getattr(shell.kernel.parent, "connection_file", "") or os.getpid())
    return NotebookNote(
        kernel=Path(connection).stem.removeprefix("kernel-"),
        notebook=str(file) if file is not None else "",
        pid=os.getpid(),
        url=http.url,
        token=http.token,
        version=__version__,
    )


class ServingView:
    """View of a serving session. Main thread only, except where noted.

    Without widgets there is no fallback to text prompts, because they would need a running cell.
    """

    def __init__(self, engine: Engine, notebook: NotebookAccess, keep: RunRetention, *, handled: Handled) -> None:
        self._engine = engine
        self._notebook = notebook
        transcript = Transcript(keep=keep, working=SERVING)
        self._live = WidgetFrontEnd(transcript, handled=handled) if page.can_show() else None
        self._front_end = self._live or SilentFrontEnd(transcript)
        self._opened = time.monotonic()
        self._cell: str | None = None
        self._number: int | None = None
        self._closed = False

    @property
    def can_ask(self) -> bool:
        """True if this kernel can show widgets."""
        return self._live is not None

    def open(self, send: Send, *, cell: str | None) -> None:
        """Show the view in the running cell.

        Args:
            send: Receives the user's decisions.
            cell: Id of the cell, or None if the front end sends none.
        """
        self._cell, self._number = cell, self._notebook.number
        self._front_end.open(send)
        self._opened = time.monotonic()

    def move_here(self, *, cell: str | None) -> None:
        """Move the view to the running cell, because its old place may have been cleared. Main thread only.

        Args:
            cell: Id of the running cell.
        """
        if self._live is not None:
            self._cell, self._number = cell, self._notebook.number
            self._live.move_here()
            self._opened = time.monotonic()

    async def on_event(self, event: Event) -> None:
        """Show an event. Engine loop only."""
        await self._front_end.on_event(event)

    async def is_seen(self) -> bool:
        """Return whether a page draws the view, so that a user can be asked. Engine loop only."""
        while self._live is not None:
            if self._live.alive or time.monotonic() >= self._opened + ALIVE_GRACE:
                return self._live.alive
            await asyncio.sleep(_LOOK)
        return False

    def show_again(self) -> None:
        """Show the view again after a page was reloaded. Thread-safe."""
        shown = self._live.shown if self._live is not None else None
        if shown is not None and self._cell is not None:
            self._engine.submit(self._notebook.show(shown, cell=self._cell))

    def close(self) -> None:
        """Replace the view by its static form. Idempotent."""
        if self._closed:
            return
        self._closed = True
        shown = self._live.shown if self._live is not None else None
        left = self._front_end.close()
        if shown is not None and self._cell is not None:
            self._notebook.ends.add(shown.model_id, left, number=self._number, cell=self._cell)


def exposed_tools(
    kernel: Kernel, access: CellAccess, turn: BorrowTurn, *, copies: CodeExploration | None
) -> StaticToolset:
    """Return the tools of a served notebook, each of which runs in a turn on the main thread.

    Calls of external clients that change or run something need approval, unless the user has allowed them. As for the
    agent, allowed code runs in a forked copy first, because both read the same description of `run_code`.
    """
    reads, namespace = access.reads, kernel.host.namespace
    run_code = RunCodeTool(
        kernel.main_thread,
        CodeRunner(kernel.shell, kernel.pump),
        sees_images=_always_sees_images,
        looks=VariableLooks(namespace).of_code,
        hint=MissingNames(namespace).hint,
        drawing=access.drawing,
    )
    run_code.exploration = copies
    tools: list[Tool[Any]] = [
        ReadNotebookTool(reads, sees_images=_always_sees_images),
        InspectTool(namespace, kernel.main_thread.call),
        EditCellTool(access, sees_images=_always_sees_images),
        InsertCellTool(access, sees_images=_always_sees_images),
        DeleteCellsTool(access),
        MoveCellsTool(access),
        RunCellsTool(access, sees_images=_always_sees_images),
        run_code,
    ]
    return StaticToolset([MainThreadTool(tool, turn) for tool in tools])


def _always_sees_images() -> bool:
    """Return True: external clients are sent images whether or not they can show them."""
    return True


class MainThreadTool(Tool[Any]):
    """A tool whose work is done in turns on the main thread. Describing a call needs no turn."""

    def __init__(self, tool: Tool[Any], turn: BorrowTurn) -> None:
        self._tool = tool
        self._turn = turn
        self.name, self.others, self.unclear = tool.name, tool.others, tool.unclear
        self.description, self.arguments, self.level = tool.description, tool.arguments, tool.level
        self.without_values, self.result_limit = tool.without_values, tool.result_limit
        self.may_lose, self.tried_in = tool.may_lose, tool.tried_in

    def headline(self, args: Any) -> Headline:
        return self._tool.headline(args)

    def preview(self, args: Any) -> Preview:
        return self._tool.preview(args)

    def touches(self, args: Any) -> Sequence[Resource]:
        return self._tool.touches(args)

    def is_harmless(self, args: Any) -> bool:
        return self._tool.is_harmless(args)

    def can_explore(self, args: Any) -> bool:
        return self._tool.can_explore(args)

    def can_foresee(self, args: Any) -> bool:
        return self._tool.can_foresee(args)

    async def restriction(self, args: Any) -> Restriction | None:
        return await self._tool.restriction(args)

    async def precheck(self, args: Any) -> None:
        if type(self._tool).precheck is not Tool[Any].precheck:
            await self._in_turn(lambda: self._tool.precheck(args))

    async def look(self, args: Any) -> None:
        if type(self._tool).look is not Tool[Any].look:
            try:
                await self._in_turn(lambda: self._tool.look(args))
            except ToolError as error:
                # A running cell is no sign of a change. The call itself waits for its turn, or says so.
                if not isinstance(error.__cause__, KernelBusy):
                    raise

    async def wait_for_change(self, args: Any) -> None:
        await self._tool.wait_for_change(args)

    async def explore(self, args: Any, context: ToolContext) -> ToolResult | NotExplored:
        return await self._in_turn(lambda: self._tool.explore(args, context))

    async def foresee(self, args: Any, context: ToolContext, *, tries: bool) -> str:
        return await self._in_turn(lambda: self._tool.foresee(args, context, tries=tries))

    async def run(self, args: Any, context: ToolContext) -> ToolResult:
        return await self._in_turn(lambda: self._tool.run(args, context))

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            async with self._turn():
                return await work()
        except NotebookError as error:
            raise ToolError(str(error)) from error
