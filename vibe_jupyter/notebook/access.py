"""How tools read, change and run cells: only as the agent last read them."""

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

OUTPUT_LIMIT: Final = 2_000_000
"""Bytes of one output that travel when it is asked for."""

Needed = Literal["whole", "unchanged", "nothing"]
"""What a model must have read of a cell: all of it as it is now; that too if it has read it at all; or nothing."""

Standings = Callable[[Sequence[Cell]], Mapping[str, CellStatus]]
"""Cell id to how it stands, of all cells in their order; from any thread."""


RowChanges = Callable[[str], Sequence[str]]
"""What the latest run of code changed of the rows of frames, if it was of this code, a line for each; any thread."""


def no_row_changes(_source: str) -> Sequence[str]:
    """Where nobody counts."""
    return ()


def no_standings(_cells: Sequence[Cell]) -> Mapping[str, CellStatus]:
    """Where nobody knows what ran."""
    return {}


class EditRecorder(Protocol):
    """Hears of edits before they are made, and keeps what was there."""

    async def before_edits(self, edits: Sequence[CellEdit], cells: Sequence[Cell]) -> int:
        """These are about to be made, while the notebook has these cells; gives what `not_made` takes.

        Raises:
            JournalError: it cannot be kept; nothing may be changed.
        """
        ...

    async def not_made(self, entry: int) -> None:
        """They were refused."""
        ...


