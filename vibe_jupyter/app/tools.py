"""All tools of one kernel, and the notebook that some of them reach."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

import vibe_jupyter
from vibe_jupyter.app.host import ShellHost
from vibe_jupyter.config import Settings
from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.cell_access import CellAccess
from vibe_jupyter.notebook.execution import CodeRunner
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.notebook.in_place import InPlace
from vibe_jupyter.notebook.kept_runs import KeptRuns
from vibe_jupyter.notebook.open_notebook import OpenNotebook
from vibe_jupyter.notebook.pump import Pump, QueuedCell
from vibe_jupyter.notebook.tools.delete_cells import DeleteCellsTool
from vibe_jupyter.notebook.tools.edit_cell import EditCell
from vibe_jupyter.notebook.tools.insert_cell import InsertCellTool
from vibe_jupyter.notebook.tools.inspect_variable import InspectVariable
from vibe_jupyter.notebook.tools.list_variables import ListVariables
from vibe_jupyter.notebook.tools.move_cells import MoveCellsTool
from vibe_jupyter.notebook.tools.read_cell import ReadCell
from vibe_jupyter.notebook.tools.read_notebook import ReadNotebook, ReadNotebookArgs
from vibe_jupyter.notebook.tools.read_output import ReadOutput
from vibe_jupyter.notebook.tools.run_cell import RunCell
from vibe_jupyter.notebook.tools.run_code import RunCode
from vibe_jupyter.policy.tool_lists import ToolLists
from vibe_jupyter.protocol import ToolResult
from vibe_jupyter.tools.base import StaticToolset, Tool, ToolContext
from vibe_jupyter.tools.builtin.ask_user_question import AskUserQuestion
from vibe_jupyter.tools.builtin.memory import Memory
from vibe_jupyter.tools.builtin.todo import Todo
from vibe_jupyter.tools.facts import FactFile
from vibe_jupyter.ui.page import ShownView


@dataclass(frozen=True)
class Desk:
    """What tools keep from one call to the next."""

    todo: Todo
    facts: FactFile
    sees_images: Callable[[], bool]
    """Whether images go to the model that answers now."""


class NotebookSide:
    """The way to the notebook's page; only where a kernel has a pump."""

    def __init__(
        self, shell: InteractiveShell, pump: Pump, foreground: Foreground, on_page: Callable[[], None]
    ) -> None:
        self._bridge = Bridge(getattr(shell, "kernel", None), version=vibe_jupyter.__version__, on_page=on_page)
        self._bridge.on_heard = pump.idle_said.set
        self._bridge.install()
        self.ends = KeptRuns(self._bridge)
        self._shell = shell
        self._foreground = foreground
        self._in_place = InPlace(shell, pump)
        pump.on_execute_at_rest = self._in_place.take_called_off
        self.cells = self.access()

    def access(self) -> CellAccess:
        """A way to the cells for somebody else, who remembers what they read themselves."""
        return CellAccess(
            OpenNotebook(
                self._shell,
                bridge=self._bridge,
                foreground=self._foreground,
                in_place=self._in_place,
                version=vibe_jupyter.__version__,
            )
        )

    @property
    def number(self) -> int | None:
        """The execution count of the cell whose run has just ended; None for a cell without one."""
        return self._in_place.outer_number

    def take(self, cell: QueuedCell) -> bool:
        """Whether a queued cell is one that the agent runs in its place."""
        return self._in_place.take(cell)

    def runs_in(self, cell: QueuedCell) -> bool:
        """Whether a queued cell is the very one that the run is in."""
        return cell.cell_id is not None and cell.cell_id == self._bridge.prompt_cell

    def begin(self) -> None:
        """Look for the page of the cell that runs now. Main thread."""
        self._bridge.begin()

    async def has_page(self) -> bool:
        """Whether a page with our extension shows this notebook; known within seconds. On the engine's loop."""
        return await self._bridge.panel() is not None

    async def draw(self, view: ShownView) -> None:
        """Have the page draw a view that a server put into a cell it runs. On the engine's loop."""
        with contextlib.suppress(NotebookError):  # there is no such page, or its extension is older
            await self._bridge.find_prompt_cell(view.model_id)

    async def show(self, view: ShownView, *, cell: str | None = None) -> None:
        """Have a page that was loaded anew show a view again, by default in the cell the run is in."""
        cell = cell or self._bridge.prompt_cell
        with contextlib.suppress(NotebookError):  # there is no such page, or it shows the view already
            if cell is not None:
                await self._bridge.request("show", cell=cell, model_id=view.model_id, display_id=view.display_id)

    def close(self) -> None:
        """Hear nothing of pages any more."""
        self._bridge.uninstall()

    async def read_own(self, path: Path, context: ToolContext) -> ToolResult | None:
        """The notebook as it stands on the screen, if this is its file."""
        if not await self.cells.reads.owns(path):
            return None
        return await ReadNotebook(self.cells.reads).run(ReadNotebookArgs(), context)

    def tools(self, sees_images: Callable[[], bool]) -> list[Tool[Any]]:
        """The tools for cells."""
        cells = self.cells
        return [
            ReadNotebook(cells.reads),
            ReadCell(cells.reads),
            ReadOutput(cells.reads, sees_images=sees_images),
            EditCell(cells, sees_images=sees_images),
            InsertCellTool(cells, sees_images=sees_images),
            DeleteCellsTool(cells),
            MoveCellsTool(cells),
            RunCell(cells, sees_images=sees_images),
        ]


def all_tools(
    runner: CodeRunner,
    *,
    host: ShellHost,
    foreground: Foreground,
    notebook: NotebookSide | None,
    desk: Desk,
) -> StaticToolset:
    """What needs no settings, in a stable order."""
    return StaticToolset(
        [
            *(notebook.tools(desk.sees_images) if notebook is not None else ()),
            ListVariables(host.namespace, foreground.call),
            InspectVariable(host.namespace, foreground.call),
            RunCode(foreground, runner, sees_images=desk.sees_images),
            desk.todo,
            AskUserQuestion(),
            Memory(desk.facts),
        ]
    )


def tool_lists(settings: Settings) -> dict[str, ToolLists]:
    """The allowlists and denylists of the settings."""
    out: dict[str, ToolLists] = {}
    for name, entry in settings.tools.items():
        standalone = entry.options.get("denylist_standalone", ())
        words = tuple(map(str, standalone)) if isinstance(standalone, list | tuple) else ()
        if entry.allowlist or entry.denylist or words:
            out[name] = ToolLists(entry.allowlist, entry.denylist, words)
    return out
