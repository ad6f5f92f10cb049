"""The tools `run_code` and `run_cell`."""

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from vibe_jupyter.errors import NotebookError, NothingDone, ToolError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.chart_pictures import with_drawn_pictures
from vibe_jupyter.notebook.tools.cell_report import (
    cell_number,
    headline_words,
    must_be_no_prompt,
    names_line,
    output_images,
    output_text,
    run_cells,
    run_summary_text,
    runs_result,
    seen_runs,
    sees_no_images,
    status_line,
)
from vibe_jupyter.protocol import Cell, ExecutionResult, Headline, Level, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext

_SHOWN_TEXT: Final = 100_000
"""Characters of output kept for the user in the step."""
_TAKEN_BACK: Final = " (taken back; keep=true keeps them)"


class RunCodeArgs(BaseModel):
    """What the model says to run."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1, description="As in a cell: magics, !commands, top-level await.")
    keep: bool = False
    timeout: float = Field(default=30, gt=0, le=3600, description="Seconds.")
    reason: str = Field(default="", description="Why; the user reads it.")


class RunCodeTool:
    """Runs code on the main thread, in the user's namespace."""

    name = "run_code"
    description = (
        "Run Python in the user's kernel; gives output, last value, error. Adds no cell. Names it binds are taken back "
        "unless keep is true; objects changed in place stay changed."
    )
    level: Level = "ask"
    arguments = RunCodeArgs

    def __init__(
        self, main_thread: MainThread, runner: CodeRunner, *, sees_images: Callable[[], bool] = sees_no_images
    ) -> None:
        self._main_thread = main_thread
        self._runner = runner
        self._sees_images = sees_images

    def headline(self, args: RunCodeArgs) -> Headline:
        return Headline(verb="Ran code", doing="Running code", asking="Run code", target="", note=args.reason)

    def preview(self, args: RunCodeArgs) -> Preview:
        return Preview(kind="code", text=args.code, language="python", edits="code")

    def touches(self, args: RunCodeArgs) -> Sequence[Resource]:
        return (Resource(kind="code", value=args.code, access="execute"),)

    async def precheck(self, args: RunCodeArgs) -> None:
        """Before the user is asked: the code starts no other run."""
        must_be_no_prompt("this code", args.code)

    async def run(self, args: RunCodeArgs, context: ToolContext) -> ToolResult:
        must_be_no_prompt("this code", args.code)

        def execute() -> ExecutionResult:
            if context.cancelled() or self._main_thread.interrupted:
                raise ToolError("interrupted before it ran")
            return self._runner.run(
                args.code,
                keep=args.keep,
                timeout=args.timeout,
                on_output=context.progress,
                on_asking=context.waits,
            )

        try:
            result = await self._main_thread.call(execute)
        except NotebookError as error:
            raise ToolError(f"Not run to its end: {error}") from error
        if self._sees_images():
            result = result.model_copy(update={"outputs": await with_drawn_pictures(result.outputs)})
        return self._code_result(args, result)

    def _code_result(self, args: RunCodeArgs, result: ExecutionResult) -> ToolResult:
        output = output_text(result.outputs)
        names = names_line(result, "" if args.keep else _TAKEN_BACK)
        report = "\n".join(filter(None, (status_line(result, args.timeout), output, names)))
        seen = output_images(result.outputs) if self._sees_images() else ()
        display: dict[str, JsonValue] = {"text/x-python": args.code}
        if output:
            display["text/plain"] = head_and_tail(output, _SHOWN_TEXT)
        return ToolResult(
            parts=(TextPart(text=report), *seen),
            summary=run_summary_text(result, output, args.timeout),
            display=display,
            details={
                "status": result.status,
                "seconds": round(result.seconds, 3),
                "names_created": list(result.names_created),
                "names_changed": list(result.names_changed),
            },
            is_error=result.status != "ok",
        )


class RunCellArgs(BaseModel):
    """Which cells, in which order."""

    model_config = ConfigDict(extra="forbid")

    ids: list[str] = Field(min_length=1)
    stop_on_error: bool = True
    timeout: float | None = Field(default=None, gt=0, description="Seconds.")


class RunCellTool:
    """Runs cells as the user's Shift-Enter would."""

    name = "run_cell"
    description = "Run cells in this order; what they show stands under them."
    level: Level = "ask"
    arguments = RunCellArgs

    def __init__(self, access: CellAccess, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._access = access
        self._sees_images = sees_images

    def headline(self, args: RunCellArgs) -> Headline:
        cells = [self._access.reads.known(one) for one in args.ids]
        verb, target = headline_words("Ran", cells)
        return Headline(
            verb=verb, doing=headline_words("Running", cells)[0], asking=headline_words("Run", cells)[0], target=target
        )

    def preview(self, args: RunCellArgs) -> Preview:
        cells = [self._access.reads.known(one) for one in args.ids]
        if len(cells) == 1:
            text = cells[0].source if cells[0] else ""
        else:
            text = "\n\n".join(f"# cell {cell_number(cell)}\n{cell.source}" for cell in cells if cell)
        return Preview(kind="code", text=text, language="python")

    def touches(self, args: RunCellArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="execute") for one in args.ids)

    async def precheck(self, args: RunCellArgs) -> None:
        """Before the user is asked: the cells are there, and as the agent read them."""
        await self._access.check(args.ids, written=False)
        cells = [await self._access.reads.find(one) for one in args.ids]
        _must_be_no_prompts(cells)
        self._access.must_rest(*cells)

    async def run(self, args: RunCellArgs, context: ToolContext) -> ToolResult:
        cells = [await self._access.to_change(one, written=False) for one in args.ids]
        for cell in cells:
            if cell.kind != "code":
                raise NothingDone(f"Nothing was run: cell {cell.id} is {cell.kind}, not code.")
        _must_be_no_prompts(cells)
        self._access.must_rest(*cells)
        done = await run_cells(self._access, cells, context, seconds=args.timeout, stop_on_error=args.stop_on_error)
        sees_images = self._sees_images()
        done = await seen_runs(self._access, done) if sees_images else done
        return runs_result(done, len(cells), seconds=args.timeout, sees_images=sees_images)


def _must_be_no_prompts(cells: Sequence[Cell]) -> None:
    for cell in cells:
        must_be_no_prompt(f"cell {cell.number} ({cell.id})", cell.source)
