"""The tools `move_cells` and `delete_cells`."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.notebook.access import CellAccess, must_not_be_prompt
from vibe_jupyter.notebook.tools.cell_report import cell_number, headline_words
from vibe_jupyter.notebook.tools.edit_cells import END, TOP
from vibe_jupyter.protocol import (
    Cell,
    DeleteCells,
    ExpectedCell,
    Headline,
    Level,
    MoveCells,
    Preview,
    Resource,
    ToolResult,
)
from vibe_jupyter.tools.contract import ToolContext

_FIRST_LINE = 80
"""Characters of a cell's first line shown on the card."""


class MoveCellsArgs(BaseModel):
    """Which cells, and where."""

    model_config = ConfigDict(extra="forbid")

    ids: list[str] = Field(min_length=1)
    after: str = Field(min_length=1, description="A cell's id, top, or end.")


class MoveCellsTool:
    """Moves cells, in the given order, with their outputs and ids."""

    name = "move_cells"
    description = "Move cells below another one, in this order."
    level: Level = "ask"
    arguments = MoveCellsArgs

    def __init__(self, access: CellAccess) -> None:
        self._access = access

    def headline(self, args: MoveCellsArgs) -> Headline:
        cells = [self._access.reads.known(one) for one in args.ids]
        verb, target = headline_words("Moved", cells)
        return Headline(
            verb=verb,
            doing=headline_words("Moving", cells)[0],
            asking=headline_words("Move", cells)[0],
            target=target,
            note=self._target_text(args.after),
        )

    def preview(self, args: MoveCellsArgs) -> Preview:
        cells = [self._access.reads.known(one) for one in args.ids]
        lines = [
            f"{cell_number(cell)}  {cell.source.strip().split(chr(10))[0][:_FIRST_LINE]}" for cell in cells if cell
        ]
        return Preview(kind="text", text="\n".join((f"Move {self._target_text(args.after)}:", *lines)))

    def touches(self, args: MoveCellsArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="write") for one in args.ids)

    async def precheck(self, args: MoveCellsArgs) -> None:
        """Before the user is asked: the cells and the place are there."""
        await self._access.reads.listing()
        await self._cells_and_place(args)

    async def run(self, args: MoveCellsArgs, context: ToolContext) -> ToolResult:
        cells, after = await self._cells_and_place(args)
        done = await self._access.edit(MoveCells(cells=tuple(cell.id for cell in cells), after=after))
        if done.outcome != "done":
            return ToolResult.text("queued: the cells did not move yet; read the notebook before you go on.")
        moved = ", ".join(cell.id for cell in cells)
        return ToolResult.text(f"moved {moved} {f'behind {after}' if after else 'to the top'}", summary="undo with Z")

    async def _cells_and_place(self, args: MoveCellsArgs) -> tuple[list[Cell], str | None]:
        cells = list({cell.id: cell for cell in [await self._access.reads.find(one) for one in args.ids]}.values())
        for cell in cells:
            must_not_be_prompt(cell)
        self._access.must_rest(*cells)
        moved = {cell.id for cell in cells}
        if args.after == TOP:
            return cells, None
        if args.after == END:
            others = [cell.id for cell in (await self._access.reads.listing(fresh=False)).cells if cell.id not in moved]
            return cells, others[-1] if others else None
        after = (await self._access.reads.find(args.after)).id
        if after in moved:
            raise NothingDone(f"Nothing was done: {args.after} is itself one of the cells to move.")
        return cells, after

    def _target_text(self, after: str) -> str:
        if after in (TOP, END):
            return "to the top" if after == TOP else "to the end"
        return f"below {cell_number(self._access.reads.known(after)) or 'another cell'}"


class DeleteCellsArgs(BaseModel):
    """Which cells."""

    model_config = ConfigDict(extra="forbid")

    ids: list[str] = Field(min_length=1)


class DeleteCellsTool:
    """Deletes cells as the agent read them, in one step that the user can undo."""

    name = "delete_cells"
    description = "Delete cells you have read."
    level: Level = "ask"
    arguments = DeleteCellsArgs

    def __init__(self, access: CellAccess) -> None:
        self._access = access

    def headline(self, args: DeleteCellsArgs) -> Headline:
        cells = [self._access.reads.known(one) for one in args.ids]
        verb, target = headline_words("Deleted", cells)
        return Headline(
            verb=verb,
            doing=headline_words("Deleting", cells)[0],
            asking=headline_words("Delete", cells)[0],
            target=target,
        )

    def preview(self, args: DeleteCellsArgs) -> Preview:
        cells = [self._access.reads.known(one) for one in args.ids]
        blocks = [
            "\n".join((f"@@ cell {cell_number(cell)} @@", *(f"-{line}" for line in cell.source.split("\n"))))
            for cell in cells
            if cell is not None
        ]
        return Preview(kind="diff", text="\n".join(blocks))

    def touches(self, args: DeleteCellsArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="write") for one in args.ids)

    async def precheck(self, args: DeleteCellsArgs) -> None:
        """Before the user is asked: the cells are as the agent read them."""
        await self._access.check(args.ids)
        self._access.must_rest(*[await self._access.reads.find(one) for one in args.ids])

    async def run(self, args: DeleteCellsArgs, context: ToolContext) -> ToolResult:
        cells = {cell.id: cell for cell in [await self._access.to_change(one) for one in args.ids]}
        self._access.must_rest(*cells.values())
        wanted = tuple(ExpectedCell(id=cell.id, expected=cell.hash) for cell in cells.values())
        done = await self._access.edit(DeleteCells(cells=wanted))
        if done.outcome != "done":
            return ToolResult.text("queued: the cells are still there; read the notebook before you go on.")
        for cell_id in cells:
            self._access.reads.remembered.forget(cell_id)
        return ToolResult.text(f"deleted {', '.join(cells)}", summary="undo with Z")
