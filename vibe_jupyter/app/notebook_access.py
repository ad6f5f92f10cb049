"""Access from the kernel to the notebook's page: its comm bridge, its cells and its views."""

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, cast

from IPython.core.interactiveshell import InteractiveShell
from pydantic import JsonValue

from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_cells import NestedCells
from vibe_jupyter.kernel.pump import Pump, QueuedCell
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.bridge_messages import NotebookPanel
from vibe_jupyter.notebook.cell_origins import CellOrigins
from vibe_jupyter.notebook.chart_pictures import ChartDrawing
from vibe_jupyter.notebook.document import conversation_in
from vibe_jupyter.notebook.open_notebook import GLANCE_FILE, FinishedRuns, OpenNotebook, notebook_file
from vibe_jupyter.permissions.secret_shapes import is_secret_name
from vibe_jupyter.protocol import InputMark
from vibe_jupyter.variables.input_marks import input_marks
from vibe_jupyter.version import __version__

if TYPE_CHECKING:
    from vibe_jupyter.ui.page import ShownView


# Characters of outputs resent in one message; a server may drop messages beyond its rate limit.
SENT_AGAIN: Final = 1_000_000
_LEFT_OUT: Final[dict[str, JsonValue]] = {
    "output_type": "stream",
    "name": "stdout",
    "text": "[… what was put out before the page was loaded is too long to be shown again …]\n",
}


