"""The tools `read_notebook`, `read_cell` and `read_output`."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import RESULT_LIMIT, cut_line, head_and_tail
from vibe_jupyter.notebook.access import CellReads, find_cell
from vibe_jupyter.notebook.document import Listing
from vibe_jupyter.notebook.tools.cell_report import (
    cell_titles,
    headline_words,
    output_images,
    output_text,
    sees_no_images,
)
from vibe_jupyter.protocol import Cell, Headline, Level, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext

_LINES: Final = 25
"""Lines of one cell that are listed; the rest is only counted."""
_CHARACTERS: Final = 1_500
"""Characters of one cell that are listed."""
_ROOM_FOR_LISTING_NOTES: Final = 600
"""Characters kept free for the lines around the cells."""

_ROOM_FOR_CELL_NOTES: Final = 400
"""Characters kept free for the lines around the source."""
_OUTPUTS: Final = 3_000
"""Characters of outputs shown with the source; read_output has the rest."""

_PAGE: Final = RESULT_LIMIT - 400
"""Characters of outputs in one result; the rest is for the line above."""


class ReadNotebookArgs(BaseModel):
    """Which cells to list."""

    model_config = ConfigDict(extra="forbid")

    query: str | None = Field(default=None, description="Only cells that contain this text.")
    around: str | None = Field(default=None, description="Only cells near this one.")
    state: Literal["stale", "edited", "failed", "never", "unknown"] | None = Field(
        default=None, description="Only cells in this state; stale ones include the edited."
    )
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=60, ge=1, le=500)
    outputs: Literal["none", "brief"] = "none"


class ReadNotebookTool:
    """Lists cells, each with what it takes to address it."""

    name = "read_notebook"
    description = (
        "List the notebook's cells: #place, id, kind, [count], state, source. stale: what it read has changed since, "
        "and by which cell. Ids may be cut to 4+ characters."
    )
    level: Level = "always"
    arguments = ReadNotebookArgs

    def __init__(self, cells: CellReads) -> None:
        self._cells = cells

    def headline(self, args: ReadNotebookArgs) -> Headline:
        note = f"for {args.query!r}" if args.query else ""
        return Headline(
            verb="Read the notebook", doing="Reading the notebook", asking="Read the notebook", target="", note=note
        )

    def preview(self, args: ReadNotebookArgs) -> Preview:
        return Preview(kind="text", text="Send the sources of the notebook's cells to the model.")

    def touches(self, args: ReadNotebookArgs) -> Sequence[Resource]:
        return (Resource(kind="cell", value="all", access="read"),)

    async def run(self, args: ReadNotebookArgs, context: ToolContext) -> ToolResult:
        listing = await self._cells.listing()
        wanted, offset = _wanted_cells(args, listing)
        blocks: list[str] = []
        room = RESULT_LIMIT - _ROOM_FOR_LISTING_NOTES
        names = cell_titles(wanted, listing.cells)
        for cell in wanted[offset : offset + args.limit]:
            block, whole = _cell_block(cell, names[cell.id], outputs=args.outputs == "brief")
            room -= len(block) + 1
            if room < 0 and blocks:
                break
            blocks.append(block)
            if whole:
                self._cells.remembered.read(cell)
        status = _listing_status(listing, len(wanted), offset, len(blocks))
        return ToolResult.text("\n".join([status, *blocks]), summary=_listing_summary(listing))


def _wanted_cells(args: ReadNotebookArgs, listing: Listing) -> tuple[Sequence[Cell], int]:
    cells = listing.cells
    if args.around is not None:
        place = find_cell(args.around, cells, reads=True).number - 1
        return cells, max(0, place - args.limit // 2) + args.offset
    found = cells
    if args.query is not None:
        words = args.query.lower()
        found = [cell for cell in cells if words in cell.source.lower()]
        if not found:
            raise ToolError(f"None of the {len(cells)} cells contains {args.query!r}.")
    if args.state is not None:
        states = ("stale", "edited") if args.state == "stale" else (args.state,)
        found = [cell for cell in found if cell.kind == "code" and cell.state in states]
    return found, args.offset


def _listing_status(listing: Listing, wanted: int, offset: int, shown: int) -> str:
    facts = [f"{listing.path}: {len(listing.cells)} cells"]
    if wanted != len(listing.cells):
        facts.append(f"{wanted} match")
    if shown != wanted:
        facts.append(f"shown {offset + 1}-{offset + shown}" if shown else f"none from offset {offset}")
    if offset + shown < wanted:
        facts.append(f"go on with offset={offset + shown}")
    return "; ".join(filter(None, (*facts, listing.note)))


def _cell_block(cell: Cell, title: str, *, outputs: bool) -> tuple[str, bool]:
    """A cell as listed, and whether all of its source is."""
    lines = cell.source[:_CHARACTERS].split("\n")
    whole = len(cell.source) <= _CHARACTERS and len(lines) <= _LINES
    out = [title, *lines[:_LINES]]
    if not whole:
        out.append(
            f"[… {len(cell.source):,} characters in {cell.source.count(chr(10)) + 1} lines; read_cell has all …]"
        )
    if outputs:
        out += [
            cut_line(f"-> {one.type} {', '.join(one.mimes)} {one.size:,} B: {one.text.strip()!r}", 300)
            for one in cell.outputs
        ]
    return "\n".join(out), whole


def _listing_summary(listing: Listing) -> str:
    failing = sum(cell.state == "failed" for cell in listing.cells)
    cells = f"{len(listing.cells)} cell{'s' * (len(listing.cells) != 1)}"
    return f"{cells}, {failing} failing" if failing else cells


class ReadCellArgs(BaseModel):
    """Which cell, and which of its lines."""

    model_config = ConfigDict(extra="forbid")

    cell_id: str = Field(min_length=1)
    outputs: bool = False
    offset: int = Field(default=0, ge=0)
    limit: int | None = Field(default=None, ge=1)


class ReadCellTool:
    """The source of a cell with its hash, and its outputs if wanted."""

    name = "read_cell"
    description = "Read one cell whole; offset and limit count lines. cell_id may be an id or #place."
    level: Level = "always"
    arguments = ReadCellArgs

    def __init__(self, cells: CellReads) -> None:
        self._cells = cells

    def headline(self, args: ReadCellArgs) -> Headline:
        cell = self._cells.known(args.cell_id)
        verb, target = headline_words("Read", [cell])
        return Headline(verb=verb, doing=headline_words("Reading", [cell])[0], asking=verb, target=target)

    def preview(self, args: ReadCellArgs) -> Preview:
        return Preview(kind="text", text="Send the cell to the model.")

    def touches(self, args: ReadCellArgs) -> Sequence[Resource]:
        return (Resource(kind="cell", value=args.cell_id, access="read"),)

    async def run(self, args: ReadCellArgs, context: ToolContext) -> ToolResult:
        cell = await self._cells.find(args.cell_id, reads=True)
        listing = await self._cells.listing(fresh=False)
        outputs = await self._outputs_text(cell) if args.outputs else ""
        lines = cell.source.split("\n")
        page = _page_lines(lines, args, RESULT_LIMIT - _ROOM_FOR_CELL_NOTES - len(outputs))
        status = [cell_titles([cell], listing.cells)[cell.id], f"hash {cell.hash}", f"{len(lines)} lines", listing.note]
        if args.offset or len(page) < len(lines):
            status.append(f"shown {args.offset + 1}-{args.offset + len(page)}")
        if args.offset + len(page) < len(lines):
            status.append(f"go on with offset={args.offset + len(page)}")
        self._cells.remembered.read(cell)
        text = "\n".join(filter(None, ["; ".join(filter(None, status)), "\n".join(page), outputs]))
        return ToolResult.text(text, summary=f"{len(lines)} line{'s' * (len(lines) != 1)}")

    async def _outputs_text(self, cell: Cell) -> str:
        text = output_text(await self._cells.outputs(cell)) if cell.outputs else ""
        handle = "" if len(text) <= _OUTPUTS else "\n(read_output pages all of it)"
        return f"outputs:\n{head_and_tail(text, _OUTPUTS) or 'none'}{handle}"


def _page_lines(lines: Sequence[str], args: ReadCellArgs, room: int) -> list[str]:
    page: list[str] = []
    for line in lines[args.offset : None if args.limit is None else args.offset + args.limit]:
        shown = cut_line(line, max(room, 100)) if not page else line
        room -= len(shown) + 1
        if page and room < 0:
            break
        page.append(shown)
    return page


class ReadOutputArgs(BaseModel):
    """Which outputs, and from where on."""

    model_config = ConfigDict(extra="forbid")

    cell_id: str = Field(min_length=1)
    index: int | None = Field(default=None, ge=0)
    offset: int = Field(default=0, ge=0)
    images: bool = True


class ReadOutputTool:
    """Text of outputs, and images for a model that sees them."""

    name = "read_output"
    description = "Read a cell's outputs, or the one at index; offset counts characters."
    level: Level = "always"
    arguments = ReadOutputArgs

    def __init__(self, cells: CellReads, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._cells = cells
        self._sees_images = sees_images

    def headline(self, args: ReadOutputArgs) -> Headline:
        cell = self._cells.known(args.cell_id)
        verb, target = headline_words("Read the output of", [cell])
        return Headline(verb=verb, doing=headline_words("Reading the output of", [cell])[0], asking=verb, target=target)

    def preview(self, args: ReadOutputArgs) -> Preview:
        return Preview(kind="text", text="Send the outputs of the cell to the model.")

    def touches(self, args: ReadOutputArgs) -> Sequence[Resource]:
        return (Resource(kind="cell", value=args.cell_id, access="read"),)

    async def run(self, args: ReadOutputArgs, context: ToolContext) -> ToolResult:
        cell = await self._cells.find(args.cell_id, reads=True)
        listing = await self._cells.listing(fresh=False)
        if args.index is not None and args.index >= len(cell.outputs):
            raise ToolError(f"Cell {args.cell_id} has {len(cell.outputs)} outputs, counted from 0.")
        outputs = await self._cells.outputs(cell, args.index)
        wants_images = self._sees_images() and args.images and not args.offset
        if wants_images:
            first, count = args.index or 0, None if args.index is None else len(cell.outputs)
            outputs = await self._cells.with_pictures(cell, outputs, first=first, count=count)
        text = output_text(outputs)
        page = text[args.offset : args.offset + _PAGE]
        end = args.offset + len(page)
        count = f"{len(outputs)} output{'s' * (len(outputs) != 1)}, {len(text):,} characters"
        status = [cell_titles([cell], listing.cells)[cell.id], count, listing.note]
        if len(page) < len(text):
            status.append(f"shown {args.offset:,}-{end:,}")
        if end < len(text):
            status.append(f"go on with offset={end}")
        seen = output_images(outputs) if wants_images else ()
        report = "\n".join(filter(None, ["; ".join(filter(None, status)), page]))
        return ToolResult(parts=(TextPart(text=report), *seen), summary=count)
