"""How tools read, change and run cells: only as the agent last read them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import NotebookError, NothingDone, ToolError
from vibe_jupyter.kernel.execution import OnAsking, unheard
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.cell_magics import is_prompt
from vibe_jupyter.notebook.chart_pictures import with_page_pictures
from vibe_jupyter.notebook.document import CellRun, EditDone, Listing, StaleCell
from vibe_jupyter.notebook.open_notebook import OpenNotebook
from vibe_jupyter.notebook.staleness import CellStatus, with_standings
from vibe_jupyter.protocol import Cell, CellEdit, DeleteCells, InsertCell, MoveCells, SetSource

OUTPUT_LIMIT: Final = 2_000_000
"""Bytes of one output that travel when it is asked for."""

MIN_PREFIX = 4
"""Characters of an id that may stand for it, if only one cell's id begins so."""
_NEAREST = 5
"""Cells named where an id fits none."""
_FIRST_LINE = 60
"""Characters of a cell's first line that tell which one it is."""


Standings = Callable[[Sequence[Cell]], Mapping[str, CellStatus]]
"""Cell id to how it stands, of all cells in their order; from any thread."""


def no_standings(_cells: Sequence[Cell]) -> Mapping[str, CellStatus]:
    """Where nobody knows what ran."""
    return {}


