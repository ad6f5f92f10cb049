"""Cells and runs of code in words: for the user by number, for the model by id."""

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.files.images import fit_image
from vibe_jupyter.files.truncation import RESULT_LIMIT, head_and_tail
from vibe_jupyter.kernel.capture import plain_text
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.chart_pictures import with_drawn_pictures
from vibe_jupyter.notebook.document import CellRun, html_text
from vibe_jupyter.protocol import Cell, CellKind, ExecutionResult, ImagePart, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.protocol.cells import short_ids
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import ToolContext

if TYPE_CHECKING:
    from markdown_it.token import Token

_ROOM_FOR_STATUS: Final = 300
"""Characters of a result kept for its first line."""
_NOTHING: Final = "Nothing was done: "
_HERE: Final = "Its output is shown in the prompt's cell, not under the cell itself."

MAX_IMAGES: Final = 4
"""Images of one result that a model with eyes gets."""
_OBJECT_REPR: Final = re.compile(r"<.{1,300} (?:at 0x[0-9a-fA-F]+|object)>")
"""What Python calls an object of which it knows nothing else."""

CONTEXT_LINES = 3
"""Unchanged lines shown around a change in a long cell."""
WHOLE_LINES = 200
"""Lines up to which a cell is shown whole."""

_VIBE: Final = re.compile(r"^(?:[^#'\"\n]*=)?[ \t]*%%?vibe\b", re.MULTILINE)
"""Code that gives a prompt or a command to the agent; IPython takes the magics at the start of a line only."""

_REMOTE: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//[^\s\"'<>)]+", re.IGNORECASE)
_TAG: Final = re.compile(r"<[a-z]", re.IGNORECASE)
RAW_HTML: Final = "raw HTML"


@dataclass(frozen=True)
class CellRunResult:
    """One cell and what came of it."""

    cell: Cell
    run: CellRun

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
    """Run them one after the other, to the end or to the first that fails; a stop by the user ends it always.

    Raises:
        ToolError: the first could not be started, or a later one; then it says which ran.
    """
    done: list[CellRunResult] = []
    for cell in cells:
        if context.cancelled():
            break
        try:
            ran = await access.run(cell, seconds=seconds, on_output=context.progress, on_asking=context.waits)
            done.append(CellRunResult(cell, ran))
        except ToolError as error:
            if not done:
                raise
            raise ToolError(f"{_runs_overview(done, len(cells), seconds)}\n{error}") from error
        status = done[-1].run.result.status
        if status == "interrupted" or (stop_on_error and status != "ok"):
            break
    return done


async def run_written(
    access: CellAccess, cell: Cell, context: ToolContext, *, first: str, sees_images: bool
) -> ToolResult:
    """Run a cell that was just written; `first` says what was written.

    Raises:
        ToolError: it could not be started; says too that what was written stands.
    """
    try:
        done = await run_cells(access, [cell], context)
    except ToolError as error:
        raise ToolError(f"{first}; not run: {str(error).removeprefix(_NOTHING)}") from error
    done = await seen_runs(access, done) if sees_images else done
    return runs_result(done, 1, first=first, sees_images=sees_images)


async def seen_runs(access: CellAccess, done: Sequence[CellRunResult]) -> list[CellRunResult]:
    """The same with pictures of their charts."""
    return [replace(ran, run=await _with_pictures(access, ran)) for ran in done]


async def _with_pictures(access: CellAccess, ran: CellRunResult) -> CellRun:
    outputs: Sequence[Output] = ran.run.result.outputs
    if ran.run.in_place:
        outputs = await access.reads.with_pictures(ran.cell, outputs)
    drawn = await with_drawn_pictures(outputs)
    return replace(ran.run, result=ran.run.result.model_copy(update={"outputs": drawn}))


def runs_result(
    done: Sequence[CellRunResult],
    wanted: int,
    *,
    seconds: float | None = None,
    first: str = "",
    sees_images: bool = False,
) -> ToolResult:
    """The report for the model, the user and the log; `first` is what was done before the run."""
    room = (RESULT_LIMIT - _ROOM_FOR_STATUS) // max(1, len(done))
    blocks = [_run_block(ran, seconds, room, alone=wanted == 1) for ran in done]
    status = "; ".join(filter(None, (first, _runs_overview(done, wanted, seconds))))
    outputs = [output for ran in done for output in ran.run.result.outputs]
    display: dict[str, JsonValue] = {"text/x-python": "\n\n".join(ran.cell.source for ran in done)}
    shown_here = "\n".join(output_text(ran.run.result.outputs) for ran in done if not ran.run.in_place)
    if shown_here:
        display["text/plain"] = head_and_tail(shown_here, 100_000)
    details: list[JsonValue] = [_run_details(ran) for ran in done]
    return ToolResult(
        parts=(
            TextPart(text="\n".join(filter(None, (status, *blocks)))),
            *(output_images(outputs) if sees_images else ()),
        ),
        summary=_runs_summary(done, wanted, seconds),
        display=display,
        details={"cells": details},
        is_error=len(done) < wanted or not all(ran.ok for ran in done),
    )


