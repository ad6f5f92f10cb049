"""The open notebook of the headless front end: what the bridge reads and changes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import nbformat

from vibe_jupyter.headless.file import Notebook
from vibe_jupyter.headless.refusal import Refusal, unknown_cell
from vibe_jupyter.protocol.cells import (
    CellEdit,
    DeleteCells,
    InsertCell,
    MoveCells,
    SetSource,
    source_hash,
)

Cell = dict[str, Any]
_CELL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""nbformat's rule."""
_MAKE: Final[dict[str, Callable[..., Any]]] = {
    "code": nbformat.v4.new_code_cell,  # pyright: ignore[reportUnknownMemberType]
    "markdown": nbformat.v4.new_markdown_cell,  # pyright: ignore[reportUnknownMemberType]
    "raw": nbformat.v4.new_raw_cell,  # pyright: ignore[reportUnknownMemberType]
}


class Document:
    """Cells by their ids. Edits happen whole or not at all."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self.dirty = False
        """Whether anything was changed since it was read."""
        self.running: set[str] = set()
        """Ids of the cells that run or wait for their turn."""
        self._executed = {cell["id"]: cell["source"] for cell in self.cells if cell.get("execution_count")}

    @property
    def cells(self) -> list[Cell]:
        """In their order."""
        return self._notebook["cells"]

    @property
    def order(self) -> list[str]:
        """Their ids."""
        return [cell["id"] for cell in self.cells]

    def cell(self, cell_id: str) -> Cell:
        """The cell of this id."""
        for cell in self.cells:
            if cell["id"] == cell_id:
                return cell
        raise unknown_cell(cell_id)

    def expect(self, cell_id: str, expected: str) -> Cell:
        """The cell of this id, if its source is the one with this hash."""
        cell = self.cell(cell_id)
        _same_source(cell_id, cell["source"], expected)
        return cell

    def begin_run(self, cell_id: str) -> None:
        """As a front end does when it sends a cell."""
        cell = self.cell(cell_id)
        cell["outputs"], cell["execution_count"] = [], None
        self._executed[cell_id] = cell["source"]
        self.running.add(cell_id)
        self.dirty = True

    def edited_since_run(self, cell: Cell) -> bool:
        """Whether its outputs are those of another source."""
        return cell.get("execution_count") is not None and self._executed.get(cell["id"]) != cell["source"]

    def append(self, kind: str, source: str) -> str:
        """A new cell at the end; returns its id."""
        cell = _MAKE[kind](source)
        self.cells.append(cell)
        self.dirty = True
        return cell["id"]

    def edit(self, edits: Sequence[CellEdit]) -> None:
        """Do all of them, or raise and do none."""
        self._rehearse(edits)
        for edit in edits:
            self._apply(edit)
        self.dirty = True

    def _apply(self, edit: CellEdit) -> None:
        match edit:
            case SetSource():
                self.cell(edit.cell)["source"] = edit.source
            case InsertCell():
                self.cells.insert(self._after(edit.after), _MAKE[edit.kind](edit.source, id=edit.id))
            case DeleteCells():
                gone = {one.id for one in edit.cells}
                self.cells[:] = [cell for cell in self.cells if cell["id"] not in gone]
            case MoveCells():
                moved = [self.cell(cell_id) for cell_id in edit.cells]
                self.cells[:] = [cell for cell in self.cells if cell["id"] not in edit.cells]
                place = self._after(edit.after)
                self.cells[place:place] = moved

    def _after(self, cell_id: str | None) -> int:
        return 0 if cell_id is None else self.order.index(cell_id) + 1

    def _rehearse(self, edits: Sequence[CellEdit]) -> None:
        """Try them on paper."""
        sources = {cell["id"]: str(cell["source"]) for cell in self.cells}
        for edit in edits:
            match edit:
                case SetSource():
                    _unchanged(sources, edit.cell, edit.expected)
                    self._allowed(edit.cell, "editable")
                    sources[edit.cell] = edit.source
                case InsertCell():
                    _known(sources, edit.after)
                    if edit.id in sources or not _CELL_ID.fullmatch(edit.id):
                        raise Refusal("bad_request", f"The id {edit.id} cannot be given to a new cell.", cell=edit.id)
                    sources[edit.id] = edit.source
                case DeleteCells():
                    for one in edit.cells:
                        _unchanged(sources, one.id, one.expected)
                        self._allowed(one.id, "deletable")
                        self._at_rest(one.id)
                        del sources[one.id]
                case MoveCells():
                    self._movable(sources, edit)

    def _movable(self, sources: Mapping[str, str], edit: MoveCells) -> None:
        _known(sources, edit.after)
        for cell_id in edit.cells:
            _known(sources, cell_id)
            self._at_rest(cell_id)
        if len(set(edit.cells)) < len(edit.cells) or edit.after in edit.cells:
            raise Refusal("bad_request", "A cell can be moved once, and not behind itself.")

    def _allowed(self, cell_id: str, right: str) -> None:
        for cell in self.cells:
            if cell["id"] == cell_id and cell["metadata"].get(right) is False:
                raise Refusal("read_only", f"The cell {cell_id} is marked as not {right}.", cell=cell_id)

    def _at_rest(self, cell_id: str) -> None:
        if cell_id in self.running:
            raise Refusal("not_finished", f"The cell {cell_id} is running.", cell=cell_id)


def _known(sources: Mapping[str, str], cell_id: str | None) -> None:
    if cell_id is not None and cell_id not in sources:
        raise unknown_cell(cell_id)


def _unchanged(sources: Mapping[str, str], cell_id: str, expected: str) -> None:
    _known(sources, cell_id)
    _same_source(cell_id, sources[cell_id], expected)


def _same_source(cell_id: str, source: str, expected: str) -> None:
    if source_hash(source) != expected:
        raise Refusal("stale_cell", f"The cell {cell_id} has changed.", cell=cell_id, source=source)
