"""The tool `read_notebook`: cells in outline, by search, or in full with their outputs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.files.truncation import RESULT_LIMIT, cut_line, head_and_tail
from vibe_jupyter.notebook.access import CellReads
from vibe_jupyter.notebook.document import Listing
from vibe_jupyter.notebook.outline import WHOLE_OUTLINE, heading_line, outline_line, state_lines
from vibe_jupyter.notebook.source_search import matching_lines
from vibe_jupyter.notebook.tools.cell_report import (
    ImageLabels,
    cell_number,
    cell_title,
    output_text,
    sees_no_images,
)
from vibe_jupyter.notebook.tools.schema_results import schema_cell, schema_listing
from vibe_jupyter.protocol import Cell, Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import Tool, ToolContext

_LINES: Final = 25  # lines of each listed cell; the rest is only counted
_CHARACTERS: Final = 1_500  # characters of each listed cell, and of its outputs
_AROUND: Final = 2  # lines of context around a match
_ROOM: Final = RESULT_LIMIT - 600  # characters of cells in one result; the rest is for the lines around them
_WIDTH: Final = 60  # characters per line of the outline; with less than `_NARROW`, cells are omitted from it
_NARROW: Final = 20
_HEADINGS: Final = 80  # headings in the outline
_BRIEF: Final = 300  # characters of one abridged output, and of a line around a match

Outputs = Literal["none", "brief", "full", "images"]


class ReadNotebookArgs(BaseModel):
    """Arguments of `read_notebook`: the cells, and how much of them to return."""

    model_config = ConfigDict(extra="forbid")

    cells: list[str] | None = Field(default=None, description="As for run_cells.")
    query: str | None = Field(default=None, min_length=1, max_length=1_000, description="Regular expression.")
    state: Literal["failed", "never", "stale", "edited", "unknown"] | None = None
    outputs: Outputs = "none"
    offset: int = Field(default=0, ge=0, description="As the last answer says.")


class _Page(NamedTuple):
    """Cells of one result."""

    blocks: Sequence[str]
    shown: Sequence[Cell]
    more: str = ""  # how to continue, or "" if nothing is left


class ReadNotebookTool(Tool[ReadNotebookArgs]):
    """Returns cells with their addresses."""

    name = "read_notebook"
    description = (
        "Read cells: all (above 60 an outline), or some; with a query the lines that match. A cell is named by #place, "
        "id, [count] or last. stale: what it read has changed since."
    )
    level = "always"
    arguments = ReadNotebookArgs
    without_values = "always"

    def __init__(self, cells: CellReads, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._cells = cells
        self._sees_images = sees_images

    def headline(self, args: ReadNotebookArgs) -> Headline:
        what = "the notebook"
        if args.cells is not None:
            known = self._cells.known_all(args.cells)
            what = f"cell {cell_number(known[0])}" if len(known) == 1 else f"{len(known)} cells" if known else "cells"
        note = f"for {args.query!r}" if args.query else ""
        return Headline(verb=f"Read {what}", doing=f"Reading {what}", asking=f"Read {what}", target="", note=note)

    def preview(self, args: ReadNotebookArgs) -> Preview:
        what = "the sources" if args.outputs == "none" else "the sources and outputs"
        return Preview(kind="text", text=f"Send {what} of the notebook's cells to the model.")

    def touches(self, args: ReadNotebookArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="read") for one in args.cells or ("all",))

    async def run(self, args: ReadNotebookArgs, context: ToolContext) -> ToolResult:
        listing = await self._cells.listing()
        wanted = await self._wanted_cells(args, listing)
        if context.schema_only:
            listing, wanted = schema_listing(listing), [*map(schema_cell, wanted)]
            if args.outputs != "none":
                args = args.model_copy(update={"outputs": "brief"})
        labels = ImageLabels(self._cells) if args.outputs == "images" and self._sees_images() else None
        if args.query is not None:
            lines = await matching_lines(args.query, [cell.source for cell in wanted])
            wanted = [cell for cell, found in zip(wanted, lines, strict=True) if found]
            page = _page(wanted, args.offset, _query_blocks(wanted, filter(None, lines), self._title))
        elif args.cells is None and args.state is None and not args.offset and len(wanted) > WHOLE_OUTLINE:
            return self._outline(listing)
        elif args.cells is not None and len(wanted) == 1:
            page = await self._whole_cell(wanted[0], args, labels, context.redact)
        else:
            page = await self._several_cells(wanted, args, labels)
        self._cells.remembered.show(page.shown)
        status = _status(listing, len(wanted), page)
        text = TextPart(text="\n".join([status, *page.blocks]))
        return ToolResult(parts=(text, *(labels.images if labels else ())), summary=_summary(listing, page))

    async def _wanted_cells(self, args: ReadNotebookArgs, listing: Listing) -> Sequence[Cell]:
        cells: Sequence[Cell] = listing.cells
        if args.query is not None:
            cells = [cell for cell in cells if cell.id != self._cells.prompt_cell]
        if args.cells is not None:
            selected = await self._cells.select(args.cells)
            cells = list({cell.id: cell for one in selected for cell in one.cells}.values())
        if args.state is not None:
            states = ("stale", "edited") if args.state == "stale" else (args.state,)
            cells = [cell for cell in cells if cell.kind == "code" and cell.state in states]
        return cells

    def _title(self, cell: Cell) -> str:
        return cell_title(cell, self._cells.address(cell))

    def _outline(self, listing: Listing) -> ToolResult:
        """Return headings, states, and a line per cell if all of them fit."""
        cells, short = listing.cells, self._cells.short
        lines = [heading_line(cells, _HEADINGS), *state_lines(cells, short)]
        room = _ROOM - sum(map(len, lines))
        bare = sum(len(outline_line(cell, short, 1)) + 1 for cell in cells)
        width = min(_WIDTH, (room - bare) // (2 * len(cells)))
        if width >= _NARROW:
            lines += [outline_line(cell, short, width) for cell in cells]
        self._cells.remembered.show(cells)
        status = _status(listing, len(cells), _Page((), (), "in outline: name cells, a query or a state for sources"))
        text = head_and_tail("\n".join([status, *lines]))
        return ToolResult.text(text, summary=_summary(listing, _Page((), cells)))

    async def _several_cells(self, wanted: Sequence[Cell], args: ReadNotebookArgs, labels: ImageLabels | None) -> _Page:
        share = _ROOM // max(1, len(wanted)) // (1 if args.outputs in ("none", "brief") else 2)
        limit = max(_CHARACTERS, share)
        lines = None if args.cells is not None else _LINES
        blocks: list[str] = []
        room = _ROOM
        for cell in wanted[args.offset :]:
            block, whole = self._source_block(cell, limit, lines)
            if shows := await self._output_block(cell, args.outputs, labels):
                block = f"{block}\n{head_and_tail(shows, limit)}"
            room -= len(block) + 1
            if room < 0 and blocks:
                break
            blocks.append(block)
            if whole:
                self._cells.remembered.read(cell)
        end = args.offset + len(blocks)
        more = f"go on with offset={end}" if end < len(wanted) else ""
        return _Page(blocks, wanted[args.offset : end], more)

    def _source_block(self, cell: Cell, limit: int, lines: int | None) -> tuple[str, bool]:
        """Return a cell's listing and whether it contains the whole source."""
        part = cell.source[:limit].split("\n")[:lines]
        whole = "\n".join(part) == cell.source
        out = [self._title(cell), *part]
        if not whole:
            size = f"{len(cell.source):,} characters in {cell.source.count(chr(10)) + 1} lines"
            out.append(f'[… {size}; read_notebook(cells=["{self._cells.short_id(cell)}"]) has all …]')
        return "\n".join(out), whole

    async def _whole_cell(
        self, cell: Cell, args: ReadNotebookArgs, labels: ImageLabels | None, redact: Callable[[str], str]
    ) -> _Page:
        source = redact(cell.source)
        shows = await self._output_block(cell, args.outputs, labels)
        text = f"{source}\n{redact(shows)}" if args.outputs != "none" else source
        part = text[args.offset : args.offset + _ROOM]
        if args.offset + len(part) < len(text) and (border := part.rfind("\n") + 1) > _ROOM // 2:
            part = part[:border]
        end = args.offset + len(part)
        if end >= len(source):
            self._cells.remembered.read(cell)
        title = f"{self._title(cell)}; {len(cell.source.split(chr(10)))} lines"
        if end < len(text) or args.offset:
            title += f"; characters {args.offset:,}-{end:,} of {len(text):,}"
        return _Page((title, part.rstrip("\n")), (cell,), f"go on with offset={end}" if end < len(text) else "")

    async def _output_block(self, cell: Cell, outputs: Outputs, labels: ImageLabels | None) -> str:
        if outputs == "none" or (not cell.outputs and outputs == "brief"):
            return ""
        if outputs == "brief":
            return "\n".join(
                cut_line(f"-> {one.type} {', '.join(one.mimes)} {one.size:,} B: {one.text.strip()!r}", _BRIEF)
                for one in cell.outputs
            )
        if cell.kind != "code":
            return ""
        shown = await self._cells.outputs(cell) if cell.outputs else ()
        if labels is not None:
            shown = await self._cells.with_pictures(cell, shown)
        return f"outputs:\n{output_text(shown, labels and labels.of(cell)) or 'none'}"


