"""All built-in tools of one kernel, made from its settings."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.config import Settings
from vibe_jupyter.errors import NotebookError
from vibe_jupyter.files.access import FileAccess, ReadMemory
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_cells import NestedCells
from vibe_jupyter.kernel.pump import Pump, QueuedCell
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.open_notebook import FinishedRuns, OpenNotebook
from vibe_jupyter.notebook.tools.arrange_cells import DeleteCellsTool, MoveCellsTool
from vibe_jupyter.notebook.tools.edit_cells import EditCellTool, InsertCellTool
from vibe_jupyter.notebook.tools.read_cells import ReadCellTool, ReadNotebookArgs, ReadNotebookTool, ReadOutputTool
from vibe_jupyter.notebook.tools.run_cells import RunCellTool, RunCodeTool
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.protocol import ToolResult, ToolSpec
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.ask_user_question import AskUserQuestionTool
from vibe_jupyter.tools.bash import BashOptions, BashTool, ShellEnvironment, find_shell
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext
from vibe_jupyter.tools.grep import GrepOptions, GrepTool
from vibe_jupyter.tools.memory import MemoryFile, MemoryTool
from vibe_jupyter.tools.read_file import ReadFileOptions, ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceOptions, SearchReplaceTool
from vibe_jupyter.tools.todo import TodoTool
from vibe_jupyter.tools.write_file import WriteFileOptions, WriteFileTool
from vibe_jupyter.variables.tools import InspectVariableTool, ListVariablesTool
from vibe_jupyter.version import __version__

if TYPE_CHECKING:
    from vibe_jupyter.ui.page import ShownView


@dataclass(frozen=True)
class AgentState:
    """What tools keep from one call to the next."""

    todo: TodoTool
    facts: MemoryFile
    sees_images: Callable[[], bool]
    """Whether images go to the model that answers now."""


class NotebookAccess:
    """The way to the notebook's page; only where a kernel has a pump."""

    def __init__(
        self, shell: InteractiveShell, pump: Pump, main_thread: MainThread, on_page: Callable[[], None]
    ) -> None:
        self._bridge = Bridge(getattr(shell, "kernel", None), version=__version__, on_page=on_page)
        self._bridge.on_heard = pump.idle_said.set
        self._bridge.install()
        self.ends = FinishedRuns(self._bridge)
        self._shell = shell
        self._main_thread = main_thread
        self._in_place = NestedCells(shell, pump)
        pump.on_execute_at_rest = self._in_place.take_called_off
        self.cells = self.access()

    def access(self) -> CellAccess:
        """A way to the cells for somebody else, who remembers what they read themselves."""
        return CellAccess(
            OpenNotebook(
                self._shell,
                bridge=self._bridge,
                main_thread=self._main_thread,
                in_place=self._in_place,
                version=__version__,
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

    async def draw(self, view: "ShownView") -> None:
        """Have the page draw a view that a server put into a cell it runs. On the engine's loop."""
        with contextlib.suppress(NotebookError):  # there is no such page, or its extension is older
            await self._bridge.find_prompt_cell(view.model_id)

    async def show(self, view: "ShownView", *, cell: str | None = None) -> None:
        """Have a reloaded page show a view again, by default in the cell the run is in."""
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
        return await ReadNotebookTool(self.cells.reads).run(ReadNotebookArgs(), context)

    def tools(self, sees_images: Callable[[], bool]) -> list[Tool[Any]]:
        """The tools for cells."""
        cells = self.cells
        return [
            ReadNotebookTool(cells.reads),
            ReadCellTool(cells.reads),
            ReadOutputTool(cells.reads, sees_images=sees_images),
            EditCellTool(cells, sees_images=sees_images),
            InsertCellTool(cells, sees_images=sees_images),
            DeleteCellsTool(cells),
            MoveCellsTool(cells),
            RunCellTool(cells, sees_images=sees_images),
        ]


def all_tools(
    runner: CodeRunner,
    *,
    host: ShellHost,
    main_thread: MainThread,
    notebook: NotebookAccess | None,
    call_context: AgentState,
) -> StaticToolset:
    """What needs no settings, in a stable order."""
    return StaticToolset(
        [
            *(notebook.tools(call_context.sees_images) if notebook is not None else ()),
            ListVariablesTool(host.namespace, main_thread.call),
            InspectVariableTool(host.namespace, main_thread.call),
            RunCodeTool(main_thread, runner, sees_images=call_context.sees_images),
            call_context.todo,
            AskUserQuestionTool(),
            MemoryTool(call_context.facts),
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


class FileTools:
    """A toolset that is made again when settings change."""

    def __init__(
        self,
        workspace: Workspace,
        notebook: NotebookAccess | None,
        session_folder: Callable[[], Path | None],
        *,
        sees_images: Callable[[], bool],
    ) -> None:
        self._workspace = workspace
        self._notebook = notebook
        self._session_folder = session_folder
        self._sees_images = sees_images
        self._memory = ReadMemory()
        self._toolset = self._make_set(Settings())

    def take(self, settings: Settings) -> None:
        """Use these settings from now on."""
        self._toolset = self._make_set(settings)

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    def find(self, name: str) -> Tool[Any] | None:
        return self._toolset.find(name)

    def _make_set(self, settings: Settings) -> StaticToolset:
        notebook = self._notebook
        owns_notebook = notebook.cells.reads.owns if notebook is not None else None
        files = FileAccess(self._workspace, owns_notebook, self._memory)
        read_file = ReadFileTool(
            self._workspace,
            notebook.read_own if notebook is not None else None,
            options=settings.tool_options("read_file", ReadFileOptions),
            session_folder=self._session_folder,
            sees_images=self._sees_images,
            memory=self._memory,
        )
        return StaticToolset(
            [
                read_file,
                GrepTool(self._workspace, settings.tool_options("grep", GrepOptions)),
                WriteFileTool(files, settings.tool_options("write_file", WriteFileOptions)),
                SearchReplaceTool(files, settings.tool_options("search_replace", SearchReplaceOptions)),
                *self._shell_tools(settings.tool_options("bash", BashOptions)),
            ]
        )

    def _shell_tools(self, options: BashOptions) -> list[Tool[Any]]:
        """The shell, where there is one that was judged."""

        def guard(command: str) -> Mapping[str, str]:
            with without_working_folder():  # what judges a command, with its tables, comes with the first one
                from vibe_jupyter.permissions.shell.git import git_environment
                from vibe_jupyter.permissions.shell.judge import search_guard

            return {**git_environment(), **search_guard(command, self._workspace)}

        around = ShellEnvironment(self._workspace, os.environ, {}, guard)
        return [BashTool(around, options)] if find_shell() is not None else []
