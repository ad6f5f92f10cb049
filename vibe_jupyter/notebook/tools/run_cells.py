"""The tools `run_code` and `run_cells`."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import Final, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from vibe_jupyter.errors import NotebookError, NothingDone, ToolError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.outputs import unseen
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.addresses import Selected, in_order, is_group, nearest_cell
from vibe_jupyter.notebook.cell_names import gives_prompt
from vibe_jupyter.notebook.chart_pictures import ChartDrawing
from vibe_jupyter.notebook.code_syntax import syntax_fault
from vibe_jupyter.notebook.document import Listing
from vibe_jupyter.notebook.staleness import dependents
from vibe_jupyter.notebook.tools.cell_report import (
    NO_OTHERS,
    ImageLabels,
    OtherNames,
    cell_number,
    headline_words,
    is_text,
    must_be_no_prompt,
    names_line,
    output_text,
    run_summary_text,
    sees_no_images,
    shortened_names,
    status_line,
)
from vibe_jupyter.notebook.tools.copied_outputs import MOST_PICTURE_BYTES, MOST_PICTURES
from vibe_jupyter.notebook.tools.copy_report import CopiedRun
from vibe_jupyter.notebook.tools.exploration import CodeExploration, CodeRun
from vibe_jupyter.notebook.tools.foresight import CodeForesight
from vibe_jupyter.notebook.tools.run_report import CellChange, run_cells, runs_result, seen_runs, told_outputs
from vibe_jupyter.notebook.tools.schema_results import schema_result
from vibe_jupyter.protocol import (
    SKIP_TAG,
    WHOLE,
    Cell,
    ExecutionResult,
    Headline,
    Preview,
    RaisedError,
    Resource,
    TextPart,
    ToolResult,
)
from vibe_jupyter.protocol.variable_effects import RowCount
from vibe_jupyter.tools.contract import (
    UNLISTED,
    NotExplored,
    OnAsking,
    Tool,
    ToolContext,
    lost_words,
    unheard,
)

_SHOWN_TEXT: Final = 100_000  # characters of output kept in the step, for the user
_TOLD_WAIT: Final = 0.1  # seconds; shorter waits for input aren't mentioned
_TAKEN_BACK: Final = " (taken back; keep=true keeps them)"
_STAYS: Final = " (in the kernel itself: this stays)"
_ENDS_KERNEL: Final = (
    "Not run in the kernel: {reason}. If the user wants it to run there all the same, send it with keep=true."
)
_IN_COPY: Final = "in a copy of the kernel: nothing was changed"
_IN_YOUR_COPY: Final = "in a copy of your kernel: nothing was changed"
_PRINTED: Final = "Printed by the code:"
# Beginnings of the report's own lines.
_OUR_LINES: Final = re.compile(
    r"^\W*(?:ok in \d|error: |timeout after|interrupted by|names (?:created|changed):|changed in place:"
    r"|rows lost:|not allowed in the copy:|[\d,]+ more pictures? w|Printed by the code:|vibe-jupyter\b)",
    re.MULTILINE,
)
_ONLY_IN_COPY: Final = " (in the copy only; keep=true changes the kernel itself)"


class RunCodeArgs(BaseModel):
    """Arguments of `run_code`."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1, description="As in a cell: magics, !commands, top-level await.")
    keep: bool = False
    timeout: float = Field(default=30, gt=0, le=3600, description="Seconds.")
    reason: str = Field(default="", description="Why; the user reads it.")


# Returns marks of the variables that code may touch, equal as long as they look unchanged. Main thread.
LookAtVariables = Callable[[str], Mapping[str, object]]


# Returns suggestions for the missing name in an error, or "". Main thread.
HintAtMissing = Callable[[str, RaisedError], str]


def no_hint(_code: str, _error: RaisedError) -> str:
    return ""


class RowLosses(Protocol):
    """Frames that lost rows in the latest run, if it ran this code."""

    def lines(self, source: str) -> Sequence[str]:
        """Describe each loss in a line."""
        ...

    def counts(self, source: str) -> Sequence[RowCount]:
        """Return the losses as a copy of the kernel reports them. In the copy."""
        ...

    def lines_of_counts(self, source: str, counts: Sequence[RowCount]) -> Sequence[str]:
        """Describe each loss that a copy reported in a line."""
        ...


def unheard_output(_text: str) -> None:
    """Ignore the output."""


def nothing_seen(_code: str) -> Mapping[str, object]:
    return {}


