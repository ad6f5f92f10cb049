"""What a model knows of the cells: which it was shown under which number, and which it has read whole."""

from collections.abc import Iterable, Sequence
from typing import Final

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.notebook.addresses import LAST, address, cells_text, number_of, short_ids
from vibe_jupyter.protocol import Cell

_SHOWN: Final = 7_000
"""Characters of a source in a refusal."""
_NAMED: Final = 40
"""Cells named in a refusal."""


class ReadVersions:
    """One for a conversation."""

    def __init__(self) -> None:
        self._read: dict[str, Cell] = {}
        """Id to the cell as it was read whole."""
        self._shown: dict[str, Cell] = {}
        """Id, place or number, as in an address, to the cell as it was last shown under it."""

    def show(self, cells: Iterable[Cell]) -> None:
        """The model was shown these addresses."""
        for cell in cells:
            self._shown[cell.id] = self._shown[f"#{cell.number}"] = cell
            if cell.execution_count is not None:
                self._shown[f"[{cell.execution_count}]"] = cell

    def read(self, cell: Cell) -> None:
        """The model got all it needs to change this cell."""
        self._read[cell.id] = cell
        self.show([cell])

    def get(self, cell_id: str) -> Cell | None:
        """The cell as last read whole; None if it never was."""
        return self._read.get(cell_id)

    def was_shown_as(self, reference: str) -> Cell | None:
        """The cell as it was shown under this place or number; None where none was."""
        return self._shown.get(number_of(reference))

    def shown(self) -> tuple[Cell, ...]:
        """Each cell as it was last shown."""
        return tuple({cell.id: cell for cell in self._shown.values()}.values())

    def forget(self, cell_id: str | None = None) -> None:
        """One cell, or all."""
        if cell_id is None:
            self._read.clear()
            self._shown.clear()
        else:
            self._read.pop(cell_id, None)
            self._shown = {key: cell for key, cell in self._shown.items() if cell.id != cell_id}

    def is_current(self, cell: Cell) -> bool:
        """Whether the model has read the cell as it is now."""
        known = self._read.get(cell.id)
        return known is not None and known.source == cell.source

    def must_be_current(self, cell: Cell, cells: Sequence[Cell], *, written: bool = True) -> None:
        """Let through what the model knows as it is now.

        Raises:
            NothingDone: it was changed since, or (for a write) never read; with the present source, which is then read.
        """
        known = self._read.get(cell.id)
        if known is None and not written:
            return
        if known is None or known.source != cell.source:
            raise self.changed(cell, cells, never_read=known is None)

    def must_be_shown(self, reference: str, found: Sequence[Cell], cells: Sequence[Cell]) -> None:
        """Let through cells that a place or a number still means, as they were shown under it.

        Of a range the ends must be what was shown there, and between them cells that were shown: in which order they
        stand there may have changed.

        Raises:
            NothingDone: it means others now, or others than the model knows; with what is there now.
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
        """The report to the model where the cell is not as it thinks; where all of it is shown, it is read by that."""
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
