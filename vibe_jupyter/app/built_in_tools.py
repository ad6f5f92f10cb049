"""All built-in tools of a kernel, built from its settings. Imported when a built-in tool is first called."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vibe_jupyter.app.checkpoint_cells import NotebookCheckpointCells
from vibe_jupyter.app.kernel_copies import kernel_copies
from vibe_jupyter.app.kernel_parts import ToolParts
from vibe_jupyter.app.undo import UndoResult
from vibe_jupyter.config import Settings
from vibe_jupyter.files.access import FileAccess, ReadMemory
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.tools.arrange_cells import DeleteCellsTool, MoveCellsTool
from vibe_jupyter.notebook.tools.background_cells import BackgroundRunCellsTool
from vibe_jupyter.notebook.tools.edit_cells import EditCellTool, InsertCellTool
from vibe_jupyter.notebook.tools.exit_plan_mode import PLANS_FOLDER, ExitPlanModeTool, PlanDocument
from vibe_jupyter.notebook.tools.exploration import CodeExploration
from vibe_jupyter.notebook.tools.foresight import CodeForesight
from vibe_jupyter.notebook.tools.read_cells import ReadNotebookArgs, ReadNotebookTool
from vibe_jupyter.notebook.tools.run_cells import CodeOutlook, RunCodeTool
from vibe_jupyter.notebook.tools.verify_notebook import NotebookVerification, VerifyNotebookTool
from vibe_jupyter.protocol import ToolResult
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.sandbox.commands import SandboxedCommands
from vibe_jupyter.tools.ask_user_question import AskUserQuestionTool
from vibe_jupyter.tools.bash import BashOptions, BashTool, ShellEnvironment
from vibe_jupyter.tools.checkpoint import CheckpointTool
from vibe_jupyter.tools.contract import Tool, ToolContext
from vibe_jupyter.tools.grep import GrepOptions, GrepTool
from vibe_jupyter.tools.memory import MemoryFile, MemoryTool
from vibe_jupyter.tools.read_file import OwnNotebook, ReadFileOptions, ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceOptions, SearchReplaceTool
from vibe_jupyter.tools.shell_path import find_shell
from vibe_jupyter.tools.task import TaskTool
from vibe_jupyter.tools.todo import TodoOptions, TodoTool
from vibe_jupyter.tools.write_file import WriteFileOptions, WriteFileTool
from vibe_jupyter.variables.effects import VariableEffects
from vibe_jupyter.variables.kept import VariableLooks
from vibe_jupyter.variables.missing_names import MissingNames
from vibe_jupyter.variables.tools import InspectTool


class BuiltInTools:
    """The built-in tools. Those that depend on settings are rebuilt when settings change."""

    def __init__(self, parts: ToolParts, settings: Settings) -> None:
        self._parts, self._kernel = parts, parts.kernel
        self._todo = TodoTool()
        self._memory = ReadMemory()
        self._plan = ExitPlanModeTool(_plan_document(parts), parts.plan)
        self._exploration = self._make_exploration()
        self._outlook = self._make_outlook()
        self._run_code = self._code_tool()
        self._fixed = [*self._cell_tools(), *self._kernel_tools(), self._plan]
        self.take(settings)

    def take(self, settings: Settings) -> None:
        """Apply new settings."""
        self._todo.options = settings.tool_options("todo", TodoOptions)
        self._run_code.copies_first = settings.sandbox.is_used
        tools = [*self._fixed, *self._file_tools(settings)]
        self.by_name: Mapping[str, Tool[Any]] = {tool.name: tool for tool in tools}

    def forget(self) -> None:
        """Reset for a new conversation."""
        self._todo.forget()
        self._plan.forget()

    def _cell_tools(self) -> list[Tool[Any]]:
        if self._kernel.notebook is None:
            return []
        cells, sees_images = self._kernel.notebook.cells, self._parts.sees_images
        edit_cell = EditCellTool(cells, sees_images=sees_images)
        insert_cell = InsertCellTool(cells, sees_images=sees_images)
        run_cells = BackgroundRunCellsTool(cells, self._parts.sessions.cells.queue, sees_images=sees_images)
        edit_cell.outlook = insert_cell.outlook = run_cells.outlook = self._outlook
        return [
            ReadNotebookTool(cells.reads, sees_images=sees_images),
            edit_cell,
            insert_cell,
            DeleteCellsTool(cells),
            MoveCellsTool(cells),
            run_cells,
            VerifyNotebookTool(NotebookVerification(cells.reads, self._kernel.folder), cells.reads),
        ]

    def _kernel_tools(self) -> list[Tool[Any]]:
        kernel = self._kernel
        return [
            InspectTool(kernel.host.namespace, kernel.main_thread.call),
            self._run_code,
            self._todo,
            AskUserQuestionTool(),
            TaskTool(),
            MemoryTool(MemoryFile(kernel.home / "memory", kernel.folder)),
        ]

    def _code_tool(self) -> RunCodeTool:
        parts, kernel = self._parts, self._kernel
        missing = MissingNames(kernel.host.namespace)
        tool = RunCodeTool(
            kernel.main_thread,
            CodeRunner(kernel.shell, kernel.pump, on_ran=kernel.host.secrets.look),
            sees_images=parts.sees_images,
            looks=VariableLooks(kernel.host.namespace).of_code,
            hint=missing.hint,
            drawing=kernel.notebook.cells.drawing if kernel.notebook is not None else None,
        )
        tool.exploration, tool.outlook, tool.hint_of_copy = self._exploration, self._outlook, missing.hint_of_copy
        if kernel.notebook is not None:
            tool.row_losses = kernel.notebook.rows
        return tool

    def _make_outlook(self) -> CodeOutlook:
        namespace = self._kernel.host.namespace
        foresight = None
        if self._exploration is not None:
            foresight = CodeForesight(self._exploration, lambda: VariableEffects(namespace), namespace)
        return CodeOutlook(self._kernel.main_thread, foresight, self._parts.undo.code.not_undone)

    def _make_exploration(self) -> CodeExploration | None:
        """Return None in a terminal, and where this machine can't fork a copy of the kernel."""
        return None if self._kernel.pump is None else kernel_copies(self._kernel)

    def _file_tools(self, settings: Settings) -> list[Tool[Any]]:
        parts, kernel = self._parts, self._kernel
        cells = kernel.notebook.cells if kernel.notebook is not None else None
        checkpoint_cells = NotebookCheckpointCells(cells) if cells is not None else None

        async def put_back(number: int) -> UndoResult:
            return await kernel.main_thread.call(lambda: parts.undo.put_back_variables(number), raises=False)

        files = FileAccess(kernel.workspace, cells.reads.owns if cells is not None else None, self._memory)
        read_file = ReadFileTool(
            kernel.workspace,
            _reader_of(cells) if cells is not None else None,
            options=settings.tool_options("read_file", ReadFileOptions),
            session_folder=lambda: parts.sessions.folder,
            sees_images=parts.sees_images,
            memory=self._memory,
        )
        return [
            read_file,
            GrepTool(kernel.workspace, settings.tool_options("grep", GrepOptions)),
            WriteFileTool(files, settings.tool_options("write_file", WriteFileOptions)),
            SearchReplaceTool(files, settings.tool_options("search_replace", SearchReplaceOptions)),
            CheckpointTool(
                *(lambda: parts.sessions.folder, checkpoint_cells, files, kernel.workspace, put_back),
                parts.undo.written_since,
            ),
            *self._shell_tools(settings.tool_options("bash", BashOptions)),
        ]

    def _shell_tools(self, options: BashOptions) -> list[Tool[Any]]:
        """Return the `bash` tool, or nothing without a supported shell."""

        def guard(command: str) -> Mapping[str, str]:
            # The parser that judges commands, and its tables, are imported at the first command.
            with without_working_folder():
                from vibe_jupyter.permissions.shell.git_environment import git_environment
                from vibe_jupyter.permissions.shell.judge import search_guard

            return {**git_environment(), **search_guard(command, self._kernel.workspace)}

        if find_shell() is None:
            return []
        around = ShellEnvironment(self._kernel.workspace, os.environ, {}, guard)
        tool = BashTool(around, options, self._parts.sessions.background)
        tool.sandbox = None if machine_refusal() else SandboxedCommands(self._kernel.workspace.root)
        return [tool]


def _plan_document(parts: ToolParts) -> PlanDocument:
    """Return storage for the plan: in the notebook while a page shows it, else in a file."""
    notebook, folder = parts.kernel.notebook, parts.kernel.home / PLANS_FOLDER
    if notebook is None:
        return PlanDocument(None, folder, has_page=lambda: False)
    return PlanDocument(notebook.cells, folder, has_page=lambda: notebook.heard_page)


def _reader_of(cells: CellAccess) -> OwnNotebook:
    """Return a reader that serves the live notebook if a path is its file."""

    async def read_own(path: Path, context: ToolContext) -> ToolResult | None:
        if not await cells.reads.owns(path):
            return None
        return await ReadNotebookTool(cells.reads).run(ReadNotebookArgs(), context)

    return read_own