class NotebookAccess:
    """Access to the notebook's page. Only for kernels with a pump."""

    def __init__(
        self,
        shell: InteractiveShell,
        pump: Pump,
        main_thread: MainThread,
        log: ExecutionLog,
        on_page: Callable[[str], None],
    ) -> None:
        self._bridge = Bridge(getattr(shell, "kernel", None), version=__version__, on_page=on_page)
        self._bridge.on_heard = pump.idle_said.set
        self._bridge.install()
        self.ends = FinishedRuns(self._bridge)
        self._shell = shell
        self._main_thread = main_thread
        self._log = log
        self._in_place = NestedCells(shell, pump)
        pump.on_execute_at_rest = self._in_place.take_called_off
        self.rows = log.rows
        self._drawing = ChartDrawing()
        self.cells = self.access()

    def access(self) -> CellAccess:
        """Return separate access to the cells for another client, with its own record of what it has read."""
        access = CellAccess(
            OpenNotebook(
                self._shell,
                bridge=self._bridge,
                main_thread=self._main_thread,
                in_place=self._in_place,
                version=__version__,
            ),
            self._log.standings,
            self._drawing,
        )
        access.row_lines = self.rows.lines
        return access

    def sign(self, cells: CellAccess, conversation: str, run: int | None) -> None:
        """Mark all cells written through `cells` from now on with their origin.

        Args:
            cells: Access that writes the cells.
            conversation: Id of the current conversation.
            run: Number of the run in it, or None if the run isn't recorded.
        """
        cells.origins = partial(CellOrigins, conversation, run, partial(_mark_inputs, self._main_thread, self._log))

    @property
    def number(self) -> int | None:
        """Execution count of the cell whose run has just ended, if it has one."""
        return self._in_place.outer_number

    def take(self, cell: QueuedCell) -> bool:
        """Return whether the agent executes this queued cell itself, nested in its own cell."""
        return self._in_place.take(cell)

    def runs_in(self, cell: QueuedCell) -> bool:
        """Return whether a queued cell is the one that the run is in."""
        return cell.cell_id is not None and cell.cell_id == self._bridge.prompt_cell

    def begin(self) -> None:
        """Start looking for the page of the running cell. Main thread only."""
        self._bridge.begin()

    @property
    def heard_page(self) -> bool:
        """True if a page has responded in this run."""
        return self._bridge.known_panel is not None

    @property
    def is_seen(self) -> bool:
        """True if a page that draws views has responded in this run. Programs that execute notebooks draw none."""
        panel = self._bridge.known_panel
        return panel is not None and panel.is_seen

    async def look_again(self) -> bool:
        """Return whether a page draws views, asking again because a page may respond late. Engine loop only."""
        if not self.is_seen and self._bridge.may_have_page:
            await self._bridge.panel(again=True)
        return self.is_seen

    async def page(self) -> NotebookPanel | None:
        """Return the page or program with our extension that has this notebook. May take seconds. Engine loop only."""
        return await self._bridge.panel()

    def path(self) -> Path | None:
        """Return the path of the notebook if known. If a page has responded, the path reflects a rename."""
        named = self._file()
        panel = self._bridge.known_panel
        if panel is None:
            return named
        with contextlib.suppress(OSError):  # the working folder has been deleted
            # Jupyter starts a kernel in the folder of its notebook.
            return (named.parent if named is not None else Path.cwd()) / PurePath(panel.path).name
        return None

    def _file(self) -> Path | None:
        namespace: object = getattr(self._shell, "user_ns", {})
        return notebook_file(cast("Mapping[str, object]", namespace), os.environ)

    def saved_conversation(self) -> str:
        """Return the conversation id in the notebook's metadata, or "" without one."""
        panel = self._bridge.known_panel
        if panel is not None:
            return panel.conversation
        path = self._file()
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if path is not None and path.stat().st_size <= GLANCE_FILE:
                return conversation_in(json.loads(path.read_bytes()).get("metadata"))
        return ""

    async def remember_conversation(self, conversation: str) -> None:
        """Store a conversation's id in the notebook's metadata. Engine loop only."""
        panel = await self._bridge.panel()
        if panel is not None and panel.conversation != conversation:
            with contextlib.suppress(NotebookError):  # the page is gone, or its extension is older
                await self._bridge.request("remember", conversation=conversation)

    @property
    def prompt_cell(self) -> str | None:
        """Id of the run's cell, or None if the front end sends none."""
        return self._bridge.prompt_cell

    async def held_outputs(self) -> Sequence[object] | None:
        """Return the outputs that the running cell had before, or None without a page that knows. Engine loop only."""
        cell = self._bridge.prompt_cell
        if cell is None or await self._bridge.panel() is None:
            return None
        with contextlib.suppress(NotebookError):  # the page is gone, or its extension is older
            held = (await self._bridge.request("held", cell=cell)).get("outputs")
            return held if isinstance(held, list) else ()
        return None

    async def draw(self, view: "ShownView") -> None:
        """Make the page draw a view that a server put into a cell it runs. Engine loop only."""
        with contextlib.suppress(NotebookError):  # there is no such page, or its extension is older
            await self._bridge.find_prompt_cell(view.model_id)

    async def show(self, view: "ShownView", *, cell: str | None = None) -> None:
        """Make a reloaded page show a view again, by default in the run's cell."""
        cell = cell or self._bridge.prompt_cell
        with contextlib.suppress(NotebookError):  # there is no such page, or it already shows the view
            if cell is not None and await self._bridge.panel() is not None:
                # Nothing may be awaited between this snapshot of the nested cell's outputs and the request: the page
                # receives later outputs by itself.
                inner = _inner_cell(self._in_place)
                await self._bridge.request(
                    "show", cell=cell, model_id=view.model_id, display_id=view.display_id, inner=inner
                )

    def close(self) -> None:
        """Remove the bridge."""
        self._bridge.uninstall()


async def _mark_inputs(
    main_thread: MainThread, log: ExecutionLog, names: Sequence[str], schema_only: bool
) -> Mapping[str, InputMark]:
    def tells_value(name: str) -> bool:
        return not schema_only and not is_secret_name(name)

    with contextlib.suppress(NotebookError):  # no cell is serving any more
        return await main_thread.call(lambda: input_marks(names, log.namespace(), tells_value), raises=False)
    return {}


def _inner_cell(in_place: NestedCells) -> dict[str, JsonValue] | None:
    """Return the outputs of the nested cell that a newly loaded page missed, or None without a nested cell."""
    inner = in_place.latest
    if inner is None:
        return None
    outputs = cast("list[JsonValue]", list(inner.outputs.messages()))
    return {
        "cell": inner.cell,
        "request": inner.request,
        "number": inner.number,
        "outputs": outputs if len(json.dumps(outputs)) <= SENT_AGAIN else [_LEFT_OUT],
        "is_over": inner.is_over,
    }
