"""The tool `read_notebook`: the cells of the person's notebook, as it stands on their screen."""

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.notebook.cell_reads import CellReads
from vibe_jupyter.notebook.document import Listing
from vibe_jupyter.notebook.remembered import find
from vibe_jupyter.notebook.tools.cell_words import titles
from vibe_jupyter.protocol import Cell, Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.truncate import RESULT_LIMIT, cut_line

_LINES: Final = 25
"""Lines of one cell that are listed; the rest is only counted."""
_CHARACTERS: Final = 1_500
"""Characters of one cell that are listed."""
_ROOM_FOR_NOTES: Final = 600
"""Characters kept free for the lines around the cells."""


class ReadNotebookArgs(BaseModel):
    """Which cells to list."""

    model_config = ConfigDict(extra="forbid")

    query: str | None = Field(default=None, description="Only cells that contain this text.")
    around: str | None = Field(default=None, description="Only cells near this one.")
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=60, ge=1, le=500)
    outputs: Literal["none", "brief"] = "none"


class ReadNotebook:
    """Lists cells, each with what it takes to address it."""

    name = "read_notebook"
    description = (
        "List the notebook's cells: #place, id, kind, [count], state, source. Ids may be cut to 4+ characters."
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
        wanted, offset = _wanted(args, listing)
        blocks: list[str] = []
        room = RESULT_LIMIT - _ROOM_FOR_NOTES
        names = titles(wanted, listing.cells)
        for cell in wanted[offset : offset + args.limit]:
            block, whole = _block(cell, names[cell.id], outputs=args.outputs == "brief")
            room -= len(block) + 1
            if room < 0 and blocks:
                break
            blocks.append(block)
            if whole:
                self._cells.remembered.read(cell)
        status = _status(listing, len(wanted), offset, len(blocks))
        return ToolResult.text("\n".join([status, *blocks]), summary=_summary(listing))


def _wanted(args: ReadNotebookArgs, listing: Listing) -> tuple[Sequence[Cell], int]:
    cells = listing.cells
    if args.around is not None:
        place = find(args.around, cells, reads=True).number - 1
        return cells, max(0, place - args.limit // 2) + args.offset
    if args.query is not None:
        found = [cell for cell in cells if args.query.lower() in cell.source.lower()]
        if not found:
            raise ToolError(f"None of the {len(cells)} cells contains {args.query!r}.")
        return found, args.offset
    return cells, args.offset


def _status(listing: Listing, wanted: int, offset: int, shown: int) -> str:
    facts = [f"{listing.path}: {len(listing.cells)} cells"]
    if wanted != len(listing.cells):
        facts.append(f"{wanted} match")
    if shown != wanted:
        facts.append(f"shown {offset + 1}-{offset + shown}" if shown else f"none from offset {offset}")
    if offset + shown < wanted:
        facts.append(f"go on with offset={offset + shown}")
    return "; ".join(filter(None, (*facts, listing.note)))


def _block(cell: Cell, title: str, *, outputs: bool) -> tuple[str, bool]:
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


def _summary(listing: Listing) -> str:
    failing = sum(cell.state == "error" for cell in listing.cells)
    cells = f"{len(listing.cells)} cell{'s' * (len(listing.cells) != 1)}"
    return f"{cells}, {failing} failing" if failing else cells
