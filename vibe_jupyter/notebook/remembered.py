"""What the agent last read of each cell: a write is refused where the person changed it since."""

from collections.abc import Iterable
from difflib import get_close_matches

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.protocol import Cell

MIN_PREFIX = 4
"""Characters of an id that may stand for it, if only one cell's id begins so."""
SHORT_ID = 8
"""Characters of an id told to the model, where they are enough."""
_NEAREST = 5
"""Cells named where an id fits none."""
_FIRST_LINE = 60
"""Characters of a cell's first line that tell which one it is."""


class Remembered:
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
        """What the model is told where the cell is not as it thinks; it has read the cell by that."""
        self.read(cell)
        why = "was not read yet" if never_read else "was changed since you read it"
        return NothingDone(
            f"Nothing was done: cell {cell.number} ({cell.id}) {why}. Read it first; this is its source now:\n"
            f"{cell.source}"
        )


def find(reference: str, cells: tuple[Cell, ...], *, reads: bool = False) -> Cell:
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
        raise NothingDone(f"The id {reference!r} fits {len(begun)} cells; give more of it: {_named(begun)}")
    if len(reference) < MIN_PREFIX:
        raise NothingDone(f"{reference!r} is too short for an id: give {MIN_PREFIX} characters or more. {_near(cells)}")
    close = get_close_matches(reference, [cell.id for cell in cells], n=_NEAREST, cutoff=0.5)
    nearest = [cell for cell in cells if cell.id in close] or cells
    raise NothingDone(f"There is no cell {reference!r}; nothing was done. {_near(nearest)} read_notebook lists all.")


def short_ids(cells: Iterable[Cell]) -> dict[str, str]:
    """Id to the part of it that is enough."""
    ids = [cell.id for cell in cells]
    heads = [one[:SHORT_ID] for one in ids]
    return {one: head if heads.count(head) == 1 else one for one, head in zip(ids, heads, strict=True)}


def _by_place(reference: str, cells: tuple[Cell, ...], *, reads: bool) -> Cell:
    place = reference[1:]
    number = int(place) if place.isdecimal() else 0
    if not 0 < number <= len(cells):
        raise NothingDone(f"There is no cell {reference}: the notebook has {len(cells)}.")
    cell = cells[number - 1]
    if not reads:
        raise NothingDone(
            f"Nothing was done: {reference} is a place, and places shift. Use the id; there stands now {_named([cell])}"
        )
    return cell


def _near(cells: Iterable[Cell]) -> str:
    return f"The nearest: {_named(list(cells)[:_NEAREST])}"


def _named(cells: Iterable[Cell]) -> str:
    names = (
        f"{cell.id} (#{cell.number}, {cell.kind}: {cell.source.strip().split(chr(10))[0][:_FIRST_LINE]!r})"
        for cell in cells
    )
    return "; ".join(names) + "."
