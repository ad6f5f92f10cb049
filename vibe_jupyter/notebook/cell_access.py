"""How tools reach cells: by the ids a model writes, against what the agent last read of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.notebook.document import CellRun, EditDone, Listing, StaleCell
from vibe_jupyter.notebook.open_notebook import OpenNotebook
from vibe_jupyter.notebook.outputs import Output
from vibe_jupyter.notebook.remembered import Remembered, find
from vibe_jupyter.protocol import Cell, CellEdit, InsertCell, SetSource

OUTPUT_LIMIT: Final = 2_000_000
"""Bytes of one output that travel when it is asked for."""


class CellAccess:
    """One for all tools of a kernel. On the engine's loop, but for `begin`, `end` and `known`."""

    def __init__(self, notebook: OpenNotebook) -> None:
        self._notebook = notebook
        self._listing: Listing | None = None
        self._put_below: str | None = None
        """The last cell this run put below its prompt; None before the first."""
        self.remembered = Remembered()

    def begin(self) -> None:
        """A run begins in the cell that runs now. Main thread."""
        self._notebook.begin()
        self._listing, self._put_below = None, None

    def end(self) -> None:
        """The run is over, and with it soon its cell. Main thread."""
        self._notebook.end()

    def known(self, reference: str) -> Cell | None:
        """The cell a model means, for showing a call; None where that is not known yet."""
        try:
            return find(reference, self._listing.cells if self._listing else (), reads=True)
        except ToolError:
            return self.remembered.get(reference)

    async def listing(self, *, fresh: bool = True) -> Listing:
        """All cells; where they need not be `fresh`, as last seen in this run.

        Raises:
            ToolError: there is no notebook, or it does not answer.
        """
        if fresh or self._listing is None:
            try:
                self._listing = await (await self._notebook.now()).cells()
            except NotebookError as error:
                raise ToolError(str(error)) from error
        return self._listing

    async def find(self, reference: str, *, reads: bool = False) -> Cell:
        """The cell a model means; for a read as it stands now, for a write as last seen in this run.

        Raises:
            ToolError: none or several; names the nearest.
        """
        if not reads and self._listing is not None:
            try:
                return find(reference, self._listing.cells)
            except ToolError:
                pass  # it may be newer than the listing
        return find(reference, (await self.listing()).cells, reads=reads)

    async def to_change(self, reference: str, *, written: bool = True) -> Cell:
        """The cell a model means to write, or to run.

        Raises:
            ToolError: none or several; not as the agent read it; or the cell that the run itself is in.
        """
        cell = await self.find(reference)
        if cell.id == self._notebook.prompt_cell:
            raise ToolError("Nothing was done: that is the prompt's own cell, which is running now.")
        self.remembered.must_be_current(cell, written=written)
        return cell

    async def check(self, references: Sequence[str], *, written: bool = True) -> None:
        """Look at the cells as they stand now, so that nobody is asked for what cannot be done.

        Raises:
            ToolError: as `to_change`.
        """
        await self.listing()
        for reference in references:
            await self.to_change(reference, written=written)

    async def outputs(self, cell: Cell, index: int | None = None) -> Sequence[Output]:
        """Whole outputs of a cell.

        Raises:
            ToolError: the notebook does not answer.
        """
        try:
            return await (await self._notebook.now()).outputs(cell.id, index=index, limit=OUTPUT_LIMIT)
        except NotebookError as error:
            raise ToolError(str(error)) from error

    async def edit(self, *edits: CellEdit) -> EditDone:
        """Do all or none, in one request.

        Raises:
            ToolError: a cell is not as it was read (with its present source), or the notebook refused.
        """
        try:
            done = await (await self._notebook.now()).edit(edits)
        except StaleCell as error:
            raise await self._stale(error) from error
        except NotebookError as error:
            raise ToolError(str(error)) from error
        before, self._listing = self._listing, None
        if done.outcome == "done":
            for edit in edits:
                self._written(edit, before)
        return done

    async def run(self, cell: Cell, *, seconds: float | None, on_output: Callable[[str], None]) -> CellRun:
        """Run exactly this source of a cell, to its end.

        Raises:
            ToolError: it was changed, is gone, or cannot run now.
        """
        try:
            return await (await self._notebook.now()).run(cell, seconds=seconds, on_output=on_output)
        except StaleCell as error:
            raise await self._stale(error) from error
        except NotebookError as error:
            raise ToolError(str(error)) from error
        finally:
            self._listing = None

    async def below_prompt(self) -> str | None:
        """The cell behind which a new one stands below the prompt, in the order in which they are put there.

        None where the notebook does not show the prompt's cell.
        """
        order = [cell.id for cell in (await self.listing(fresh=False)).cells]
        return next((place for place in (self._put_below, self._notebook.prompt_cell) if place in order), None)

    def put_below(self, cell_id: str) -> None:
        """A cell was put below the prompt."""
        self._put_below = cell_id

    async def owns(self, path: Path) -> bool:
        """Whether this is the file of the notebook."""
        if path.suffix != ".ipynb":
            return False
        try:
            return self._notebook.is_file(path, (await self.listing(fresh=False)).path)
        except ToolError:
            return False

    async def _stale(self, error: StaleCell) -> ToolError:
        cells = (await self.listing()).cells
        cell = next((cell for cell in cells if cell.id == error.cell), None)
        return self.remembered.changed(cell) if cell is not None else ToolError(f"{error} It is gone now.")

    def _written(self, edit: CellEdit, before: Listing | None) -> None:
        """What the agent wrote and what was read back, it has read."""
        match edit:
            case SetSource():
                known = self.remembered.get(edit.cell)
                if known is not None:
                    self.remembered.read(known.model_copy(update={"source": edit.source}))
            case InsertCell():
                place = next((cell.number for cell in before.cells if cell.id == edit.after), 0) if before else 0
                self.remembered.read(Cell(id=edit.id, number=place + 1, kind=edit.kind, source=edit.source))
            case _:
                pass
