"""The tools that agents outside may call: those of the notebook and its kernel, and no others."""

from typing import Any, Final, cast

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.app.host import ShellHost
from vibe_jupyter.app.in_turns import Turn, in_turn
from vibe_jupyter.notebook.cell_access import CellAccess
from vibe_jupyter.notebook.execution import CodeRunner
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.notebook.pump import Pump
from vibe_jupyter.notebook.tools.delete_cells import DeleteCellsTool
from vibe_jupyter.notebook.tools.edit_cell import EditCell
from vibe_jupyter.notebook.tools.insert_cell import InsertCellTool
from vibe_jupyter.notebook.tools.inspect_variable import InspectVariable
from vibe_jupyter.notebook.tools.list_variables import ListVariables
from vibe_jupyter.notebook.tools.move_cells import MoveCellsTool
from vibe_jupyter.notebook.tools.read_cell import ReadCell
from vibe_jupyter.notebook.tools.read_notebook import ReadNotebook
from vibe_jupyter.notebook.tools.read_output import ReadOutput
from vibe_jupyter.notebook.tools.run_cell import RunCell
from vibe_jupyter.notebook.tools.run_code import RunCode
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.tools.base import StaticToolset, Tool, spec_of

_CLASSES: Final = (
    ReadNotebook,
    ReadCell,
    ReadOutput,
    ListVariables,
    InspectVariable,
    EditCell,
    InsertCellTool,
    DeleteCellsTool,
    MoveCellsTool,
    RunCell,
    RunCode,
)


def outside_tools(
    shell: InteractiveShell, pump: Pump, *, foreground: Foreground, host: ShellHost, access: CellAccess, turn: Turn
) -> StaticToolset:
    """The tools of a served notebook; each works in a turn of the main thread."""
    reads, call = access.reads, foreground.call
    tools: list[Tool[Any]] = [
        ReadNotebook(reads),
        ReadCell(reads),
        ReadOutput(reads, sees_images=_yes),
        ListVariables(host.namespace, call),
        InspectVariable(host.namespace, call),
        EditCell(access, sees_images=_yes),
        InsertCellTool(access, sees_images=_yes),
        DeleteCellsTool(access),
        MoveCellsTool(access),
        RunCell(access, sees_images=_yes),
        RunCode(foreground, CodeRunner(shell, pump), sees_images=_yes),
    ]
    return StaticToolset([in_turn(tool, turn) for tool in tools])


def outside_specs() -> list[ToolSpec]:
    """What such a notebook offers, told without one."""
    return [spec_of(cast("Tool[Any]", one)) for one in _CLASSES]


def _yes() -> bool:
    """An agent outside is sent images; whether it can see them is its own business."""
    return True
