"""One time that a notebook is served: from `%vibe mcp serve` to its end, by the person, the cell or the kernel."""

import asyncio
import concurrent.futures
import os
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import vibe_jupyter
from vibe_jupyter import config
from vibe_jupyter.agent.outside_run import Gate, OutsideRun, Tell
from vibe_jupyter.app.beginning import new_conversation
from vibe_jupyter.app.outside import Kernel
from vibe_jupyter.app.outside_tools import outside_tools
from vibe_jupyter.errors import NotebookError, VibeError
from vibe_jupyter.notebook.open_notebook import notebook_file
from vibe_jupyter.notebook.turns import Turns
from vibe_jupyter.outward import notice_board
from vibe_jupyter.outward.http import HttpServer
from vibe_jupyter.outward.server import mcp_server
from vibe_jupyter.policy.permissions import RunTerms
from vibe_jupyter.policy.secrets import Redactor
from vibe_jupyter.protocol import Interrupt, ToolMessage, ToolSpec
from vibe_jupyter.tools.base import Toolset
from vibe_jupyter.tools.filter import FilteredToolset
from vibe_jupyter.ui import run_view
from vibe_jupyter.ui.silent import SilentFrontEnd
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.widget import WidgetFrontEnd

START_WAIT: Final = 10.0
END_WAIT: Final = 5.0
"""Seconds that beginning and ending may take."""
ALIVE_GRACE: Final = 5.0
"""Seconds the page has to draw the view; until then a call that asks waits for it."""
_LOOK: Final = 0.05
"""Seconds between two looks."""
SERVING: Final = "Serving"
_TOKEN: Final = "token of this server"
"""Stands in the place of a variable's name."""


