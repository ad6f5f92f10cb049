"""The tool `read_output`: what a cell shows, page by page."""

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.notebook.cell_reads import CellReads
from vibe_jupyter.notebook.tools.cell_words import named, titles
from vibe_jupyter.notebook.tools.report import blind, images, output_text
from vibe_jupyter.protocol import Headline, Level, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.truncate import RESULT_LIMIT

_PAGE: Final = RESULT_LIMIT - 400
"""Characters of outputs in one result; the rest is for the line above."""


class ReadOutputArgs(BaseModel):
    """Which outputs, and from where on."""

    model_config = ConfigDict(extra="forbid")

    cell_id: str = Field(min_length=1)
    index: int | None = Field(default=None, ge=0)
    offset: int = Field(default=0, ge=0)
    images: bool = True


class ReadOutput:
    """Text of outputs, and images for a model that sees them."""

    name = "read_output"
    description = "Read a cell's outputs, or the one at index; offset counts characters."
    level: Level = "always"
    arguments = ReadOutputArgs

    def __init__(self, cells: CellReads, *, sees_images: Callable[[], bool] = blind) -> None:
        self._cells = cells
        self._sees_images = sees_images

    def headline(self, args: ReadOutputArgs) -> Headline:
        cell = self._cells.known(args.cell_id)
        verb, target = named("Read the output of", [cell])
        return Headline(verb=verb, doing=named("Reading the output of", [cell])[0], asking=verb, target=target)

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
        text = output_text(outputs)
        page = text[args.offset : args.offset + _PAGE]
        end = args.offset + len(page)
        count = f"{len(outputs)} output{'s' * (len(outputs) != 1)}, {len(text):,} characters"
        status = [titles([cell], listing.cells)[cell.id], count, listing.note]
        if len(page) < len(text):
            status.append(f"shown {args.offset:,}-{end:,}")
        if end < len(text):
            status.append(f"go on with offset={end}")
        seen = images(outputs) if self._sees_images() and args.images and not args.offset else ()
        report = "\n".join(filter(None, ["; ".join(filter(None, status)), page]))
        return ToolResult(parts=(TextPart(text=report), *seen), summary=count)
