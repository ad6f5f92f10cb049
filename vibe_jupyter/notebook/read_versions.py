"""The model's knowledge of the cells: what it was shown under which number, and what it has read in full."""

from collections.abc import Iterable, Sequence
from typing import Final

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.notebook.addresses import LAST, address, cells_text, number_of, short_ids
from vibe_jupyter.protocol import Cell

_SHOWN: Final = 7_000  # characters of a source in a refusal
_NAMED: Final = 40  # cells named in a refusal


class ReadVersions:
    """Cells shown to and read by the model in one conversation."""

    def __init__(self) -> None:
        self._read: dict[str, Cell] = {}  # cell as it was read in full, by id
        self._shown: dict[str, Cell] = {}  # cell as last shown, by id, position or execution count in address form

    def show(self, cells: Iterable[Cell]) -> None:
        """Record that the model was shown these cells' addresses."""
        for cell in cells:
            self._shown[cell.id] = self._shown[f"#{cell.number}"] = cell
            if cell.execution_count is not None:
                self._shown[f"[{cell.execution_count}]"] = cell

    def read(self, cell: Cell) -> None:
        """Record that the model has seen all it needs to change this cell."""
        self._read[cell.id] = cell
        self.show([cell])

    def get(self, cell_id: str) -> Cell | None:
        """Return the cell as last read in full, or None."""
        return self._read.get(cell_id)

    def was_shown_as(self, reference: str) -> Cell | None:
        """Return the cell last shown under this position or number, or None."""
        return self._shown.get(number_of(reference))

    def shown(self) -> tuple[Cell, ...]:
        """Return each cell as last shown."""
        return tuple({cell.id: cell for cell in self._shown.values()}.values())

    def forget(self, cell_id: str | None = None) -> None:
        if cell_id is None:
            self._read.clear()
            self._shown.clear()
        else:
            self._read.pop(cell_id, None)
            self._shown = {key: cell for key, cell in self._shown.items() if cell.id != cell_id}

    def is_current(self, cell: Cell) -> bool:
        """Return whether the model has read the cell's current source."""
        known = self._read.get(cell.id)
        return known is not None and known.source == cell.source

    def must_be_current(self, cell: Cell, cells: Sequence[Cell], *, written: bool = True) -> None:
        """Check that the model knows the cell's current source.

        Raises:
            NothingDone: The cell changed since it was read, or (for a write) was never read. The message contains its
                current source, which then counts as read.
        """
        known = self._read.get(cell.id)
        if known is None and not written:
            return
        if known is None or known.source != cell.source:
            raise self.changed(cell, cells, never_read=known is None)

    def must_be_shown(self, reference: str, found: Sequence[Cell], cells: Sequence[Cell]) -> None:
        """Check that a position or number still refers to the cells that were shown under it.

        The ends of a range must be the cells shown there, and the cells in between must have been shown; their order
        may have changed.

        Raises:
            NothingDone: It refers to other cells, now or compared with what the model knows. The message lists the
                current ones.
        """
        key = number_of(reference)
        is_single = bool(key) and key != LAST and len(found) == 1
        ends = {found[0].id, found[-1].id}
        keys = [key if is_single else f"#{cell.number}" if cell.id in ends else cell.id for cell in found]
        if all(map(self._is_shown, keys, found)):
            return
        self.show(found)
        if len(found) == 1:
            cell = found[0]
            self._read_if_whole(cell)
            now = f"{address(cell, short_ids(cells))}, this is its source:\n{head_and_tail(cell.source, _SHOWN)}"
        else:
            more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            now = f"{cells_text(found[:_NAMED], cells)}{more}"
        raise NothingDone(
            f"Nothing was done: {reference} may not be what you mean, since places and numbers shift and you were not "
            f"shown it as it is now. If you mean it, call again. There is now {now}"
        )

    def changed(self, cell: Cell, cells: Sequence[Cell], *, never_read: bool = False) -> NothingDone:
        """Return the error for a cell that differs from what the model knows.

        If shown in full, it then counts as read.
        """
        self._read_if_whole(cell)
        why = "was not read yet" if never_read else "was changed since you read it"
        return NothingDone(
            f"Nothing was done: {address(cell, short_ids(cells))} {why}. If the call still fits, send it again; this "
            f"is its source now:\n{head_and_tail(cell.source, _SHOWN)}"
        )

    def _read_if_whole(self, cell: Cell) -> None:
        if len(cell.source) <= _SHOWN:
            self.read(cell)
        self.show([cell])

    def _is_shown(self, key: str, cell: Cell) -> bool:
        known = self._shown.get(key)
        return known is not None and (known.id, known.source) == (cell.id, cell.source)