class CellAccess:
    """One for all tools of a kernel. On the engine's loop, but for `begin` and `end`."""

    def __init__(self, notebook: OpenNotebook, standings: Standings = no_standings) -> None:
        self._notebook = notebook
        self.reads = CellReads(notebook, standings)
        self._put_below: str | None = None
        """The last cell this run put below its prompt; None before the first."""
        self.changed: list[str] = []
        """Ids of the cells this run changed, in the order of the first change."""

    def begin(self) -> None:
        """A run begins in the cell that runs now. Main thread."""
        self.resume()
        self._put_below = None
        self.changed = []

    def resume(self) -> None:
        """A run goes on that gave the main thread back meanwhile. Main thread."""
        self._notebook.begin()
        self.reads.begin()

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in; None where the front end sends none."""
        return self._notebook.prompt_cell

    def end(self) -> None:
        """The run is over, and with it soon its cell. Main thread."""
        self._notebook.end()

    async def to_change(self, reference: str, *, written: bool = True) -> Cell:
        """The cell a model means to write, or to run.

        Raises:
            ToolError: none or several; not as the agent read it; a prompt, or the cell that the run itself is in.
        """
        cell = await self.reads.find(reference)
        if cell.id == self._notebook.prompt_cell:
            raise NothingDone("Nothing was done: that is the prompt's own cell, which is running now.")
        must_not_be_prompt(cell)
        self.reads.remembered.must_be_current(cell, written=written)
        return cell

    async def check(self, references: Sequence[str], *, written: bool = True) -> None:
        """Look at the cells as they stand now, so that nobody is asked for what cannot be done.

        Raises:
            ToolError: as `to_change`.
        """
        await self.reads.listing()
        for reference in references:
            await self.to_change(reference, written=written)

    def waits(self, cell: Cell) -> bool:
        """Whether the user started this cell, which then runs when the run is over and not before."""
        return self._notebook.waits(cell)

    def must_rest(self, *cells: Cell) -> None:
        """Let through what nobody started.

        Raises:
            ToolError: the user started one of these cells.
        """
        for cell in cells:
            if self.waits(cell):
                raise NothingDone(
                    f"Nothing was done: the user started cell {cell.number} ({cell.id}) themselves. It runs when "
                    "this run is over, and not before. Go on without it, or end your turn to let it run."
                )

    async def edit(self, *edits: CellEdit) -> EditDone:
        """Do all or none, in one request.

        Raises:
            ToolError: a cell is not as it was read (with its present source), or the notebook refused.
        """
        try:
            done = await (await self._notebook.now()).edit(edits)
        except StaleCell as error:
            raise await self._stale_error(error) from error
        except NotebookError as error:
            raise ToolError(str(error)) from error
        before, self.reads.last = self.reads.last, None
        if done.outcome == "done":
            for edit in edits:
                self._note_written(edit, before)
                self.changed += [cell for cell in _edited_cells(edit) if cell not in self.changed]
        return done

    async def run(
        self,
        cell: Cell,
        *,
        seconds: float | None,
        on_output: Callable[[str], None],
        on_asking: OnAsking = unheard,
    ) -> CellRun:
        """Run exactly this source of a cell, to its end.

        Raises:
            ToolError: it was changed, is gone, or cannot run now.
        """
        try:
            return await (await self._notebook.now()).run(
                cell, seconds=seconds, on_output=on_output, on_asking=on_asking
            )
        except StaleCell as error:
            raise await self._stale_error(error) from error
        except NotebookError as error:
            self.must_rest(cell)
            raise ToolError(str(error)) from error
        finally:
            self.reads.last = None

    async def below_prompt(self) -> str | None:
        """The cell behind which a new one stands below the prompt, in the order in which they are put there.

        None where the notebook does not show the prompt's cell.
        """
        order = [cell.id for cell in (await self.reads.listing(fresh=False)).cells]
        return next((place for place in (self._put_below, self._notebook.prompt_cell) if place in order), None)

    def put_below(self, cell_id: str) -> None:
        """A cell was put below the prompt."""
        self._put_below = cell_id

    async def _stale_error(self, error: StaleCell) -> NothingDone:
        cells = (await self.reads.listing()).cells
        cell = next((cell for cell in cells if cell.id == error.cell), None)
        return self.reads.remembered.changed(cell) if cell is not None else NothingDone(f"{error} It is gone now.")

    def _note_written(self, edit: CellEdit, before: Listing | None) -> None:
        """What the agent wrote and what was read back, it has read."""
        match edit:
            case SetSource():
                self.reads.written.add(edit.cell)
                known = self.reads.remembered.get(edit.cell)
                if known is not None:
                    self.reads.remembered.read(known.model_copy(update={"source": edit.source}))
            case InsertCell():
                self.reads.written.add(edit.id)
                place = next((cell.number for cell in before.cells if cell.id == edit.after), 0) if before else 0
                self.reads.remembered.read(Cell(id=edit.id, number=place + 1, kind=edit.kind, source=edit.source))
            case _:
                pass


def _edited_cells(edit: CellEdit) -> Sequence[str]:
    """Ids of the cells an edit is about."""
    match edit:
        case SetSource():
            return (edit.cell,)
        case InsertCell():
            return (edit.id,)
        case DeleteCells():
            return [cell.id for cell in edit.cells]
        case MoveCells():
            return edit.cells


class CellReads:
    """One for all tools of a kernel. On the engine's loop, but for `begin` and `known`."""

    def __init__(self, notebook: OpenNotebook, standings: Standings = no_standings) -> None:
        self._notebook = notebook
        self._standings = standings
        self.remembered = ReadVersions()
        self.last: Listing | None = None
        """All cells as last seen in this run; None before that, and after a change."""
        self.written: set[str] = set()
        """Ids of the cells whose source the agent wrote."""

    def begin(self) -> None:
        """A run begins. Main thread."""
        self.last = None

    def known(self, reference: str) -> Cell | None:
        """The cell a model means, for showing a call; None where that is not known yet."""
        try:
            return find_cell(reference, self.last.cells if self.last else (), reads=True)
        except ToolError:
            return self.remembered.get(reference)

    async def listing(self, *, fresh: bool = True) -> Listing:
        """All cells; where they need not be `fresh`, as last seen in this run.

        Raises:
            ToolError: there is no notebook, or it does not answer.
        """
        if fresh or self.last is None:
            try:
                found = await (await self._notebook.now()).cells()
            except NotebookError as error:
                raise ToolError(str(error)) from error
            self.last = self._as_it_stands(found)
        return self.last

    async def glance(self) -> Listing | None:
        """All cells, if a page tells them at once or a small file has them; else None."""
        found = await self._notebook.glance()
        return self._as_it_stands(found) if found is not None else None

    def _as_it_stands(self, listing: Listing) -> Listing:
        return replace(listing, cells=with_standings(listing.cells, self._standings(listing.cells)))

    async def find(self, reference: str, *, reads: bool = False) -> Cell:
        """The cell a model means; for a read as it stands now, for a write as last seen in this run.

        Raises:
            ToolError: none or several; names the nearest.
        """
        if not reads and self.last is not None:
            try:
                return find_cell(reference, self.last.cells)
            except ToolError:
                pass  # it may be newer than the listing
        return find_cell(reference, (await self.listing()).cells, reads=reads)

    async def outputs(self, cell: Cell, index: int | None = None) -> Sequence[Output]:
        """Whole outputs of a cell.

        Raises:
            ToolError: the notebook does not answer.
        """
        try:
            return await (await self._notebook.now()).outputs(cell.id, index=index, limit=OUTPUT_LIMIT)
        except NotebookError as error:
            raise ToolError(str(error)) from error

    async def with_pictures(
        self, cell: Cell, outputs: Sequence[Output], *, first: int = 0, count: int | None = None
    ) -> tuple[Output, ...]:
        """The same outputs, with a picture of each chart as its page shows it.

        Args:
            cell: whose they are.
            outputs: some of them, in their order.
            first: place of the first of them.
            count: how many the cell has; None where these are all.
        """

        async def page_gives(place: int) -> str | None:
            return await (await self._notebook.now()).picture(cell.id, place, count=count or len(outputs))

        return await with_page_pictures(outputs, page_gives, first)

    async def owns(self, path: Path) -> bool:
        """Whether this is the file of the notebook."""
        if path.suffix != ".ipynb":
            return False
        try:
            return self._notebook.is_file(path, (await self.listing(fresh=False)).path)
        except ToolError:
            return False


