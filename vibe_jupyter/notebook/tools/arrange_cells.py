"""The tools `move_cells` and `delete_cells`."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.addresses import END, TOP
from vibe_jupyter.notebook.tools.cell_report import cell_number, headline_words
from vibe_jupyter.protocol import (
    WHOLE,
    Cell,
    DeleteCells,
    ExpectedCell,
    Headline,
    MoveCells,
    Preview,
    Resource,
    ToolResult,
)
from vibe_jupyter.tools.contract import Tool, ToolContext

_FIRST_LINE = 80  # characters of a cell's first line on the card
_NAMED = 100  # cells named in a result


class MoveCellsArgs(BaseModel):
    """Arguments of `move_cells`: the cells, and where to move them."""

    model_config = ConfigDict(extra="forbid")

    cells: list[str] = Field(min_length=1)
    after: str | None = Field(default=None, min_length=1, description="A cell, top or end.")
    before: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_place(self) -> "MoveCellsArgs":
        if (self.after is None) == (self.before is None):
            raise ValueError("give either after or before")
        return self


class MoveCellsTool(Tool[MoveCellsArgs]):
    """Moves cells, in the given order, with their outputs and ids."""

    name = "move_cells"
    description = "Move cells behind or before another one, in this order."
    arguments = MoveCellsArgs
    without_values = "always"

    def __init__(self, access: CellAccess) -> None:
        self._access = access

    def headline(self, args: MoveCellsArgs) -> Headline:
        cells = self._access.reads.known_all(args.cells)
        verb, target = headline_words("Moved", cells)
        return Headline(
            verb=verb,
            doing=headline_words("Moving", cells)[0],
            asking=headline_words("Move", cells)[0],
            target=target,
            note=self._target_text(args),
        )

    def preview(self, args: MoveCellsArgs) -> Preview:
        lines = [
            f"{cell_number(cell)}  {cell.source.strip().split(chr(10))[0][:_FIRST_LINE]}"
            for cell in self._access.reads.known_all(args.cells)
        ]
        return Preview(kind="text", text="\n".join((f"Move {self._target_text(args)}:", *lines)), edits=WHOLE)

    def touches(self, args: MoveCellsArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="write") for one in args.cells)

    async def precheck(self, args: MoveCellsArgs) -> None:
        """Check, before asking the user, that the cells and the position exist and that a page can move them."""
        await self._access.reads.must_be_changeable()
        await self._cells_and_place(args)

    async def run(self, args: MoveCellsArgs, context: ToolContext) -> ToolResult:
        cells, after = await self._cells_and_place(args)
        done = await self._access.edit(MoveCells(cells=tuple(cell.id for cell in cells), after=after))
        if done.outcome != "done":
            return ToolResult.text("queued: the cells did not move yet; read the notebook before you go on.")
        wanted = {cell.id for cell in cells}
        now = [cell for cell in (await self._access.reads.listing()).cells if cell.id in wanted]
        self._access.reads.remembered.show(now)
        return ToolResult.text(f"moved, now {_addresses(self._access, now)}", summary="undo with Z")

    async def _cells_and_place(self, args: MoveCellsArgs) -> tuple[list[Cell], str | None]:
        cells = await _chosen_cells(self._access, args.cells, written=False)
        moved = {cell.id for cell in cells}
        order = [cell.id for cell in (await self._access.reads.listing(fresh=False)).cells]
        if args.after == END:
            others = [one for one in order if one not in moved]
            return cells, others[-1] if others else None
        named = await self._access.anchor(args.after or args.before or TOP)
        if named in moved:
            raise NothingDone(f"Nothing was done: {args.after or args.before} is itself one of the cells to move.")
        if args.before is None or named is None:
            return cells, named
        above = [one for one in order[: order.index(named)] if one not in moved]
        return cells, above[-1] if above else None

    def _target_text(self, args: MoveCellsArgs) -> str:
        if args.after in (TOP, END):
            return "to the top" if args.after == TOP else "to the end"
        where = "below" if args.before is None else "above"
        return f"{where} {cell_number(self._access.reads.known(args.after or args.before or '')) or 'another cell'}"


class DeleteCellsArgs(BaseModel):
    """Arguments of `delete_cells`: the cells."""

    model_config = ConfigDict(extra="forbid")

    cells: list[str] = Field(min_length=1)


class DeleteCellsTool(Tool[DeleteCellsArgs]):
    """Deletes cells that are still as the agent read them, in one step that the user can undo."""

    name = "delete_cells"
    description = "Delete cells you have read."
    arguments = DeleteCellsArgs
    without_values = "always"

    def __init__(self, access: CellAccess) -> None:
        self._access = access

    def headline(self, args: DeleteCellsArgs) -> Headline:
        cells = self._access.reads.known_all(args.cells)
        verb, target = headline_words("Deleted", cells)
        return Headline(
            verb=verb,
            doing=headline_words("Deleting", cells)[0],
            asking=headline_words("Delete", cells)[0],
            target=target,
        )

    def preview(self, args: DeleteCellsArgs) -> Preview:
        blocks = [
            "\n".join((f"@@ cell {cell_number(cell)} @@", *(f"-{line}" for line in cell.source.split("\n"))))
            for cell in self._access.reads.known_all(args.cells)
        ]
        return Preview(kind="diff", text="\n".join(blocks), edits=WHOLE)

    def touches(self, args: DeleteCellsArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="write") for one in args.cells)

    async def precheck(self, args: DeleteCellsArgs) -> None:
        """Check, before asking the user, that the cells are as the agent read them and that a page can delete them."""
        await self._access.reads.must_be_changeable()
        await _chosen_cells(self._access, args.cells, written=True)

    async def run(self, args: DeleteCellsArgs, context: ToolContext) -> ToolResult:
        cells = await _chosen_cells(self._access, args.cells, written=True)
        wanted = tuple(ExpectedCell(id=cell.id, expected=cell.hash) for cell in cells)
        done = await self._access.edit(DeleteCells(cells=wanted))
        if done.outcome != "done":
            return ToolResult.text("queued: the cells are still there; read the notebook before you go on.")
        for cell in cells:
            self._access.reads.remembered.forget(cell.id)
        return ToolResult.text(f"deleted {_addresses(self._access, cells)}", summary="undo with Z")


async def _chosen_cells(access: CellAccess, references: Sequence[str], *, written: bool) -> list[Cell]:
    """Return the cells, without duplicates, checking that they may be changed and aren't queued."""
    chosen: dict[str, Cell] = {}
    for selected in await access.reads.select(references):
        await access.let_through(selected, needed="whole" if written else "nothing")
        chosen |= {cell.id: cell for cell in selected.cells}
    if not chosen:
        raise NothingDone(f"Nothing was done: {', '.join(references)} means no cell.")
    access.must_rest(*chosen.values())
    return list(chosen.values())


def _addresses(access: CellAccess, cells: Sequence[Cell]) -> str:
    more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
    return ", ".join(map(access.reads.address, cells[:_NAMED])) + more
