"""Read, change and run cells, checking that they are still as the agent last read them."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, Protocol

from vibe_jupyter.errors import NotebookError, NothingDone, ToolError
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.addresses import (
    END,
    MIN_PREFIX,
    TOP,
    NumberGone,
    Selected,
    address,
    find_cell,
    in_order,
    number_of,
    select_cells,
    short_ids,
)
from vibe_jupyter.notebook.cell_names import is_prompt
from vibe_jupyter.notebook.cell_origins import CellOrigins
from vibe_jupyter.notebook.chart_pictures import ChartDrawing, with_page_pictures
from vibe_jupyter.notebook.document import CellRun, EditDone, EditUnsure, Listing, StaleCell
from vibe_jupyter.notebook.open_notebook import OpenNotebook
from vibe_jupyter.notebook.read_versions import ReadVersions
from vibe_jupyter.notebook.staleness import CellStatus, with_standings
from vibe_jupyter.notebook.verification import VerifiedCells
from vibe_jupyter.protocol import Cell, CellEdit, CellKind, DeleteCells, InsertCell, MoveCells, SetSource
from vibe_jupyter.tools.contract import OnAsking, ToolContext, unheard

OUTPUT_LIMIT: Final = 2_000_000  # bytes of one output that are transferred on request

# What a model must have read of a cell: all of its current source; the same, but only if it was read before; or
# nothing.
Needed = Literal["whole", "unchanged", "nothing"]

# Status by cell id, given all cells in order; any thread.
Standings = Callable[[Sequence[Cell]], Mapping[str, CellStatus]]


# Lines about frames that lost rows in the latest run, if it ran this code. Any thread.
RowLines = Callable[[str], Sequence[str]]


def no_row_lines(_source: str) -> Sequence[str]:
    return ()


def no_standings(_cells: Sequence[Cell]) -> Mapping[str, CellStatus]:
    """Return no statuses (if no runs are recorded)."""
    return {}


class EditRecorder(Protocol):
    """Records edits before they are made, with the previous state of the cells."""

    async def before_edits(self, edits: Sequence[CellEdit], cells: Sequence[Cell]) -> int:
        """Record edits that are about to be made to these cells. Returns the entry id for `not_made`.

        Raises:
            JournalError: The edits can't be recorded, so nothing may be changed.
        """
        ...

    async def not_made(self, entry: int) -> None:
        """Record that the edits were refused."""
        ...


class CellAccess:
    """Cell access shared by all tools of a kernel. On the engine's loop, except `begin` and `end`."""

    def __init__(
        self, notebook: OpenNotebook, standings: Standings = no_standings, drawing: ChartDrawing | None = None
    ) -> None:
        self._notebook = notebook
        self.reads = CellReads(notebook, standings)
        self.drawing = drawing or ChartDrawing()
        self._put_below: str | None = None  # the last cell this run inserted below its prompt, or None
        self.changed: list[str] = []  # ids of the cells this run changed, in order of their first change
        self.row_lines: RowLines = no_row_lines
        # Origins for the current or latest run; None if cells aren't marked with one.
        self.origins: Callable[[], CellOrigins] | None = None
        self.recorder: EditRecorder | None = None  # recorder of the current or latest run; None if nothing is recorded

    def begin(self) -> None:
        """Start a run in the running cell. Main thread."""
        self.resume()
        self._put_below = None
        self.changed = []

    def resume(self) -> None:
        """Continue a run that had released the main thread. Main thread."""
        self._notebook.begin()
        self.reads.begin()

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in, or None if the front end doesn't send it."""
        return self._notebook.prompt_cell

    def end(self) -> None:
        """End the run before its cell ends. Main thread."""
        self._notebook.end()

    async def to_change(self, reference: str, *, needed: Needed = "whole") -> Cell:
        """Return the cell that a model intends to change.

        Raises:
            ToolError: No cell or several match, the model doesn't know its current source, or it is a prompt or the
                run's cell.
        """
        selected = await self.reads.find_one(reference)
        await self.let_through(selected, needed=needed)
        return selected.cells[0]

    async def let_through(self, selected: Selected, *, needed: Needed) -> None:
        """Check that a call may change or run these cells.

        Raises:
            ToolError: The model doesn't know a cell's current source, or it is a prompt or the run's own cell.
        """
        for cell in selected.cells:
            if cell.id == self._notebook.prompt_cell:
                raise NothingDone("Nothing was done: that is the prompt's own cell, which is running now.")
            if cell.kind == "code" and is_prompt(cell.source):
                raise NothingDone(
                    f"Nothing was done: {self.reads.address(cell)} is a prompt of the user's (%%vibe), and what it "
                    "shows is the record of its run, so no tool runs, changes, deletes or moves it: use other cells, "
                    "or ask the user."
                )
        await self.must_be_shown(selected)
        cells = (await self.reads.listing(fresh=False)).cells
        for cell in selected.cells if needed != "nothing" else ():
            self.reads.remembered.must_be_current(cell, cells, written=needed == "whole")

    async def must_be_shown(self, selected: Selected) -> None:
        """Check references by position or number: they must still refer to the cells the model was shown.

        Raises:
            ToolError: A position or number now refers to another cell.
        """
        if selected.numbered:
            cells = (await self.reads.listing(fresh=False)).cells
            self.reads.remembered.must_be_shown(selected.reference, selected.numbered, cells)

    def waits(self, cell: Cell) -> bool:
        """Return whether the user queued this cell, which then runs after this run."""
        return self._notebook.waits(cell)

    def must_rest(self, *cells: Cell) -> None:
        """Check that none of these cells is queued.

        Raises:
            ToolError: The user started one of them.
        """
        for cell in cells:
            if self.waits(cell):
                raise NothingDone(
                    f"Nothing was done: {self.reads.address(cell)} waits for its turn already, started by the user "
                    "or by you. It runs when this run is over, and not before. Go on without it, or end your turn to "
                    "let it run."
                )

    async def edit(self, *edits: CellEdit, context: ToolContext | None = None, undoes: bool = False) -> EditDone:
        """Apply all edits or none, in one request.

        Args:
            edits: The edits, in order.
            context: Context of the call, recorded in the cells' metadata; None for an undo.
            undoes: Whether this undoes a run. The model hasn't read what is restored.

        Raises:
            ToolError: A cell changed since it was read (includes its current source), or the notebook refused.
        """
        recorder = None if undoes else self.recorder
        entry = 0
        if self.origins is not None and context is not None:
            cells = (await self.reads.listing(fresh=False)).cells
            edits = tuple(await self.origins().signed(edits, cells, self.prompt_cell, context))
        if recorder is not None:
            entry = await recorder.before_edits(edits, (await self.reads.listing(fresh=False)).cells)
        try:
            done = await (await self._notebook.now()).edit(edits)
        except NotebookError as error:
            # A busy page may still make an edit that it didn't confirm in time: keep the record, so that undo can
            # restore the text.
            if recorder is not None and not isinstance(error, EditUnsure):
                await recorder.not_made(entry)
            if isinstance(error, StaleCell):
                raise await _stale_error(self.reads, error) from error
            raise ToolError(str(error)) from error
        if recorder is not None and done.outcome != "done" and not done.may_come:
            await recorder.not_made(entry)
        before, self.reads.last = self.reads.last, None
        if done.outcome == "done" and not undoes:
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
        """Run a cell to its end, provided that it still has this source.

        Raises:
            ToolError: The cell was changed, is gone, or can't run now.
        """
        try:
            return await (await self._notebook.now()).run(
                cell, seconds=seconds, on_output=on_output, on_asking=on_asking
            )
        except StaleCell as error:
            raise await _stale_error(self.reads, error) from error
        except NotebookError as error:
            self.must_rest(cell)
            raise ToolError(str(error)) from error
        finally:
            self.reads.last = None

    async def queue(self, cell: Cell) -> str:
        """Queue a cell with exactly this source, and return the id of its request.

        Raises:
            ToolError: As for `run`.
        """
        try:
            return await (await self._notebook.now()).queue(cell)
        except StaleCell as error:
            raise await _stale_error(self.reads, error) from error
        except NotebookError as error:
            self.must_rest(cell)
            raise ToolError(str(error)) from error
        finally:
            self.reads.last = None

    async def below_prompt(self) -> str | None:
        """Return the cell to insert after, so that new cells go below the prompt in order.

        None if the notebook doesn't show the prompt's cell.
        """
        order = [cell.id for cell in (await self.reads.listing(fresh=False)).cells]
        return next((place for place in (self._put_below, self._notebook.prompt_cell) if place in order), None)

    async def anchor(self, reference: str) -> str | None:
        """Return the cell before a position: None for ``top``, the last cell for ``end``, else the referenced cell.

        Raises:
            ToolError: No cell or several match, or a number refers to another cell than the model was shown.
        """
        if reference == TOP:
            return None
        if reference == END:
            cells = (await self.reads.listing(fresh=False)).cells
            return cells[-1].id if cells else None
        selected = await self.reads.find_one(reference)
        await self.must_be_shown(selected)
        return selected.cells[0].id

    async def above(self, reference: str) -> str | None:
        """Return the cell above the referenced one, or None if that is the first.

        Raises:
            ToolError: As for `anchor`.
        """
        named = await self.anchor(reference)
        order = [cell.id for cell in (await self.reads.listing(fresh=False)).cells]
        place = order.index(named) if named in order else 0
        return order[place - 1] if place else None

    def must_parse(self, kind: CellKind, source: str) -> None:
        """Check the syntax of code.

        Raises:
            NothingDone: There is a syntax error.
        """
        if kind == "code" and (fault := self._notebook.syntax_fault(source)):
            raise NothingDone(f"Nothing was done: {fault}")

    async def new_id(self) -> str:
        """Return an id for a new cell whose first characters are unique."""
        heads = {cell.id[:MIN_PREFIX] for cell in (await self.reads.listing(fresh=False)).cells}
        # `iter(int, 1)` never ends: retry until the prefix is unique.
        return next(made for _ in iter(int, 1) if (made := secrets.token_hex(4))[:MIN_PREFIX] not in heads)

    def put_below(self, cell_id: str) -> None:
        """Record that a cell was inserted below the prompt."""
        self._put_below = cell_id

    def _note_written(self, edit: CellEdit, before: Listing | None) -> None:
        """Record that the agent knows what it just wrote."""
        match edit:
            case SetSource():
                self.reads.written.add(edit.cell)
                known = self.reads.remembered.get(edit.cell)
                was = next((cell for cell in before.cells if cell.id == edit.cell), known) if before else known
                if was is not None:
                    now = was.model_copy(update={"source": edit.source})
                    self.reads.remembered.show([now])
                    if known is not None:
                        self.reads.remembered.read(now)
            case InsertCell():
                self.reads.written.add(edit.id)
                self.reads.short[edit.id] = edit.id[:MIN_PREFIX]
                place = next((cell.number for cell in before.cells if cell.id == edit.after), 0) if before else 0
                self.reads.remembered.read(Cell(id=edit.id, number=place + 1, kind=edit.kind, source=edit.source))
            case _:
                pass


