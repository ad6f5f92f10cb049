"""Marks the cells that a run writes with their origin."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from vibe_jupyter.notebook.cell_names import read_names
from vibe_jupyter.protocol import (
    Cell,
    CellEdit,
    CellKind,
    CellOrigin,
    InputMark,
    InsertCell,
    SetSource,
    source_hash,
)
from vibe_jupyter.tools.contract import ToolContext

# Maps those of the names read by code that are variables to their marks; the bool says whether to omit values.
MarkInputs = Callable[[Sequence[str], bool], Awaitable[Mapping[str, InputMark]]]


class CellOrigins:
    """Cell origins of one run. On the engine's loop."""

    def __init__(self, conversation: str, run: int | None, mark_inputs: MarkInputs) -> None:
        """
        Args:
            conversation: Conversation id, or "".
            run: Number of the run in it; None if nothing is recorded.
            mark_inputs: Inspects variables.
        """
        self._conversation = conversation
        self._run = run
        self._mark_inputs = mark_inputs

    async def signed(
        self, edits: Sequence[CellEdit], cells: Sequence[Cell], prompt: str | None, context: ToolContext
    ) -> list[CellEdit]:
        """Add the origin to edits that write a source.

        Args:
            edits: Edits of one call.
            cells: The current cells.
            prompt: Id of the cell that the run is in, or None if the front end doesn't send it.
            context: Context of the call, which has been approved.
        """
        kinds: dict[str, CellKind] = {cell.id: cell.kind for cell in cells}
        signed: list[CellEdit] = []
        for edit in edits:
            if isinstance(edit, SetSource | InsertCell):
                kind = edit.kind if isinstance(edit, InsertCell) else kinds.get(edit.cell, "code")
                origin = await self._origin(edit.source, kind, prompt or "", context)
                signed.append(edit.model_copy(update={"vibe": origin.mark()}) if origin is not None else edit)
            else:
                signed.append(edit)
        return signed

    async def _origin(self, source: str, kind: CellKind, prompt: str, context: ToolContext) -> CellOrigin | None:
        if context.approval is None:
            return None
        names = read_names(source) if kind == "code" else []
        return CellOrigin(
            conversation=self._conversation,
            run=self._run,
            turn=context.turn,
            prompt=prompt,
            model=context.model,
            approved=context.approval,
            source=source_hash(source),
            inputs=dict(await self._mark_inputs(names, context.schema_only)) if names else {},
        )
