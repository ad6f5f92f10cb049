"""Sequential runs of cells, and their reports."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import RESULT_LIMIT, head_and_tail
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.document import CellRun
from vibe_jupyter.notebook.tools.cell_report import (
    ImageLabels,
    cell_number,
    names_line,
    output_text,
    run_summary_text,
    status_line,
)
from vibe_jupyter.notebook.tools.schema_results import schema_result
from vibe_jupyter.protocol import Cell, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext

_ROOM_FOR_STATUS: Final = 400  # characters of a result reserved for its first line
_ROOM_FOR_HEAD: Final = 150  # characters reserved for the line above each cell's outputs
_NOTHING: Final = "Nothing was done: "
_HERE: Final = "Its output is shown in the prompt's cell, not under the cell itself."


# What the model receives of outputs: text, text and images, or sizes only.
ToldOutputs = Literal["text", "images", "sizes"]


class CellChange(NamedTuple):
    """Change made to a cell before it ran."""

    how: str = ""  # such as ``inserted``; "" for none
    note: str = ""  # a further note, appended to the results


NO_CHANGE: Final = CellChange()


@dataclass(frozen=True)
class CellRunResult:
    cell: Cell
    run: CellRun
    rows: tuple[str, ...] = ()  # frames that lost rows, one line each

    @property
    def ok(self) -> bool:
        return self.run.result.status == "ok"


async def run_cells(
    access: CellAccess,
    cells: Sequence[Cell],
    context: ToolContext,
    *,
    seconds: float | None = None,
    stop_on_error: bool = True,
) -> list[CellRunResult]:
    """Run cells in order until one fails. An interrupt by the user always stops.

    Raises:
        ToolError: A cell couldn't be started; if it wasn't the first, the message says which ran.
    """
    done: list[CellRunResult] = []
    for cell in cells:
        if context.cancelled():
            break
        try:
            ran = await access.run(cell, seconds=seconds, on_output=context.progress, on_asking=context.waits)
            done.append(CellRunResult(cell, ran, tuple(access.row_lines(cell.source))))
        except ToolError as error:
            if not done:
                raise
            told = _told_runs(done) if context.schema_only else done
            raise ToolError(f"{_runs_overview(told, len(cells), seconds)}\n{error}") from error
        status = done[-1].run.result.status
        if status == "interrupted" or (stop_on_error and status != "ok"):
            break
    return done


async def run_written(
    access: CellAccess, cell: Cell, context: ToolContext, *, written: CellChange, sees_images: bool
) -> ToolResult:
    """Run a cell that was just written.

    Raises:
        ToolError: It couldn't be started; the message says that the change was made.
    """
    try:
        done = await run_cells(access, [cell], context)
    except ToolError as error:
        name = access.reads.address(cell)
        raise ToolError(f"{written.how} {name}; not run: {str(error).removeprefix(_NOTHING)}{written.note}") from error
    tells = told_outputs(context, sees_images=sees_images)
    done = await seen_runs(access, done) if tells == "images" else done
    return runs_result(access, done, 1, written=written, tells=tells)


def told_outputs(context: ToolContext, *, sees_images: bool) -> ToldOutputs:
    """Return what the model may receive of outputs."""
    return "sizes" if context.schema_only else "images" if sees_images else "text"


def _told_runs(done: Sequence[CellRunResult]) -> Sequence[CellRunResult]:
    """Return the results without values."""
    return [replace(ran, run=replace(ran.run, result=schema_result(ran.run.result, ran.cell.source))) for ran in done]


async def seen_runs(access: CellAccess, done: Sequence[CellRunResult]) -> list[CellRunResult]:
    """Add images to the charts in the results."""
    return [replace(ran, run=await _with_pictures(access, ran)) for ran in done]


async def _with_pictures(access: CellAccess, ran: CellRunResult) -> CellRun:
    outputs: Sequence[Output] = ran.run.result.outputs
    if ran.run.in_place:
        outputs = await access.reads.with_pictures(ran.cell, outputs)
    drawn = await access.drawing.with_pictures(outputs)
    return replace(ran.run, result=ran.run.result.model_copy(update={"outputs": drawn}))


def runs_result(
    access: CellAccess,
    done: Sequence[CellRunResult],
    wanted: int,
    *,
    seconds: float | None = None,
    written: CellChange = NO_CHANGE,
    tells: ToldOutputs = "text",
) -> ToolResult:
    """Return the report for the model, the user and the log."""
    told = _told_runs(done) if tells == "sizes" else done
    names = [access.reads.address(_numbered_cell(ran)) for ran in done]
    access.reads.remembered.show(map(_numbered_cell, done))
    labels = ImageLabels(access.reads) if tells == "images" else None
    texts = [output_text(ran.run.result.outputs, labels and labels.of(_numbered_cell(ran))) for ran in told]
    taken = _ROOM_FOR_STATUS + len(written.note) + _ROOM_FOR_HEAD * sum(map(bool, texts))
    room = _fair_share([len(text) for text in texts], RESULT_LIMIT - taken)
    heads = [f"{name} {status_line(ran.run.result, seconds)}" for ran, name in zip(told, names, strict=True)]
    ids = [access.reads.short_id(ran.cell) for ran in done]
    bodies = [_run_body(ran, text, room, short) for ran, text, short in zip(told, texts, ids, strict=True)]
    if wanted == 1 and done:
        lines = [" ".join(filter(None, (written.how, heads[0]))), bodies[0]]
    else:
        silent = [ran.ok and ran.run.in_place and not text for ran, text in zip(told, texts, strict=True)]
        quiet = [_quiet_words(ran, name) for ran, name, one in zip(told, names, silent, strict=True) if one]
        lines = [_runs_overview(told, wanted, seconds)]
        blocks = zip(heads, bodies, silent, strict=True)
        lines += [f"{head}\n{body}".rstrip() for head, body, one in blocks if not one]
        lines += [f"ok, nothing shown: {', '.join(quiet)}"] if quiet else []
    display: dict[str, JsonValue] = {"text/x-python": "\n\n".join(ran.cell.source for ran in done)}
    shown_here = "\n".join(output_text(ran.run.result.outputs) for ran in done if not ran.run.in_place)
    if shown_here:
        display["text/plain"] = head_and_tail(shown_here, 100_000)
    details: list[JsonValue] = [_run_details(ran) for ran in done]
    return ToolResult(
        parts=(
            TextPart(text="\n".join(filter(None, lines)) + written.note),
            *(labels.images if labels else ()),
        ),
        summary=_runs_summary(done, wanted, seconds),
        display=display,
        details={"cells": details},
        is_error=len(done) < wanted or not all(ran.ok for ran in done),
    )


def _numbered_cell(ran: CellRunResult) -> Cell:
    """Return the cell with its new execution count."""
    count = ran.run.result.execution_count
    return ran.cell.model_copy(update={"execution_count": count}) if ran.run.in_place and count else ran.cell


def _quiet_words(ran: CellRunResult, name: str) -> str:
    names = "\n".join(filter(None, (names_line(ran.run.result), *ran.rows))).replace("\n", "; ")
    return f"{name} ({names})" if names else name


def _fair_share(lengths: Sequence[int], room: int) -> int:
    """Return the longest length per text with which all of them fit."""
    left = sorted(lengths)
    for place, length in enumerate(left):
        share = room // (len(left) - place)
        if length > share:
            return max(share, 80)
        room -= length
    return max(room, max(lengths, default=0))


def _runs_overview(done: Sequence[CellRunResult], wanted: int, seconds: float | None) -> str:
    good = sum(ran.ok for ran in done)
    failed = [f"#{ran.cell.number} {status_line(ran.run.result, seconds)}" for ran in done if not ran.ok]
    stopped = "stopped there" if failed and len(done) < wanted else ""
    return "; ".join(filter(None, (f"ran {len(done)} of {wanted} cells, {good} ok", *failed, stopped)))


def _run_body(ran: CellRunResult, text: str, room: int, short_id: str) -> str:
    cut = head_and_tail(text, room)
    more = f'read_notebook(cells=["{short_id}"], outputs="full") has all of it'
    lines = (cut, more if cut != text and ran.run.in_place else "", names_line(ran.run.result))
    return "\n".join(filter(None, (*lines, *ran.rows, "" if ran.run.in_place else _HERE)))


def _runs_summary(done: Sequence[CellRunResult], wanted: int, seconds: float | None) -> str:
    if wanted == 1 and done:
        result = done[0].run.result
        return ", ".join((run_summary_text(result, output_text(result.outputs), seconds), *done[0].rows))
    failed = [ran for ran in done if not ran.ok]
    if failed:
        return f"{cell_number(failed[0].cell)} {status_line(failed[0].run.result, seconds)}"
    return f"{len(done)} ok"


def _run_details(ran: CellRunResult) -> JsonValue:
    result = ran.run.result
    return {
        "cell": ran.cell.id,
        "status": result.status,
        "seconds": round(result.seconds, 3),
        "execution_count": result.execution_count,
        "in_place": ran.run.in_place,
        "names_created": list(result.names_created),
        "names_changed": list(result.names_changed),
    }
