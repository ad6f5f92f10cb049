"""The tool `read_cell`: one cell whole, page by page where it is long."""

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.notebook.cell_reads import CellReads
from vibe_jupyter.notebook.tools.cell_words import named, titles
from vibe_jupyter.notebook.tools.report import output_text
from vibe_jupyter.protocol import Cell, Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.truncate import RESULT_LIMIT, cut_line, head_and_tail

_ROOM_FOR_NOTES: Final = 400
"""Characters kept free for the lines around the source."""
_OUTPUTS: Final = 3_000
"""Characters of outputs shown with the source; read_output has the rest."""


class ReadCellArgs(BaseModel):
    """Which cell, and which of its lines."""

    model_config = ConfigDict(extra="forbid")

    cell_id: str = Field(min_length=1)
    outputs: bool = False
    offset: int = Field(default=0, ge=0)
    limit: int | None = Field(default=None, ge=1)


class ReadCell:
    """The source of a cell with its hash, and its outputs if wanted."""

    name = "read_cell"
    description = "Read one cell whole; offset and limit count lines. cell_id may be an id or #place."
    level: Level = "always"
    arguments = ReadCellArgs

    def __init__(self, cells: CellReads) -> None:
        self._cells = cells

    def headline(self, args: ReadCellArgs) -> Headline:
        cell = self._cells.known(args.cell_id)
        verb, target = named("Read", [cell])
        return Headline(verb=verb, doing=named("Reading", [cell])[0], asking=verb, target=target)

    def preview(self, args: ReadCellArgs) -> Preview:
        return Preview(kind="text", text="Send the cell to the model.")

    def touches(self, args: ReadCellArgs) -> Sequence[Resource]:
        return (Resource(kind="cell", value=args.cell_id, access="read"),)

    async def run(self, args: ReadCellArgs, context: ToolContext) -> ToolResult:
        cell = await self._cells.find(args.cell_id, reads=True)
        listing = await self._cells.listing(fresh=False)
        outputs = await self._outputs(cell) if args.outputs else ""
        lines = cell.source.split("\n")
        page = _page(lines, args, RESULT_LIMIT - _ROOM_FOR_NOTES - len(outputs))
        status = [titles([cell], listing.cells)[cell.id], f"hash {cell.hash}", f"{len(lines)} lines", listing.note]
        if args.offset or len(page) < len(lines):
            status.append(f"shown {args.offset + 1}-{args.offset + len(page)}")
        if args.offset + len(page) < len(lines):
            status.append(f"go on with offset={args.offset + len(page)}")
        self._cells.remembered.read(cell)
        text = "\n".join(filter(None, ["; ".join(filter(None, status)), "\n".join(page), outputs]))
        return ToolResult.text(text, summary=f"{len(lines)} line{'s' * (len(lines) != 1)}")

    async def _outputs(self, cell: Cell) -> str:
        text = output_text(await self._cells.outputs(cell)) if cell.outputs else ""
        handle = "" if len(text) <= _OUTPUTS else "\n(read_output pages all of it)"
        return f"outputs:\n{head_and_tail(text, _OUTPUTS) or 'none'}{handle}"


def _page(lines: Sequence[str], args: ReadCellArgs, room: int) -> list[str]:
    page: list[str] = []
    for line in lines[args.offset : None if args.limit is None else args.offset + args.limit]:
        shown = cut_line(line, max(room, 100)) if not page else line
        room -= len(shown) + 1
        if page and room < 0:
            break
        page.append(shown)
    return page