async def _stale_error(reads: "CellReads", error: StaleCell) -> NothingDone:
    cells = (await reads.listing()).cells
    cell = next((cell for cell in cells if cell.id == error.cell), None)
    return reads.remembered.changed(cell, cells) if cell else NothingDone(f"{error} It is gone now.")


def _edited_cells(edit: CellEdit) -> Sequence[str]:
    """Return the ids of the cells that an edit affects."""
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
    """Cell reads shared by all tools of a kernel. On the engine's loop, except `begin` and `known`."""

    def __init__(self, notebook: OpenNotebook, standings: Standings = no_standings) -> None:
        self._notebook = notebook
        self._standings = standings
        self.remembered = ReadVersions()
        self.last: Listing | None = None  # the latest listing of this run; None before the first and after a change
        self.written: set[str] = set()  # ids of the cells whose source the agent wrote
        self._nameable: Sequence[Cell] = ()  # cells at the latest answer with cell references; empty before that
        self.short: dict[str, str] = {}  # unique short id by id, from the latest listing
        self.verified: VerifiedCells | None = None  # the latest run from the top in this kernel, or None

    def begin(self) -> None:
        """Start a run. Main thread."""
        self.last = None
        self._nameable = ()

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in, or None if the front end doesn't send it."""
        return self._notebook.prompt_cell

    def known(self, reference: str) -> Cell | None:
        """Return the referenced cell for display, or None if it isn't known yet."""
        known = self.known_all([reference])
        return known[0] if len(known) == 1 else None

    def known_all(self, references: Sequence[str], *, runnable: bool = False) -> list[Cell]:
        """Return the referenced cells for display, skipping unknown ones."""
        cells = self.last.cells if self.last else self.remembered.shown()
        found: list[Selected] = []
        for reference in references:
            with suppress(ToolError):
                found += select_cells([reference], cells, prompt=self._notebook.prompt_cell, runnable=runnable)
        return in_order(found)

    async def look_for_names(self) -> None:
        """Refresh the cells for an answer with cell references, if that is quick."""
        found = await self.glance()
        if found is not None:
            self._nameable = found.cells

    def named(self, reference: str) -> Cell | None:
        """Return the cell that an answer refers to by id, or None. Any thread."""
        cells = self._nameable or (self.last.cells if self.last else self.remembered.shown())
        with suppress(ToolError):
            return find_cell(reference, cells, prompt=self._notebook.prompt_cell)
        return None

    def short_id(self, cell: Cell) -> str:
        """Return the shortest unique part of the cell's id."""
        return self.short.get(cell.id, cell.id)

    def address(self, cell: Cell) -> str:
        """Return the cell's address in results, such as ``#8 d8dc [18]``."""
        return address(cell, self.short)

    async def listing(self, *, fresh: bool = True) -> Listing:
        """List all cells. Unless `fresh`, the latest listing of this run will do.

        Raises:
            ToolError: There is no notebook, or it doesn't respond.
        """
        if fresh or self.last is None:
            try:
                found = await (await self._notebook.now()).cells()
            except NotebookError as error:
                raise ToolError(str(error)) from error
            self.last = self._as_it_stands(found)
            self.short = short_ids(self.last.cells)
        return self.last

    async def must_be_changeable(self) -> None:
        """Check that the notebook accepts changes, before asking the user about one.

        Raises:
            ToolError: No page accepts the change, or there is no notebook.
        """
        if fixed := (await self.listing()).fixed:
            raise NothingDone(fixed)

    async def wait_for_edit(self) -> None:
        """Wait until the user may have changed cells, while a card is open."""
        await self._notebook.wait_for_edit()

    async def glance(self) -> Listing | None:
        """List all cells if a page responds quickly or the file is small, else return None."""
        found = await self._notebook.glance()
        return self._as_it_stands(found) if found is not None else None

    def _as_it_stands(self, listing: Listing) -> Listing:
        return replace(listing, cells=with_standings(listing.cells, self._standings(listing.cells)))

    async def find_one(self, reference: str) -> Selected:
        """Return the one referenced cell, from the latest listing of this run.

        Raises:
            ToolError: No cell or several match; suggests the nearest.
        """
        prompt = self._notebook.prompt_cell
        cells = (await self.listing(fresh=False)).cells
        try:
            cell = find_cell(reference, cells, prompt=prompt)
        except NumberGone as error:
            raise self._renumbered(error, cells) from None
        return Selected(reference, (cell,), (cell,) if number_of(reference) else ())

    def _renumbered(self, error: NumberGone, cells: Sequence[Cell]) -> NumberGone:
        """Add to the error the cell that was shown under this number, if it still exists."""
        shown = self.remembered.was_shown_as(error.reference)
        cell = next((one for one in cells if shown is not None and one.id == shown.id), None)
        if cell is None:
            return error
        return NumberGone(error.reference, f"The cell you were shown under it is {self.address(cell)}.")

    async def select(self, references: Sequence[str], *, runnable: bool = False) -> list[Selected]:
        """Return the cells of each reference, which may be a range, from the latest listing of this run.

        Raises:
            ToolError: A reference matches no cell, or several.
        """
        cells = (await self.listing(fresh=False)).cells
        try:
            return select_cells(references, cells, prompt=self._notebook.prompt_cell, runnable=runnable)
        except NumberGone as error:
            raise self._renumbered(error, cells) from None

    async def outputs(self, cell: Cell, index: int | None = None) -> Sequence[Output]:
        """Return a cell's outputs in full.

        Raises:
            ToolError: The notebook doesn't respond.
        """
        try:
            return await (await self._notebook.now()).outputs(cell.id, index=index, limit=OUTPUT_LIMIT)
        except NotebookError as error:
            raise ToolError(str(error)) from error

    async def with_pictures(self, cell: Cell, outputs: Sequence[Output]) -> tuple[Output, ...]:
        """Return the outputs, with the page's image of each chart."""

        async def page_gives(place: int) -> str | None:
            return await (await self._notebook.now()).picture(cell.id, place, count=len(outputs))

        return await with_page_pictures(outputs, page_gives)

    async def owns(self, path: Path) -> bool:
        """Return whether this is the notebook's file."""
        if path.suffix != ".ipynb":
            return False
        try:
            return self._notebook.is_file(path, (await self.listing(fresh=False)).path)
        except ToolError:
            return False