def _runs_overview(done: Sequence[CellRunResult], wanted: int, seconds: float | None) -> str:
    if wanted == 1 and done:
        ran = done[0]
        return f"{status_line(ran.run.result, seconds)}, execution count {ran.run.result.execution_count}"
    good = sum(ran.ok for ran in done)
    failed = [f"#{ran.cell.number} {status_line(ran.run.result, seconds)}" for ran in done if not ran.ok]
    stopped = "stopped there" if failed and len(done) < wanted else ""
    return "; ".join(filter(None, (f"ran {len(done)} of {wanted} cells, {good} ok", *failed, stopped)))


def _run_block(ran: CellRunResult, seconds: float | None, room: int, *, alone: bool) -> str:
    result = ran.run.result
    head = "" if alone else f"#{ran.cell.number} {ran.cell.id}: {status_line(result, seconds)}"
    text = output_text(result.outputs)
    cut = head_and_tail(text, room)
    handle = f"read_output(cell_id={ran.cell.id!r}) pages all of it" if cut != text and ran.run.in_place else ""
    return "\n".join(filter(None, (head, cut, handle, names_line(result), "" if ran.run.in_place else _HERE)))


def _runs_summary(done: Sequence[CellRunResult], wanted: int, seconds: float | None) -> str:
    if wanted == 1 and done:
        result = done[0].run.result
        return run_summary_text(result, output_text(result.outputs), seconds)
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


def sees_no_images() -> bool:
    """Of a model that sees no images."""
    return False


def status_line(result: ExecutionResult, limit: float | None) -> str:
    """How it ended, in one line; `limit` is what it was given, in seconds."""
    match result.status:
        case "ok":
            return f"ok in {result.seconds:.1f} s"
        case "error":
            error = result.error
            return f"error: {error.name}: {_first_line(error.message)}" if error is not None else "error"
        case "timeout":
            return f"timeout after {limit:g} s"
        case "interrupted":
            return "interrupted by the user"


def run_summary_text(result: ExecutionResult, output: str, limit: float | None) -> str:
    """The same for the user, in a few words after the headline."""
    if result.status == "error" and result.error is not None:
        return f"{result.error.name}: {_first_line(result.error.message)}".removesuffix(": ")
    if result.status != "ok":
        return status_line(result, limit)
    figures = sum(1 for output in result.outputs if _image_type(_output_data(output)))
    lines = len([line for line in output.splitlines() if line and not line.startswith("[image/")])
    counts = [f"{n} {word}{'s' if n != 1 else ''}" for n, word in ((figures, "figure"), (lines, "line")) if n]
    return ", ".join(counts) or "no output"


def output_text(outputs: Iterable[Output]) -> str:
    """Outputs as the model reads them."""
    return "\n".join(filter(None, (_output_text(output).strip("\n") for output in outputs)))


def _output_text(output: Output) -> str:
    match output["output_type"]:
        case "stream":
            return _as_shown(str(output["text"]))
        case "error":
            return plain_text("\n".join(cast(list[str], output["traceback"])))
        case _:
            return _mime_text(_output_data(output))


def _mime_text(data: dict[str, Any]) -> str:
    image = _image_type(data)
    chart = _chart_text(data)
    if image:
        return "\n".join(filter(None, (chart, f"[{image} shown to the user]")))
    if chart:
        return chart
    plain = str(data.get("text/plain", ""))
    if not plain or _OBJECT_REPR.fullmatch(plain):
        plain = str(next((data[mime] for mime in ("text/markdown", "text/latex") if mime in data), "")) or _of_html(
            data
        )
    return plain_text(plain) or f"[{', '.join(sorted(data))} shown to the user]"


def _chart_text(data: dict[str, Any]) -> str:
    """What a chart shows, where the output is one that the page draws."""
    if not any(mime.startswith("application/") or mime == "text/html" for mime in data):
        return ""
    with without_working_folder():
        from vibe_jupyter.charts.outputs import output_chart  # noqa: PLC0415 - most outputs are text

    return output_chart(data)


def _of_html(data: dict[str, Any]) -> str:
    """The text of an output that has HTML and no better text; what it is where the HTML shows no text."""
    plain, source = str(data.get("text/plain", "")), str(data.get("text/html", ""))
    if not source:
        return plain
    if text := html_text(source):
        return text
    others = ", ".join(sorted(mime for mime in data if not mime.startswith("text/")))
    note = f"text/html of {len(source):,} characters without text{f', {others}' if others else ''}"
    return f"{plain} [{note}; shown to the user]".lstrip()