class OutsideSession:
    """Main thread, but where said.

    Raises:
        NotebookError: it cannot be served.
        JournalError: the calls cannot be recorded.
    """

    def __init__(self, kernel: Kernel, settings: config.Settings) -> None:
        self._kernel = kernel
        self._turns = Turns(getattr(kernel.shell, "kernel"), kernel.foreground)  # noqa: B009 (only a kernel's shell has it)
        self._approve_all = settings.bypass_tool_permissions
        self._access = kernel.notebook.access()
        tools = outside_tools(
            kernel.shell,
            kernel.pump,
            foreground=kernel.foreground,
            host=kernel.host,
            access=self._access,
            turn=self._turns.turn,
        )
        self._tools: Toolset = FilteredToolset(tools, settings.offers_tool)
        self._conversation = new_conversation(kernel.setup.environ, secrets.token_hex(16))
        self._http = HttpServer()
        gate = Gate(self._tools, kernel.permissions, self._terms, self._redactor(settings))
        self._run = OutsideRun(gate, self._conversation, place=self._http.place)
        self._turns.around = self._around
        self._turns.on_interrupt = self._run.interrupt_call
        transcript = Transcript(keep=settings.keep(), working=SERVING)
        self._view = WidgetFrontEnd(transcript) if run_view.can_show() else SilentFrontEnd(transcript)
        self._opened = time.monotonic()
        self._cell: str | None = None
        self._number: int | None = None
        self._note: Path | None = None
        self._ended_here = False
        self._future: concurrent.futures.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it ended, by its Stop or otherwise. Any thread."""
        return self._run.run.interrupted or (self._future is not None and self._future.done())

    @property
    def shows_cards(self) -> bool:
        """Whether this kernel can show widgets at all."""
        return isinstance(self._view, WidgetFrontEnd)

    @property
    def url(self) -> str:
        """Where it is reached."""
        return self._http.url

    @property
    def token(self) -> str:
        """What a client must show."""
        return self._http.token

    def begin(self) -> None:
        """Show the view in the cell that runs, and take calls from now on.

        Raises:
            NotebookError: it does not start.
        """
        engine = self._kernel.engine
        self._access.begin()
        self._cell, self._number = self._access.prompt_cell, self._kernel.notebook.number
        server = mcp_server(self, version=vibe_jupyter.__version__)
        engine.submit(self._http.start(server)).result(START_WAIT)
        try:
            self._note = notice_board.put_up(self._written())
        except NotebookError:
            engine.submit(self._http.close())
            raise
        self._turns.install()
        self._view.open(self._run.run.send)
        self._opened = time.monotonic()
        self._future = engine.submit(self._live())

    def end(self) -> None:
        """End it, and leave what it did in the output of its cell."""
        self._ended_here = True
        self._take_down()
        self._run.run.send(Interrupt())
        if self._future is not None:
            with suppress(TimeoutError):
                self._future.result(END_WAIT)
        self._close_view()
        with suppress(TimeoutError):
            self._kernel.engine.submit(self._close()).result(END_WAIT)
        self._kernel.engine.submit(self._kernel.notebook.ends.deliver_last())

    def at_exit(self) -> None:
        """The kernel ends: nobody is to look for it any more."""
        self._take_down()
        with suppress(Exception):  # whatever is left of the kernel
            self._close_view()

    def show_again(self) -> None:
        """A page was loaded anew. Any thread."""
        view = self._view
        if isinstance(view, WidgetFrontEnd) and view.shown is not None and self._cell is not None:
            self._kernel.engine.submit(self._kernel.notebook.show(view.shown, cell=self._cell))

    # ---- for the server; on the engine's loop ----

    def specs(self) -> Sequence[ToolSpec]:
        """What may be called."""
        return self._tools.specs()

    async def call(self, name: str, arguments: str, *, caller: str, tell: Tell) -> ToolMessage:
        """Answer one call."""
        return await self._run.call(name, arguments, caller=caller, tell=tell)

    async def _live(self) -> None:
        async with aclosing(aiter(self._run.run)) as events:
            async for event in events:
                await self._view.on_event(event)
        if self._ended_here:
            return
        self._take_down()
        # By its own Stop, or by a journal that cannot be written: what was shown gives way when no cell runs.
        with suppress(VibeError):
            async with self._turns.turn(patient=True):
                await self._kernel.foreground.call(self._close_view)
        await self._close()
        await self._kernel.notebook.ends.deliver_last()

    async def _close(self) -> None:
        await self._http.close()
        await self._turns.close()
        await asyncio.to_thread(self._conversation.journal.close)

    async def _terms(self) -> RunTerms:
        """Somebody can be asked where a page shows the view."""
        attended = False
        if isinstance(self._view, WidgetFrontEnd):
            await _drawn(self._view, self._opened + ALIVE_GRACE)
            attended = self._view.alive
        return RunTerms(attended=attended, approve_all=self._approve_all)

    @contextmanager
    def _around(self) -> Generator[None]:
        """Each turn, on the main thread."""
        self._access.resume()
        try:
            yield
        finally:
            self._access.end()

    def _close_view(self) -> None:
        view = self._view
        shown = view.shown if isinstance(view, WidgetFrontEnd) else None
        left = view.close()
        if shown is not None and self._cell is not None:
            self._kernel.notebook.ends.add(shown.model_id, left, number=self._number, cell=self._cell)

    def _take_down(self) -> None:
        note, self._note = self._note, None
        if note is not None:
            notice_board.take_down(note)

    def _redactor(self, settings: config.Settings) -> Redactor:
        known = {**config.effective(self._kernel.setup.environ), _TOKEN: self._http.token}
        return Redactor.of(known, (_TOKEN, *config.key_variables(settings)))

    def _written(self) -> notice_board.Note:
        file = notebook_file(cast(Any, self._kernel.shell).user_ns, os.environ)
        connection: Any = getattr(getattr(self._kernel.shell, "kernel", None), "parent", None)
        return notice_board.Note(
            kernel=Path(str(getattr(connection, "connection_file", os.getpid()))).stem.removeprefix("kernel-"),
            notebook=str(file) if file is not None else "",
            pid=os.getpid(),
            url=self.url,
            token=self.token,
            version=vibe_jupyter.__version__,
        )


async def _drawn(view: WidgetFrontEnd, deadline: float) -> None:
    while True:
        if view.alive or time.monotonic() >= deadline:
            return
        await asyncio.sleep(_LOOK)
