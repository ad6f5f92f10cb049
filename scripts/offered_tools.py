"""Write down what is offered of the built-in tools, for those who must know it before the tools are imported.

    python scripts/offered_tools.py

Two lists: what a model reads of each tool, for the first request of a kernel; and what a served notebook offers, for
clients of `vibe-jupyter mcp` that start before one is served. Run it when a tool changes its description or its
arguments; tests compare.
"""

import json
from pathlib import Path
from typing import Any, Final, cast

from vibe_jupyter.app.deferred_tools import SPECS
from vibe_jupyter.mcp_server.exposed_tools import HINTS
from vibe_jupyter.mcp_server.server import as_tool
from vibe_jupyter.mcp_server.stdio_proxy import TOOLS
from vibe_jupyter.notebook.tools.arrange_cells import DeleteCellsTool, MoveCellsTool
from vibe_jupyter.notebook.tools.background_cells import BackgroundRunCellsTool
from vibe_jupyter.notebook.tools.edit_cells import EditCellTool, InsertCellTool
from vibe_jupyter.notebook.tools.exit_plan_mode import ExitPlanModeTool
from vibe_jupyter.notebook.tools.read_cells import ReadNotebookTool
from vibe_jupyter.notebook.tools.run_cells import RunCellsTool, RunCodeTool
from vibe_jupyter.notebook.tools.verify_notebook import VerifyNotebookTool
from vibe_jupyter.tools.ask_user_question import AskUserQuestionTool
from vibe_jupyter.tools.bash import BashTool
from vibe_jupyter.tools.checkpoint import CheckpointTool
from vibe_jupyter.tools.contract import Tool, tool_spec
from vibe_jupyter.tools.grep import GrepTool
from vibe_jupyter.tools.memory import MemoryTool
from vibe_jupyter.tools.read_file import ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceTool
from vibe_jupyter.tools.task import TaskTool
from vibe_jupyter.tools.todo import TodoTool
from vibe_jupyter.tools.write_file import WriteFileTool
from vibe_jupyter.variables.tools import InspectTool

CLASSES: Final = (
    *(ReadNotebookTool, EditCellTool, InsertCellTool, DeleteCellsTool, MoveCellsTool),
    *(BackgroundRunCellsTool, VerifyNotebookTool),
    *(InspectTool, RunCodeTool, TodoTool, AskUserQuestionTool, MemoryTool, TaskTool, ExitPlanModeTool),
    *(ReadFileTool, GrepTool, WriteFileTool, SearchReplaceTool, CheckpointTool, BashTool),
)


def offered() -> dict[Path, str]:
    """Each file's text."""
    specs = {one.name: tool_spec(cast("Tool[Any]", one)) for one in CLASSES}
    served = {**specs, RunCellsTool.name: tool_spec(cast("Tool[Any]", RunCellsTool))}
    exposed = [as_tool(served[name]).model_dump(mode="json", by_alias=True, exclude_none=True) for name in HINTS]
    lists = {SPECS: [spec.model_dump(mode="json") for spec in specs.values()], TOOLS: exposed}
    return {path: json.dumps(tools, indent=1, ensure_ascii=False) + "\n" for path, tools in lists.items()}


if __name__ == "__main__":
    for path, text in offered().items():
        path.write_text(text, encoding="utf-8")
        print(path)