def _as_shown(text: str) -> str:
    """A progress bar writes its line again and again: as a terminal, show the last state."""
    lines = plain_text(text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def output_images(outputs: Iterable[Output]) -> tuple[ImagePart, ...]:
    """Figures for a model with eyes; what cannot be made small enough is only named in the text."""
    raster = (_raster_image(_output_data(output)) for output in outputs)
    small = (fit_image(image) for image in raster if image is not None)
    return tuple(itertools.islice((image for image in small if image is not None), MAX_IMAGES))


def _raster_image(data: dict[str, Any]) -> ImagePart | None:
    media_type = _image_type(data)
    if media_type not in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        return None
    return ImagePart(media_type=media_type, data="".join(str(data[media_type]).split()))


def _image_type(data: dict[str, Any]) -> str:
    return next((mime for mime in data if mime.startswith("image/")), "")


def _output_data(output: Output) -> dict[str, Any]:
    return cast(dict[str, Any], output.get("data") or {})


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]


def names_line(result: ExecutionResult, note: str = "") -> str:
    """Names the code bound."""
    lines = [
        f"names {what}: {', '.join(names)}{note}"
        for what, names in (("created", result.names_created), ("changed", result.names_changed))
        if names
    ]
    return "\n".join(lines)


def must_be_no_prompt(what: str, *sources: str) -> None:
    """Let through what is code of the notebook's own.

    Args:
        what: names the code, such as ``cell 3``.
        sources: what would run, and what would lose its output.

    Raises:
        NothingDone: `%vibe` or `%%vibe` is in it: a run cannot start another, and the cell's record would be gone.
    """
    if any(_VIBE.search(source) for source in sources):
        raise NothingDone(
            f"Nothing was done: {what} is a prompt to the agent (%vibe), and a run cannot start another. Do its task "
            "yourself, or ask the user to run it."
        )


def cell_number(cell: Cell | None) -> str:
    """As the user sees the cell: ``[6]`` if it ran, else its place."""
    if cell is None:
        return ""
    return f"[{cell.execution_count}]" if cell.execution_count is not None else f"#{cell.number}"


def headline_words(verb: str, cells: Sequence[Cell | None]) -> tuple[str, str]:
    """Verb and target of a headline: ``Ran cell`` and ``[6]``, or ``Ran 3 cells`` and nothing."""
    if len(cells) == 1:
        return f"{verb} cell" if cells[0] is not None else f"{verb} a cell", cell_number(cells[0])
    return f"{verb} {len(cells)} cells", ""


def cell_title(cell: Cell, short: str) -> str:
    """The line above a cell's source, for the model."""
    facts = [f"#{cell.number}", short, cell.kind]
    if cell.kind == "code":
        if cell.execution_count is not None:
            facts.append(f"[{cell.execution_count}]")
        facts.append(f"{cell.state}: {cell.why}" if cell.why else cell.state)
    return " ".join(facts)


def cell_titles(cells: Iterable[Cell], all_cells: Sequence[Cell]) -> dict[str, str]:
    """Cell id to title, ids as short as they may be."""
    short = short_ids(all_cells)
    return {cell.id: cell_title(cell, short.get(cell.id, cell.id)) for cell in cells}


def with_newlines(text: str) -> str:
    """With the line ends that notebooks have."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cell_diff(old: str, new: str) -> Preview:
    """One change with the lines around it, without file names."""
    before, after = old.split("\n"), new.split("\n")
    context = len(before) if len(before) <= WHOLE_LINES else CONTEXT_LINES
    lines = list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
    return Preview(kind="diff", text="\n".join(lines))


def touched_by_write(value: str, kind: CellKind, source: str, *, run: bool) -> tuple[Resource, ...]:
    """What writing this source into a cell touches; `value` names the cell."""
    touched = [Resource(kind="cell", value=value, access="write")]
    if kind == "markdown":
        touched += [Resource(kind="url", value=address, access="read") for address in loaded_addresses(source)]
    if run:
        touched.append(Resource(kind="cell", value=value, access="execute"))
    return tuple(touched)


def loaded_addresses(source: str) -> tuple[str, ...]:
    """Addresses of remote images, and `RAW_HTML` with the addresses in it, in the order they stand."""
    with without_working_folder():
        from markdown_it import MarkdownIt  # noqa: PLC0415 - a request need not wait for it

    found: list[str] = []
    for token in _flat_tokens(MarkdownIt("commonmark", {"html": True}).parse(source)):
        if token.type == "image":
            found.extend(_REMOTE.findall(str(token.attrs.get("src", ""))))
        elif token.type in ("html_block", "html_inline") and _TAG.search(token.content):
            found.append(RAW_HTML)
            found.extend(_REMOTE.findall(token.content))
    return tuple(dict.fromkeys(found))


def _flat_tokens(tokens: "Iterable[Token]") -> "Iterator[Token]":
    for token in tokens:
        yield token
        yield from _flat_tokens(token.children or ())