class ReadVersions:
    """Cell id to the cell as the agent read it."""

    def __init__(self) -> None:
        self._cells: dict[str, Cell] = {}

    def read(self, cell: Cell) -> None:
        """The model got all it needs to change this cell."""
        self._cells[cell.id] = cell

    def get(self, cell_id: str) -> Cell | None:
        """The cell as last read; None if it never was."""
        return self._cells.get(cell_id)

    def forget(self, cell_id: str | None = None) -> None:
        """One cell, or all."""
        if cell_id is None:
            self._cells.clear()
        else:
            self._cells.pop(cell_id, None)

    def must_be_current(self, cell: Cell, *, written: bool = True) -> None:
        """Let through what the agent knows as it stands.

        Raises:
            ToolError: it was changed since, or (for a write) never read; with the present source, which is then read.
        """
        known = self._cells.get(cell.id)
        if known is None and not written:
            return
        if known is None or known.hash != cell.hash:
            raise self.changed(cell, never_read=known is None)

    def changed(self, cell: Cell, *, never_read: bool = False) -> NothingDone:
        """The report to the model where the cell is not as it thinks; it has read the cell by that."""
        self.read(cell)
        why = "was not read yet" if never_read else "was changed since you read it"
        return NothingDone(
            f"Nothing was done: cell {cell.number} ({cell.id}) {why}. Read it first; this is its source now:\n"
            f"{cell.source}"
        )


def must_not_be_prompt(cell: Cell) -> None:
    """Let through what a tool may run, change, delete or move.

    Raises:
        NothingDone: the cell begins with ``%%vibe``.
    """
    if cell.kind == "code" and is_prompt(cell.source):
        raise NothingDone(
            f"Nothing was done: cell {cell.number} ({cell.id}) is a prompt of the user's (%%vibe), and what it shows is "
            "the record of its run, so no tool runs, changes, deletes or moves it: use other cells, or ask the user."
        )


def find_cell(reference: str, cells: tuple[Cell, ...], *, reads: bool = False) -> Cell:
    """The cell with this id, or the only one whose id begins so; for reads also by place, such as ``#3``.

    Raises:
        ToolError: none, or several; names the nearest cells.
    """
    if reference.startswith("#"):
        return _by_place(reference, cells, reads=reads)
    exact = [cell for cell in cells if cell.id == reference]
    if exact:
        return exact[0]
    begun = [cell for cell in cells if cell.id.startswith(reference)] if len(reference) >= MIN_PREFIX else []
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise NothingDone(f"The id {reference!r} fits {len(begun)} cells; give more of it: {_cells_text(begun)}")
    if len(reference) < MIN_PREFIX:
        raise NothingDone(
            f"{reference!r} is too short for an id: give {MIN_PREFIX} characters or more. {_nearest_cells(cells)}"
        )
    close = get_close_matches(reference, [cell.id for cell in cells], n=_NEAREST, cutoff=0.5)
    nearest = [cell for cell in cells if cell.id in close] or cells
    raise NothingDone(
        f"There is no cell {reference!r}; nothing was done. {_nearest_cells(nearest)} read_notebook lists all."
    )


def _by_place(reference: str, cells: tuple[Cell, ...], *, reads: bool) -> Cell:
    place = reference[1:]
    number = int(place) if place.isdecimal() else 0
    if not 0 < number <= len(cells):
        raise NothingDone(f"There is no cell {reference}: the notebook has {len(cells)}.")
    cell = cells[number - 1]
    if not reads:
        raise NothingDone(
            f"Nothing was done: {reference} is a place, and places shift. Use the id; there stands now "
            f"{_cells_text([cell])}"
        )
    return cell


def _nearest_cells(cells: Iterable[Cell]) -> str:
    return f"The nearest: {_cells_text(list(cells)[:_NEAREST])}"


def _cells_text(cells: Iterable[Cell]) -> str:
    names = (
        f"{cell.id} (#{cell.number}, {cell.kind}: {cell.source.strip().split(chr(10))[0][:_FIRST_LINE]!r})"
        for cell in cells
    )
    return "; ".join(names) + "."