class CellAccess:
    """One for all tools of a kernel. On the engine's loop, but for `begin` and `end`."""

    def __init__(
        self, notebook: OpenNotebook, standings: Standings = no_standings, drawing: ChartDrawing | None = None
    ) -> None:
        self._notebook = notebook
        self.reads = CellReads(notebook, standings)
        self.drawing = drawing or ChartDrawing()
        self._put_below: str | None = None
        """The last cell this run put below its prompt; None before the first."""
        self.changed: list[str] = []
        """Ids of the cells this run changed, in the order of the first change."""
        self.row_changes: RowChanges = no_row_changes
        self.origins: Callable[[], CellOrigins] | None = None
        """Of the present run, or the last one; None where nobody says where cells come from."""
        self.recorder: EditRecorder | None = None
        """Of the present run, or the last one; None where nothing is kept."""

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

    async def to_change(self, reference: str, *, needed: Needed = "whole") -> Cell:
        """The cell a model means to write.

        Raises:
            ToolError: none or several; not as the model knows it; a prompt, or the cell that the run itself is in.
        """
        selected = await self.reads.find_one(reference)
        await self.let_through(selected, needed=needed)
        return selected.cells[0]

    async def let_through(self, selected: Selected, *, needed: Needed) -> None:
        """Let through cells that a call may change or run.

        Raises:
            ToolError: one of them is not as the model knows it, is a prompt, or is the cell that the run is in.
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
        """Let through cells that are named by id, or by a number that means them still.

        Raises:
            ToolError: a place or a number means another cell than the model knows.
        """
        if selected.numbered:
            cells = (await self.reads.listing(fresh=False)).cells
            self.reads.remembered.must_be_shown(selected.reference, selected.numbered, cells)

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
                    f"Nothing was done: {self.reads.address(cell)} waits for its turn already, started by the user "
                    "or by you. It runs when this run is over, and not before. Go on without it, or end your turn to "
                    "let it run."
                )

    async def edit(self, *edits: CellEdit, context: ToolContext | None = None, undoes: bool = False) -> EditDone:
        """Do all or none, in one request.

        Args:
            edits: what is done, in this order.
            context: of the call that does it, which the cells then name in their metadata; None for who undoes.
            undoes: whether it undoes a run: what comes back, the model has not read.

        Raises:
            ToolError: a cell is not as it was read (with its present source), or the notebook refused.
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
        """Run exactly this source of a cell, to its end.

        Raises:
            ToolError: it was changed, is gone, or cannot run now.
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
        """Have exactly this source of a cell run behind all that waits; the id of its request.

        Raises:
            ToolError: as `run`.
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
        """The cell behind which a new one stands below the prompt, in the order in which they are put there.

        None where the notebook does not show the prompt's cell.
        """
        order = [cell.id for cell in (await self.reads.listing(fresh=False)).cells]
        return next((place for place in (self._put_below, self._notebook.prompt_cell) if place in order), None)

    async def anchor(self, reference: str) -> str | None:
        """The cell above a place: of ``top`` (None), of ``end``, or the cell that the model means.

        Raises:
            ToolError: there is no such cell, or several, or a number means another one than the model knows.
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
        """The cell above the one that the model means; None where that is the first.

        Raises:
            ToolError: as `anchor`.
        """
        named = await self.anchor(reference)
        order = [cell.id for cell in (await self.reads.listing(fresh=False)).cells]
        place = order.index(named) if named in order else 0
        return order[place - 1] if place else None

    def must_parse(self, kind: CellKind, source: str) -> None:
        """Let through text, and code without a fault in its syntax.

        Raises:
            NothingDone: names the fault.
        """
        if kind == "code" and (fault := self._notebook.syntax_fault(source)):
            raise NothingDone(f"Nothing was done: {fault}")

    async def new_id(self) -> str:
        """An id for a new cell, which its first characters tell from all others."""
        heads = {cell.id[:MIN_PREFIX] for cell in (await self.reads.listing(fresh=False)).cells}
        return next(made for _ in iter(int, 1) if (made := secrets.token_hex(4))[:MIN_PREFIX] not in heads)

    def put_below(self, cell_id: str) -> None:
        """A cell was put below the prompt."""
        self._put_below = cell_id

    def _note_written(self, edit: CellEdit, before: Listing | None) -> None:
        """What the agent wrote and what was read back, it has read."""
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
        self._nameable: Sequence[Cell] = ()
        """All cells when the last answer that names cells came; empty before that."""
        self.short: dict[str, str] = {}
        """Id to the part of it that is enough, by the last listing."""
        self.verified: VerifiedCells | None = None
        """When the notebook was last run from the top; None where it was not in this kernel."""

    def begin(self) -> None:
        """A run begins. Main thread."""
        self.last = None
        self._nameable = ()

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in; None where the front end sends none."""
        return self._notebook.prompt_cell

    def known(self, reference: str) -> Cell | None:
        """The cell a model means, for showing a call; None where that is not known yet."""
        known = self.known_all([reference])
        return known[0] if len(known) == 1 else None

    def known_all(self, references: Sequence[str], *, runnable: bool = False) -> list[Cell]:
        """The cells a model means, for showing a call; those that are not known yet are left out."""
        cells = self.last.cells if self.last else self.remembered.shown()
        found: list[Selected] = []
        for reference in references:
            with suppress(ToolError):
                found += select_cells([reference], cells, prompt=self._notebook.prompt_cell, runnable=runnable)
        return in_order(found)

    async def look_for_names(self) -> None:
        """An answer names cells: see where they are now, if that is quickly told."""
        found = await self.glance()
        if found is not None:
            self._nameable = found.cells

    def named(self, reference: str) -> Cell | None:
        """The cell that an answer names by its id; None where none is known by it. Any thread."""
        cells = self._nameable or (self.last.cells if self.last else self.remembered.shown())
        with suppress(ToolError):
            return find_cell(reference, cells, prompt=self._notebook.prompt_cell)
        return None

    def short_id(self, cell: Cell) -> str:
        """As much of its id as is unique."""
        return self.short.get(cell.id, cell.id)

    def address(self, cell: Cell) -> str:
        """The cell as results name it: ``#8 d8dc [18]``."""
        return address(cell, self.short)

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
            self.short = short_ids(self.last.cells)
        return self.last

    async def must_be_changeable(self) -> None:
        """Look at the notebook before a user is asked about a change of it.

        Raises:
            ToolError: no page takes the change, or there is no notebook.
        """
        if fixed := (await self.listing()).fixed:
            raise NothingDone(fixed)

    async def wait_for_edit(self) -> None:
        """Return when a user may have changed cells, while a card waits."""
        await self._notebook.wait_for_edit()

    async def glance(self) -> Listing | None:
        """All cells, if a page tells them at once or a small file has them; else None."""
        found = await self._notebook.glance()
        return self._as_it_stands(found) if found is not None else None

    def _as_it_stands(self, listing: Listing) -> Listing:
        return replace(listing, cells=with_standings(listing.cells, self._standings(listing.cells)))

    async def find_one(self, reference: str) -> Selected:
        """The one cell a model means, as last seen in this run.

        Raises:
            ToolError: none or several; names the nearest.
        """
        prompt = self._notebook.prompt_cell
        cells = (await self.listing(fresh=False)).cells
        try:
            cell = find_cell(reference, cells, prompt=prompt)
        except NumberGone as error:
            raise self._renumbered(error, cells) from None
        return Selected(reference, (cell,), (cell,) if number_of(reference) else ())

    def _renumbered(self, error: NumberGone, cells: Sequence[Cell]) -> NumberGone:
        """The same with the cell that was shown under this number, where it is still there."""
        shown = self.remembered.was_shown_as(error.reference)
        cell = next((one for one in cells if shown is not None and one.id == shown.id), None)
        if cell is None:
            return error
        return NumberGone(error.reference, f"The cell you were shown under it is {self.address(cell)}.")

    async def select(self, references: Sequence[str], *, runnable: bool = False) -> list[Selected]:
        """The cells that each reference means, as last seen in this run; a reference may be a range.

        Raises:
            ToolError: one of them fits no cell, or several.
        """
        cells = (await self.listing(fresh=False)).cells
        try:
            return select_cells(references, cells, prompt=self._notebook.prompt_cell, runnable=runnable)
        except NumberGone as error:
            raise self._renumbered(error, cells) from None

    async def outputs(self, cell: Cell, index: int | None = None) -> Sequence[Output]:
        """Whole outputs of a cell.

        Raises:
            ToolError: the notebook does not answer.
        """
        try:
            return await (await self._notebook.now()).outputs(cell.id, index=index, limit=OUTPUT_LIMIT)
        except NotebookError as error:
            raise ToolError(str(error)) from error

    async def with_pictures(self, cell: Cell, outputs: Sequence[Output]) -> tuple[Output, ...]:
        """The outputs of a cell, with a picture of each chart as its page shows it."""

        async def page_gives(place: int) -> str | None:
            return await (await self._notebook.now()).picture(cell.id, place, count=len(outputs))

        return await with_page_pictures(outputs, page_gives)

    async def owns(self, path: Path) -> bool:
        """Whether this is the file of the notebook."""
        if path.suffix != ".ipynb":
            return False
        try:
            return self._notebook.is_file(path, (await self.listing(fresh=False)).path)
        except ToolError:
            return False
