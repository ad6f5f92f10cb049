"""Lives in the kernel under test: an engine, the notebook's tools, and cells that serve. Stands in for the app."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from typing import Any

from IPython import get_ipython
from pydantic import ValidationError

import vibe_jupyter
from vibe_jupyter.errors import ToolError
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_cells import NestedCells
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.open_notebook import OpenNotebook
from vibe_jupyter.notebook.tools.arrange_cells import DeleteCellsTool, MoveCellsTool
from vibe_jupyter.notebook.tools.edit_cells import EditCellTool, InsertCellTool
from vibe_jupyter.notebook.tools.read_cells import ReadNotebookTool
from vibe_jupyter.notebook.tools.run_cells import RunCellsTool
from vibe_jupyter.protocol import ToolResult
from vibe_jupyter.tools.contract import ToolContext

shell = get_ipython()
pump = Pump(shell)
pump.install()
main_thread = MainThread(pump)
bridge = Bridge(shell.kernel, version=vibe_jupyter.__version__, on_page=lambda _client: None)
bridge.install()
in_place = NestedCells(shell, pump)
pump.on_execute = in_place.take
pump.on_execute_at_rest = in_place.take_called_off
access = CellAccess(
    OpenNotebook(shell, bridge=bridge, main_thread=main_thread, in_place=in_place, version=vibe_jupyter.__version__)
)
engine = asyncio.new_event_loop()
threading.Thread(target=engine.run_forever, daemon=True, name="engine").start()


def serve(work: Coroutine[Any, Any, Any]) -> Any:
    """Serve as a `%%vibe` cell does; what the work gave, or ``interrupted``."""
    access.begin()
    future = asyncio.run_coroutine_threadsafe(work, engine)
    try:
        if main_thread.serve(future, interrupt=future.cancel):
            return "interrupted"
    finally:
        access.end()
    return future.result(0)


def without_a_page() -> None:
    """As in a kernel that no page has answered yet: it is not waited for as long as one that has."""
    bridge._known = False


asking: list[bool] = []
"""What was told of waiting for what the user types."""


async def run_in_place(*references: str, seconds: float | None = None) -> str:
    """Run cells one after the other; one line each."""
    lines = []
    for reference in references:
        await access.reads.listing()
        cell = (await access.reads.find_one(reference)).cells[0]
        done = await access.run(cell, seconds=seconds, on_output=lambda text: None, on_asking=asking.append)
        result = done.result
        place = "in place" if done.in_place else "here"
        lines.append(f"{result.status} [{result.execution_count}] {place}, created {', '.join(result.names_created)}")
    return "\n".join(lines)


TOOLS: dict[str, Any] = {
    tool.name: tool
    for tool in (
        ReadNotebookTool(access.reads, sees_images=lambda: True),
        EditCellTool(access),
        InsertCellTool(access),
        DeleteCellsTool(access),
        MoveCellsTool(access),
        RunCellsTool(access, sees_images=lambda: True),
    )
}
context = ToolContext(call_id="call-1", progress=lambda text: None, cancelled=lambda: main_thread.interrupted)


async def call(name: str, *, asked: bool = True, **arguments: Any) -> ToolResult:
    """One call, as a user allows it; what the model would read."""
    tool = TOOLS[name]
    try:
        args = tool.arguments.model_validate(arguments)
        if asked:
            await tool.precheck(args)
        seen[:] = [tool.headline(args), tool.preview(args), tool.touches(args)]
        return await tool.run(args, context)
    except (ToolError, ValidationError) as error:
        return ToolResult.error(str(error))


seen: list[Any] = []
"""Headline, preview and resources of the last call."""


def serve_calls(*calls: tuple[str, dict[str, Any]]) -> None:
    """One run of these calls; prints what the model reads, as JSON."""
    print(json.dumps(serve(_all(calls))))


async def _all(calls: tuple[tuple[str, dict[str, Any]], ...]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for name, arguments in calls:
        result = await call(name, **arguments)
        shown = [part.model_dump(mode="json") for part in seen[:2]] if seen else [None, None]
        results.append({**result.model_dump(mode="json"), "headline": shown[0], "preview": shown[1]})
        seen.clear()
    return results
