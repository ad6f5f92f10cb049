"""Says of each cell that a run writes where it comes from."""

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

MarkInputs = Callable[[Sequence[str], bool], Awaitable[Mapping[str, InputMark]]]
"""Gives, for names that code reads and whether no value may be told, the marks of those that are variables."""


class CellOrigins:
    """Of one run. On the engine's loop."""

    def __init__(self, conversation: str, run: int | None, mark_inputs: MarkInputs) -> None:
        """
        Args:
            conversation: its id; empty for none.
            run: its number in it; None where nothing is kept.
            mark_inputs: looks at variables.
        """
        self._conversation = conversation
        self._run = run
        self._mark_inputs = mark_inputs

    async def signed(
        self, edits: Sequence[CellEdit], cells: Sequence[Cell], prompt: str | None, context: ToolContext
    ) -> list[CellEdit]:
        """The same edits; those that write a source say where it comes from.

        Args:
            edits: of one call.
            cells: as they stand now.
            prompt: id of the cell that the run is in; None where the front end sends none.
            context: of the call, which was allowed.
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
