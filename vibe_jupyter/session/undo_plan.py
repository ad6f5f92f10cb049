"""Undo plan of a run: edits of cells and files to restore, and what has changed since.

The only I/O is computing digests of files: the same run and cells give the same plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vibe_jupyter.protocol import Cell, CellEdit, DeleteCells, ExpectedCell, InsertCell, MoveCells, SetSource
from vibe_jupyter.session.snapshots import ChangedCell, ChangedFile, RunChanges, file_digest, shown_name


@dataclass
class UndoPlan:
    """Everything that undoing one run would do."""

    run: RunChanges
    edits: list[CellEdit] = field(default_factory=list[CellEdit])  # cell edits, to be applied together
    # To be restored, or deleted if they didn't exist before.
    files: list[ChangedFile] = field(default_factory=list[ChangedFile])
    restored: list[str] = field(default_factory=list[str])  # names of what is restored
    # Changed by someone else since, or between two changes of the agent; undoing loses that work.
    changed_since: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])  # what can't be restored, with the reason

    def restored_without(self, lost: Sequence[str]) -> list[str]:
        """Return `restored` without the items in `lost`."""
        failed = {one.partition(":")[0] for one in lost}
        return [one for one in self.restored if one.removesuffix(" (removed)") not in failed]


def joined_runs(runs: Sequence[RunChanges]) -> RunChanges:
    """Merge consecutive runs into one: the state before the first, and after the last."""
    first = runs[0]
    cells, files, moved = dict(first.cells), dict(first.files), dict(first.moved)
    for run in runs[1:]:
        for cell in run.cells.values():
            cells[cell.cell] = cells[cell.cell].then(cell) if cell.cell in cells else cell
        for path, file in run.files.items():
            files[path] = files[path].then(file) if path in files else file
        moved |= {cell: name for cell, name in run.moved.items() if cell not in moved}
    order = next((run.order for run in runs if run.order), ())
    variables = tuple(dict.fromkeys(name for run in runs for name in run.variables))
    return first._replace(cells=cells, files=files, moved=moved, order=order, variables=variables)


def plan_undo(run: RunChanges, cells: Sequence[Cell]) -> UndoPlan:
    """Plan how to restore the state before a run.

    Args:
        run: Changes of the run.
        cells: The current cells.
    """
    plan = UndoPlan(run)
    _CellPlan(plan, cells).make()
    for file in run.files.values():
        _plan_file(plan, file)
    return plan


def _plan_file(plan: UndoPlan, file: ChangedFile) -> None:
    now = file_digest(file.path)
    if now == file.digest:
        return
    if file.problem:
        plan.lost.append(f"{file.name}: {file.problem}")
        return
    if now != file.left or file.between:
        plan.changed_since.append(file.name)
    plan.files.append(file)
    plan.restored.append(file.name if file.digest else f"{file.name} (removed)")


class _CellPlan:
    """Planner of cell edits, in an order in which they can be applied."""

    def __init__(self, plan: UndoPlan, cells: Sequence[Cell]) -> None:
        self._plan = plan
        self._cells = {cell.id: cell for cell in cells}
        self._order = [cell.id for cell in cells]  # order after the edits planned so far

    def make(self) -> None:
        """Plan from the top, so that the cells above are already in place when a cell is inserted below them."""
        changes, moved = self._plan.run.cells, self._plan.run.moved
        self._remove_new([one for one in changes.values() if one.before is None])
        restored = {cell_id: one for cell_id, one in changes.items() if one.before is not None}
        for cell_id in sorted(dict.fromkeys((*restored, *moved)), key=self._place_of):
            if cell_id in restored:
                self._restore(restored[cell_id])
            if cell_id in moved:
                self._move_back(cell_id)

    def _remove_new(self, changes: Sequence[ChangedCell]) -> None:
        there = [self._cells[one.cell] for one in changes if one.after is not None and one.cell in self._cells]
        if not there:
            return
        self._plan.edits.append(DeleteCells(cells=tuple(ExpectedCell(id=one.id, expected=one.hash) for one in there)))
        for cell in there:
            self._order.remove(cell.id)
            self._plan.restored.append(f"{shown_name(cell)} (removed)")
            change = self._plan.run.cells[cell.id]
            if cell.source != change.after or change.between:
                self._plan.changed_since.append(shown_name(cell))

    def _restore(self, change: ChangedCell) -> None:
        assert change.before is not None
        cell = self._cells.get(change.cell)
        if cell is None:
            self._put_back(change)
            return
        before = change.before
        if (cell.source, cell.vibe) != (before.source, before.vibe):
            edit = SetSource(cell=cell.id, expected=cell.hash, source=before.source, vibe=before.vibe)
            self._plan.edits.append(edit)
        if cell.source != before.source:
            self._plan.restored.append(shown_name(cell))
            if cell.source != change.after or change.between:
                self._plan.changed_since.append(shown_name(cell))

    def _put_back(self, change: ChangedCell) -> None:
        assert change.before is not None
        if change.after is not None:
            self._plan.lost.append(f"{change.name}: it was deleted since")
            return
        after = self._above(change.cell)
        content = change.before
        insert = InsertCell(id=change.cell, after=after, kind=content.kind, source=content.source, vibe=content.vibe)
        self._plan.edits.append(insert)
        self._insert(change.cell, after)
        self._plan.restored.append(f"{change.name} (put back)")
        if change.had_outputs:
            self._plan.lost.append(f"the output of {change.name}: run it again")

    def _move_back(self, cell_id: str) -> None:
        if cell_id not in self._order:
            return
        place = self._order.index(cell_id)
        now = self._order[place - 1] if place else None
        self._order.remove(cell_id)
        after = self._above(cell_id)
        self._insert(cell_id, after)
        if after != now:
            self._plan.edits.append(MoveCells(cells=(cell_id,), after=after))
            self._plan.restored.append(f"{self._plan.run.moved[cell_id]} (moved back)")

    def _above(self, cell_id: str) -> str | None:
        """Return the nearest cell that was above and still exists, or None for the top."""
        before = self._plan.run.order
        above = before[: before.index(cell_id)] if cell_id in before else ()
        return next((one for one in reversed(above) if one in self._order), None)

    def _insert(self, cell_id: str, after: str | None) -> None:
        self._order.insert(0 if after is None else self._order.index(after) + 1, cell_id)

    def _place_of(self, cell_id: str) -> int:
        order = self._plan.run.order
        return order.index(cell_id) if cell_id in order else len(order)
