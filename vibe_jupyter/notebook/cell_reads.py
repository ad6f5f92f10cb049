"""What tools see of the cells: by the ids a model writes, with a memory of what the agent read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.notebook.document import Listing
from vibe_jupyter.notebook.open_notebook import OpenNotebook
from vibe_jupyter.notebook.outputs import Output
from vibe_jupyter.notebook.remembered import Remembered, find
from vibe_jupyter.protocol import Cell

OUTPUT_LIMIT: Final = 2_000_000
"""Bytes of one output that travel when it is asked for."""


class CellReads:
    """One for all tools of a kernel. On the engine's loop, but for `begin` and `known`."""

    def __init__(self, notebook: OpenNotebook) -> None:
        self._notebook = notebook
        self.remembered = Remembered()
        self.last: Listing | None = None
        """All cells as last seen in this run; None before that, and after a change."""

    def begin(self) -> None:
        """A run begins. Main thread."""
        self.last = None

    def known(self, reference: str) -> Cell | None:
        """The cell a model means, for showing a call; None where that is not known yet."""
        try:
            return find(reference, self.last.cells if self.last else (), reads=True)
        except ToolError:
            return self.remembered.get(reference)

    async def listing(self, *, fresh: bool = True) -> Listing:
        """All cells; where they need not be `fresh`, as last seen in this run.

        Raises:
            ToolError: there is no notebook, or it does not answer.
        """
        if fresh or self.last is None:
            try:
                self.last = await (await self._notebook.now()).cells()
            except NotebookError as error:
                raise ToolError(str(error)) from error
        return self.last

    async def find(self, reference: str, *, reads: bool = False) -> Cell:
        """The cell a model means; for a read as it stands now, for a write as last seen in this run.

        Raises:
            ToolError: none or several; names the nearest.
        """
        if not reads and self.last is not None:
            try:
                return find(reference, self.last.cells)
            except ToolError:
                pass  # it may be newer than the listing
        return find(reference, (await self.listing()).cells, reads=reads)

    async def outputs(self, cell: Cell, index: int | None = None) -> Sequence[Output]:
        """Whole outputs of a cell.

        Raises:
            ToolError: the notebook does not answer.
        """
        try:
            return await (await self._notebook.now()).outputs(cell.id, index=index, limit=OUTPUT_LIMIT)
        except NotebookError as error:
            raise ToolError(str(error)) from error

    async def owns(self, path: Path) -> bool:
        """Whether this is the file of the notebook."""
        if path.suffix != ".ipynb":
            return False
        try:
            return self._notebook.is_file(path, (await self.listing(fresh=False)).path)
        except ToolError:
            return False
