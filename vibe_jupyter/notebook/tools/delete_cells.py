"""The tool `delete_cells`: take cells out of the notebook."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.notebook.cell_access import CellAccess
from vibe_jupyter.notebook.tools.cell_words import named, number
from vibe_jupyter.protocol import DeleteCells, ExpectedCell, Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.tools.base import ToolContext


class DeleteCellsArgs(BaseModel):
    """Which cells."""

    model_config = ConfigDict(extra="forbid")

    ids: list[str] = Field(min_length=1)


class DeleteCellsTool:
    """Deletes cells as the agent read them, in one step that the person can undo."""

    name = "delete_cells"
    description = "Delete cells you have read."
    level: Level = "ask"
    arguments = DeleteCellsArgs

    def __init__(self, access: CellAccess) -> None:
        self._access = access

    def headline(self, args: DeleteCellsArgs) -> Headline:
        cells = [self._access.reads.known(one) for one in args.ids]
        verb, target = named("Deleted", cells)
        return Headline(verb=verb, doing=named("Deleting", cells)[0], asking=named("Delete", cells)[0], target=target)

    def preview(self, args: DeleteCellsArgs) -> Preview:
        cells = [self._access.reads.known(one) for one in args.ids]
        blocks = [
            "\n".join((f"@@ cell {number(cell)} @@", *(f"-{line}" for line in cell.source.split("\n"))))
            for cell in cells
            if cell is not None
        ]
        return Preview(kind="diff", text="\n".join(blocks))

    def touches(self, args: DeleteCellsArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="cell", value=one, access="write") for one in args.ids)

    async def precheck(self, args: DeleteCellsArgs) -> None:
        """Before the person is asked: the cells are as the agent read them."""
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
