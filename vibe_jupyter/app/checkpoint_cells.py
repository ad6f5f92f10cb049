"""Notebook cells as the `checkpoint` tool reads and restores them."""

from collections.abc import Sequence

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.protocol import Cell, CellEdit


class NotebookCheckpointCells:
    """Notebook backend of the `checkpoint` tool. Engine loop only."""

    def __init__(self, access: CellAccess) -> None:
        self._access = access

    async def listing(self) -> Sequence[Cell]:
        return (await self._access.reads.listing()).cells

    async def must_be_changeable(self) -> None:
        await self._access.reads.must_be_changeable()

    async def put_back(self, edits: Sequence[CellEdit]) -> None:
        """Apply edits that restore cells. Recorded like any other change of the run, but not as read by the model."""
        recorder = self._access.recorder
        entry = await recorder.before_edits(edits, await self.listing()) if recorder is not None else 0
        made = False
        try:
            made = (await self._access.edit(*edits, undoes=True)).outcome == "done"
        finally:
            if recorder is not None and not made:
                await recorder.not_made(entry)
        if not made:
            raise NothingDone("Nothing was restored: no page shows the notebook. The user can open it in JupyterLab.")