def _query_blocks(cells: Sequence[Cell], lines: Iterable[Sequence[int]], title: Callable[[Cell], str]) -> Iterator[str]:
    """Yield each cell's matching lines, marked ``:``, with context lines, marked ``-``."""
    for cell, found in zip(cells, lines, strict=True):
        source = cell.source.split("\n")
        near = sorted({n for one in found for n in range(one - _AROUND, one + _AROUND + 1) if 0 <= n < len(source)})
        out = [title(cell)]
        for place, number in enumerate(near):
            if place and near[place - 1] != number - 1:
                out.append("…")
            out.append(f"{number + 1}{':' if number in found else '-'} {cut_line(source[number], _BRIEF)}")
        yield "\n".join(out)


def _page(wanted: Sequence[Cell], offset: int, blocks: Iterable[str]) -> _Page:
    """Return as many blocks, one per cell, as fit."""
    shown: list[str] = []
    room = _ROOM
    for block in list(blocks)[offset:]:
        cut = head_and_tail(block, _ROOM)
        room -= len(cut) + 1
        if room < 0 and shown:
            break
        shown.append(cut)
    end = offset + len(shown)
    more = f"go on with offset={end}" if end < len(wanted) else ""
    return _Page(shown, wanted[offset:end], more)


def _status(listing: Listing, wanted: int, page: _Page) -> str:
    facts = [f"{listing.path}: {len(listing.cells)} cells"]
    if wanted != len(listing.cells):
        facts.append(f"{wanted} match" if wanted else "none match")
    return "; ".join(filter(None, (*facts, page.more, listing.note)))


def _summary(listing: Listing, page: _Page) -> str:
    failing = sum(cell.state == "failed" for cell in page.shown)
    cells = f"{len(page.shown)} cell{'s' * (len(page.shown) != 1)}"
    return f"{cells}, {failing} failing" if failing else cells