class CodeOutlook:
    """Everything an approval card says about code in advance. On the engine's loop."""

    def __init__(
        self,
        main_thread: MainThread,
        foresight: CodeForesight | None,
        not_undone: Callable[[str], Mapping[str, str]],
    ) -> None:
        """
        Args:
            main_thread: Reads variables.
            foresight: Runs code in copies; None if none can be made.
            not_undone: Returns variables that code may reach and undo wouldn't restore, each with the reason.
        """
        self._main_thread = main_thread
        self._foresight = foresight
        self._not_undone = not_undone

    async def words(self, code: str, context: ToolContext, *, tries: bool) -> str:
        """Describe the effects of code (if `tries`), and what undo wouldn't restore; "" if there is nothing to say."""
        changes = await self._foresight.words(code, context) if tries and self._foresight is not None else ""
        lost = await self._main_thread.call(lambda: self._not_undone(code), raises=False)
        return " · ".join(filter(None, (lost_words(list(lost)), changes)))


class WaitingTime:
    """Stopwatch for the time that code waits for `input()`. Forwards the state."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self.seconds = 0.0
        self._tell = tell
        self._began = 0.0  # by `time.monotonic`

    def __call__(self, waits: bool) -> None:
        now = time.monotonic()
        if waits:
            self._began = now
        else:
            self.seconds += now - self._began
        self._tell(waits)


class RunCodeTool(Tool[RunCodeArgs]):
    """Runs code on the main thread, in the user's namespace, or if it only reads, in a copy of the kernel."""

    name = "run_code"
    description = (
        "Run Python on the user's variables; adds no cell. Without keep it runs in a copy of the kernel, and nothing "
        "stays. What no copy can do runs in the kernel if the user allows it: the names it binds are taken back, other "
        "changes stay."
    )
    arguments = RunCodeArgs
    tried_in = "a copy of the kernel"
    may_lose = True
    without_values = "always"

    def __init__(
        self,
        main_thread: MainThread,
        runner: CodeRunner,
        *,
        sees_images: Callable[[], bool] = sees_no_images,
        looks: LookAtVariables = nothing_seen,
        hint: HintAtMissing = no_hint,
        drawing: ChartDrawing | None = None,
    ) -> None:
        self._main_thread = main_thread
        self._runner = runner
        self._sees_images = sees_images
        self._looks = looks
        self._hint = hint
        self._drawing = drawing or ChartDrawing()
        self.exploration: CodeExploration | None = None  # runs read-only code in copies; None if unavailable
        self.copies_first = True  # whether approved code also runs in a copy first, unless it is to keep its names
        self.outlook: CodeOutlook | None = None  # previews the effects of code; None if unavailable
        self.row_losses: RowLosses | None = None  # None without a notebook
        self.hint_of_copy: HintAtMissing = no_hint

    def headline(self, args: RunCodeArgs) -> Headline:
        return Headline(verb="Ran code", doing="Running code", asking="Run code", target="", note=args.reason)

    def preview(self, args: RunCodeArgs) -> Preview:
        return Preview(kind="code", text=args.code, language="python", edits="code")

    def touches(self, args: RunCodeArgs) -> Sequence[Resource]:
        return (Resource(kind="code", value=args.code, access="execute"),)

    async def precheck(self, args: RunCodeArgs) -> None:
        """Check, before asking the user, that the code starts no other run and has valid syntax."""
        must_be_no_prompt("this code", args.code)
        if fault := syntax_fault(args.code, self._runner.shell):
            raise NothingDone(f"Nothing was done: {fault}")

    async def run(self, args: RunCodeArgs, context: ToolContext) -> ToolResult:
        must_be_no_prompt("this code", args.code)
        why_here = context.explored
        if not why_here and self.copies_first and self.can_explore(args):
            explored = await self.explore(args, context)
            if isinstance(explored, ToolResult):
                return explored
            # Code that ended its copy would end the kernel too: permission given in advance doesn't cover that.
            if explored.is_harmful:
                raise NothingDone(_ENDS_KERNEL.format(reason=explored.reason))
            why_here = explored.reason
        ran = await self._run_in_kernel(args, context, why_here)
        if not why_here or context.approval is None or context.approval.by != "settings":
            return ran
        return ran.model_copy(update={"summary": f"{ran.summary}, in your kernel: {why_here}"})

    async def _run_in_kernel(self, args: RunCodeArgs, context: ToolContext, why_here: str) -> ToolResult:
        """Run the code on the main thread. `why_here` says why a copy wouldn't do, if one was tried."""
        waiting = WaitingTime(context.waits)

        def execute() -> tuple[CodeRun, Sequence[str]]:
            if context.cancelled() or self._main_thread.interrupted:
                raise ToolError("interrupted before it ran")
            ran = self._execute(
                args,
                self._runner,
                context.progress,
                waiting,
                lambda: self._main_thread.note_outputs(context.call_id),
            )
            error = ran.result.error
            hint = self._hint(args.code, error) if error is not None and not context.schema_only else ""
            return ran._replace(hint=hint), self.row_losses.lines(args.code) if self.row_losses is not None else ()

        try:
            ran, rows = await self._main_thread.call(execute)
        except NotebookError as error:
            raise ToolError(f"Not run to its end: {error}") from error
        status = ""
        if waiting.seconds >= _TOLD_WAIT:
            status = f"; {waiting.seconds:.1f} s of it waiting for input()"
        if why_here:  # a blocked operation may be named after a value
            status += ", in the kernel" if context.schema_only else f", in the kernel: {why_here}"
        changed = _changed_text(ran.changed)
        changed += _STAYS if changed and not args.keep else ""
        told = _ToldRun(ran.result, status, "" if args.keep else _TAKEN_BACK, (ran.hint, changed, *rows))
        return await self._code_result(args, told, schema_only=context.schema_only)

    def can_explore(self, args: RunCodeArgs) -> bool:
        """Return whether the code may run in a copy: names to keep can't be kept there."""
        return self.exploration is not None and not args.keep

    async def explore(self, args: RunCodeArgs, context: ToolContext) -> ToolResult | NotExplored:
        """Run the code in a copy of the kernel."""
        must_be_no_prompt("this code", args.code)
        assert self.exploration is not None
        ran = await self.exploration.run(args.code, args.timeout, context, lambda runner: self._in_copy(args, runner))
        if isinstance(ran, NotExplored):
            return ran
        await self.exploration.show_pictures(ran.result.outputs, context.call_id)
        others = OtherNames(ran.other_created, ran.other_rebound)
        told = _ToldRun(
            ran.result if context.schema_only else _with_error_in_outputs(ran.result),
            *(f", {_IN_COPY}", _ONLY_IN_COPY, await self._notes_of_copy(args, ran, schema_only=context.schema_only)),
            others,
            in_copy=True,
        )
        result = await self._code_result(args, told, schema_only=context.schema_only)
        in_copy = {"in_copy": True, "cpu_seconds": round(ran.cpu_seconds, 3), "attempts": list(ran.attempts)}
        return result.model_copy(
            update={"summary": f"{result.summary}, {_IN_YOUR_COPY}", "details": {**result.details, **in_copy}}
        )

    def _in_copy(self, args: RunCodeArgs, runner: CodeRunner) -> CodeRun:
        ran = self._execute(args, runner)
        return ran if self.row_losses is None else ran._replace(rows=tuple(self.row_losses.counts(args.code)))

    async def _notes_of_copy(self, args: RunCodeArgs, ran: CopiedRun, *, schema_only: bool) -> Sequence[str]:
        """Return notes besides the outputs, composed from validated facts."""
        hint, error = "", ran.result.error
        if error is not None and not schema_only:
            hint = await self._main_thread.call(lambda: self.hint_of_copy(args.code, error), raises=False)
        changed = _changed_text(ran.changed, ran.other_changed)
        rows = self.row_losses.lines_of_counts(args.code, ran.rows) if self.row_losses is not None else ()
        tried = f"not allowed in the copy: {', '.join(ran.attempts)}" if ran.attempts and not schema_only else ""
        return (hint, changed and f"{changed}{_ONLY_IN_COPY}", *rows, tried, _pictures_text(ran.pictures_left_out))

    def can_foresee(self, args: RunCodeArgs) -> bool:
        """Return whether effects of code can be previewed."""
        return self.outlook is not None

    async def foresee(self, args: RunCodeArgs, context: ToolContext, *, tries: bool) -> str:
        """Preview the effects of the code in one line."""
        must_be_no_prompt("this code", args.code)
        return await self.outlook.words(args.code, context, tries=tries) if self.outlook is not None else ""

    def _execute(
        self,
        args: RunCodeArgs,
        runner: CodeRunner,
        on_output: Callable[[str], None] = unheard_output,
        on_asking: OnAsking = unheard,
        on_shown: Callable[[], None] = unseen,
    ) -> CodeRun:
        """Run the code. Main thread of the kernel or of a copy."""
        before = self._looks(args.code)
        result = runner.run(
            args.code,
            keep=args.keep,
            timeout=args.timeout,
            on_output=on_output,
            on_asking=on_asking,
            on_shown=on_shown,
        )
        after = self._looks(args.code)
        rebound = {*result.names_created, *result.names_changed} if args.keep else set[str]()
        both = (name for name in before if name in after and name not in rebound)
        changed = tuple(name for name in both if before[name] != after[name])
        return CodeRun(result, changed, "")

    async def _code_result(self, args: RunCodeArgs, ran: "_ToldRun", *, schema_only: bool) -> ToolResult:
        result = ran.result
        sees_images = not schema_only and not all(map(is_text, result.outputs)) and self._sees_images()
        if sees_images:
            result = result.model_copy(update={"outputs": await self._drawing.with_pictures(result.outputs)})
        output = output_text(result.outputs)
        labels = ImageLabels()
        known = schema_result(result, args.code) if schema_only else result
        told = output_text(known.outputs, labels.label if sees_images else None)
        told = _fenced(told) if ran.in_copy else told
        status = status_line(known, args.timeout) + ran.also
        names = names_line(known, ran.names_note, ran.others)
        report = "\n".join(filter(None, (status, told, names, *ran.notes)))
        display: dict[str, JsonValue] = {"text/x-python": args.code}
        if output:
            display["text/plain"] = head_and_tail(output, _SHOWN_TEXT)
        return ToolResult(
            parts=(TextPart(text=report), *labels.images),
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


class _ToldRun(NamedTuple):
    """Parts of the report on one piece of code."""

    result: ExecutionResult
    also: str  # appended to the first line
    names_note: str  # appended to the names that were bound
    notes: Sequence[str]
    others: OtherNames = NO_OTHERS
    in_copy: bool = False


def _fenced(output: str) -> str:
    """Return the output of a copy, quoted if one of its lines looks like the report's own."""
    return output if _OUR_LINES.search(output) is None else f"{_PRINTED}\n{indent(output, '| ', lambda _: True)}"


def _changed_text(names: Sequence[str], others: int = 0) -> str:
    return f"changed in place: {shortened_names(names, others)}" if names or others else ""


def _pictures_text(count: int) -> str:
    if not count:
        return ""
    noun, verb = ("picture", "was") if count == 1 else ("pictures", "were")
    size = MOST_PICTURE_BYTES >> 20
    return f"{count:,} more {noun} {verb} not kept: a copy gives {MOST_PICTURES} as PNG or JPEG, {size} MB together"


def _with_error_in_outputs(result: ExecutionResult) -> ExecutionResult:
    """Move an error's message from the first line to the outputs, since it is data of the code."""
    error = result.error
    if error is None:
        return result
    outputs = result.outputs
    if all(output["output_type"] != "error" for output in outputs):
        shown: dict[str, JsonValue] = {"ename": error.name, "evalue": error.message, "traceback": [error.traceback]}
        outputs = (*outputs, {"output_type": "error", **shown})
    return result.model_copy(update={"outputs": outputs, "error": error.model_copy(update={"message": ""})})


class RunCellsArgs(BaseModel):
    """Arguments of `run_cells`: the cells, in order of execution."""

    model_config = ConfigDict(extra="forbid")

    cells: list[str] = Field(min_length=1, description='Also "#3-#30", "stale", "below:d8dc".')
    dependents: bool = Field(default=False, description="Then what uses them.")
    stop_on_error: bool = Field(default=True, json_schema_extra=UNLISTED)
    timeout: float | None = Field(default=None, gt=0, description="Seconds.")


class RunCellsTool(Tool[RunCellsArgs]):
    """Runs cells as the user's Shift-Enter would."""

    name = "run_cells"
    description = "Run cells in this order, in their places."
    arguments = RunCellsArgs
    may_lose = True
    without_values = "always"

    def __init__(self, access: CellAccess, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._access = access
        self._sees_images = sees_images
        # The cells at the latest check: what the card shows, and therefore what runs.
        self._checked: Listing | None = None
        self.outlook: CodeOutlook | None = None  # previews the effects of code; None if unavailable

    def can_foresee(self, args: RunCellsArgs) -> bool:
        """Return whether effects of code can be previewed."""
        return self.outlook is not None

    async def foresee(self, args: RunCellsArgs, context: ToolContext, *, tries: bool) -> str:
        """Preview the effects of the cells in one line; "" if one has a cell magic."""
        await self._access.reads.listing()
        sources = [cell.source for cell in await self._chosen_cells(args)]
        if self.outlook is None or any(source.lstrip().startswith("%%") for source in sources):
            return ""
        return await self.outlook.words("\n\n".join(sources), context, tries=tries)

    def headline(self, args: RunCellsArgs) -> Headline:
        cells = self._known_cells(args)
        verb, target = headline_words("Ran", cells)
        return Headline(
            verb=verb, doing=headline_words("Running", cells)[0], asking=headline_words("Run", cells)[0], target=target
        )

    def preview(self, args: RunCellsArgs) -> Preview:
        cells = self._known_cells(args)
        if len(cells) == 1:
            text = cells[0].source
        else:
            text = "\n\n".join(f"# cell {cell_number(cell)}\n{cell.source}" for cell in cells)
        return Preview(kind="code", text=text, language="python", edits=WHOLE)

    def touches(self, args: RunCellsArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="execute") for one in args.cells)

    async def precheck(self, args: RunCellsArgs) -> None:
        """Check, before asking the user, that the cells exist and are as the agent read them."""
        self._checked = await self._access.reads.listing()
        await self._chosen_cells(args)

    async def run(self, args: RunCellsArgs, context: ToolContext) -> ToolResult:
        cells = await self._cells_to_run(args)
        skipped = CellChange(note=await self._skipped_note(args))  # before the run, which changes the cells' numbers
        done = await run_cells(self._access, cells, context, seconds=args.timeout, stop_on_error=args.stop_on_error)
        tells = told_outputs(context, sees_images=self._sees_images())
        done = await seen_runs(self._access, done) if tells == "images" else done
        return runs_result(self._access, done, len(cells), seconds=args.timeout, written=skipped, tells=tells)

    async def _skipped_note(self, args: RunCellsArgs) -> str:
        """Name the cells that groups skipped because of their tag, or return ""."""
        skipped = {cell.id: cell for selected in await self._select(args.cells) for cell in selected.skipped}
        names = ", ".join(map(self._access.reads.address, skipped.values()))
        return f"\nSkipped because of the tag {SKIP_TAG}: {names}. Named alone, they run." if names else ""

    async def _cells_to_run(self, args: RunCellsArgs) -> list[Cell]:
        """Return the cells as checked, or as they are now if anything changed since.

        Raises:
            NothingDone: One of them can't be run, or there are none.
        """
        if self._checked is None or self._checked is not self._access.reads.last:
            await self._access.reads.listing()
        self._checked = None
        return await self._chosen_cells(args)

    def _known_cells(self, args: RunCellsArgs) -> list[Cell]:
        reads = self._access.reads
        known = reads.known_all(args.cells, runnable=True)
        return with_dependents(known, reads.last.cells) if args.dependents and reads.last else known

    async def _chosen_cells(self, args: RunCellsArgs) -> list[Cell]:
        """Return the cells to run.

        Raises:
            NothingDone: One of them can't be run, or there are none.
        """
        reads = self._access.reads
        all_cells = (await reads.listing(fresh=False)).cells
        chosen = await self._select(args.cells)
        for selected in chosen:
            # Groups are resolved when they run: "stale" includes cells that the user edited.
            await self._access.let_through(selected, needed="nothing" if is_group(selected.reference) else "unchanged")
        cells = in_order(chosen)
        cells = with_dependents(cells, all_cells) if args.dependents else cells
        if not cells:
            note = await self._skipped_note(args)
            raise NothingDone(f"Nothing was run: {', '.join(args.cells)} means no cell that can run.{note}")
        for cell in cells:
            if cell.kind != "code":
                raise NothingDone(f"Nothing was run: {reads.address(cell)} is {cell.kind}, not code.")
            must_be_no_prompt(reads.address(cell), cell.source)
        self._access.must_rest(*cells)
        return cells

    async def _select(self, references: Sequence[str]) -> list[Selected]:
        found: list[Selected] = []
        wrong: list[str] = []
        better: list[str] = []
        cells = (await self._access.reads.listing(fresh=False)).cells
        for reference in references:
            try:
                found += await self._access.reads.select([reference], runnable=True)
                better.append(reference)
            except NothingDone as error:
                wrong.append(str(error))
                near = nearest_cell(reference, cells)
                better += [self._access.reads.short_id(near)] if near is not None else []
        if len(references) > 1 and wrong and better:
            wrong.append(f"Nothing was run. The list with what is nearest: cells={json.dumps(better)}")
        if wrong:
            raise NothingDone("\n".join(wrong))
        return found


def with_dependents(cells: Sequence[Cell], all_cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells, followed by those that use what they bind or change, in notebook order."""
    wanted = [cell.id for cell in cells]
    later = set(dependents(all_cells, wanted)).difference(wanted)
    return [*cells, *(cell for cell in all_cells if cell.id in later and not _is_left_out(cell))]


def _is_left_out(cell: Cell) -> bool:
    return cell.is_skipped or gives_prompt(cell.source)
