"""Cell staleness: whether a cell's outputs still follow from the cells above, based on what each run read and bound.

The kernel's executions are replayed twice: in execution order, for what each read, and in notebook order, for what each
would read if all were run again. A cell is stale if the two differ.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.notebook.cell_names import cell_names, code_shape, gives_prompt
from vibe_jupyter.notebook.name_steps import BUILTINS, Act, NameStep
from vibe_jupyter.notebook.replay import Execution, Replay, Version
from vibe_jupyter.protocol import Cell, CellState

_REASONS: Final = 3  # reasons given for one cell
_OTHER_KERNEL: Final = "it ran before this kernel was started"


class CellStatus(NamedTuple):
    """Status of a cell relative to the cells above it."""

    state: CellState
    why: str = ""  # what it depends on, or why the state is unknown; "" if there is nothing to say
    # Names it depends on, each with the id of the cell that changed it, or None if that cell is gone.
    waits: tuple[tuple[str, str | None], ...] = ()


def cell_standings(cells: Sequence[Cell], replay: Replay) -> dict[str, CellStatus]:
    """Return the status of each code cell by id.

    Args:
        cells: All cells, in notebook order.
        replay: All executions of the kernel so far.
    """
    executions = replay.executions()
    return _Judgement(cells, executions, replay, _last_runs(cells, executions)).standings()


def with_standings(cells: Iterable[Cell], standings: Mapping[str, CellStatus]) -> tuple[Cell, ...]:
    """Return the cells with their status set."""
    return tuple(
        cell.model_copy(update={"state": found.state, "why": found.why}) if (found := standings.get(cell.id)) else cell
        for cell in cells
    )


def dependents(cells: Sequence[Cell], changed: Iterable[str]) -> list[str]:
    """Return the ids of later cells that read what these cells bind or change, in notebook order.

    Compares the current sources, whether or not they have run.
    """
    wanted, touched = set(changed), set[str]()
    found: list[str] = []
    for cell in cells:
        if cell.kind != "code":
            continue
        names = cell_names(cell.source)
        bound = {step.name for step in names.steps if step.act in (Act.BIND, Act.CHANGE, Act.ALIAS)}
        reads = _exposed_reads(names.steps)
        if cell.id in wanted:
            touched |= bound
        elif reads & touched:
            found.append(cell.id)
            touched |= bound
        else:
            touched -= bound
    return found


def _exposed_reads(steps: Iterable[NameStep]) -> set[str]:
    own: set[str] = set()
    reads: set[str] = set()
    for step in steps:
        if step.act in (Act.READ, Act.CHANGE, Act.CALL):
            reads |= {step.name} - own
        elif step.act in (Act.BIND, Act.ALIAS, Act.SURE):
            reads |= set(step.others) - own
            own.add(step.name)
        elif step.act in (Act.FORGET, Act.DELETE):
            own.discard(step.name)
        if step.later is not None:
            reads |= set(step.later.reads) - own
    return reads


def _last_runs(cells: Sequence[Cell], executions: Sequence[Execution]) -> dict[str, int]:
    """Return the index of each cell's latest execution in this kernel."""
    ids = {cell.id for cell in cells}
    by_cell: dict[str, int] = {}
    by_number: dict[int, int] = {}
    for place, one in enumerate(executions):
        if one.cell in ids:
            by_cell[one.cell] = place
        elif one.number is not None:
            by_number[one.number] = place
    counts = Counter(cell.execution_count for cell in cells)
    found: dict[str, int] = {}
    for cell in cells:
        place = by_cell.get(cell.id)
        if place is None and cell.execution_count is not None and counts[cell.execution_count] == 1:
            place = by_number.get(cell.execution_count)
        if place is not None:
            found[cell.id] = place
    return found


class _Judgement:
    """Staleness computation over the cells in notebook order."""

    def __init__(
        self, cells: Sequence[Cell], executions: Sequence[Execution], replay: Replay, last: Mapping[str, int]
    ) -> None:
        self._cells = cells
        self._executions = executions
        self._traces = replay.traces()
        self._last = last
        self._cell_of = {place: cell_id for cell_id, place in last.items()}
        self._by_id = {cell.id: cell for cell in cells}
        self._expected: dict[str, Version | None] = {}
        self._guess: Version | None = None
        self._waiting: dict[str, str] = {}  # the cell that will bind or change a name when it runs again

    def standings(self) -> dict[str, CellStatus]:
        found: dict[str, CellStatus] = {}
        for cell in self._cells:
            if cell.kind == "code":
                status = found[cell.id] = self._standing(cell)
                self._pass(cell, status)
        return found

    def _standing(self, cell: Cell) -> CellStatus:
        place = self._last.get(cell.id)
        if cell.state == "running":
            return CellStatus("running")
        if cell.execution_count is None and place is None:
            return CellStatus("never")
        if gives_prompt(cell.source):
            return CellStatus("fresh")
        if place is None:
            if cell.state in ("edited", "failed"):
                return CellStatus(cell.state)
            return CellStatus("unknown", _OTHER_KERNEL)
        ran = self._executions[place]
        if ran.source != cell.source and code_shape(ran.source) != code_shape(cell.source):
            return CellStatus("edited")
        if not ran.ok or cell.state == "failed":
            return CellStatus("failed")
        return self._compare(cell, place, cell_names(ran.source).unknown)

    def _compare(self, cell: Cell, place: int, unknown: str) -> CellStatus:
        reasons: list[str] = []
        guesses: list[str] = []
        waits: dict[str, str | None] = {}
        for name, read in self._traces[place].reads.items():
            if (by := self._waiting.get(name)) is not None:
                waits[name] = by
                reasons.append(f"{name} waits for {self._cell_name(by)}")
                continue
            known = name in self._expected
            expected = self._expected.get(name) if known else (None if name in BUILTINS else self._guess)
            if expected is read or _is_same(expected, read):
                continue
            is_guess = (expected is not None and expected.is_guess) or (read is not None and read.is_guess)
            why, by = self._difference(cell, place, name, expected, read)
            if is_guess:
                guesses.append(why)
            else:
                waits[name] = by
                reasons.append(why)
        if reasons:
            more = f", and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
            return CellStatus("stale", "; ".join(reasons[:_REASONS]) + more, tuple(waits.items()))
        if unknown or guesses:
            return CellStatus("unknown", unknown or "; ".join(guesses[:_REASONS]))
        return CellStatus("fresh")

    def _difference(
        self, cell: Cell, place: int, name: str, expected: Version | None, read: Version | None
    ) -> tuple[str, str | None]:
        """Explain why a cell read another version than it would now, and return the cell that made the newer one."""
        if expected is not None and expected.run > place:
            by = self._cell_of.get(expected.run)
            return f"{name} changed by {self._run_name(expected.run)}", by
        if read is None:
            return f"{name} is bound by {self._run_name(expected.run) if expected else 'nothing'}", None
        by = self._cell_of.get(read.run)
        if by == cell.id or self._executions[read.run].cell == cell.id:
            return f"{name} as it left it itself when it ran before", cell.id
        if by is None:
            return f"{name} from {self._run_name(read.run)}, which is in no cell any more", None
        return f"{name} from {self._run_name(read.run)}, run before it out of order", by

    def _pass(self, cell: Cell, status: CellStatus) -> None:
        """Record what the cell leaves for those below it."""
        place = self._last.get(cell.id)
        if place is None:
            return
        trace = self._traces[place]
        self._expected.update(trace.left)
        if trace.guess is not None:
            self._guess = trace.guess
        bound = set(trace.left)
        if status.state == "edited":
            steps = cell_names(cell.source).steps
            bound |= {step.name for step in steps if step.act in (Act.BIND, Act.CHANGE, Act.ALIAS, Act.DELETE)}
        for name in bound:
            if status.state in ("edited", "stale"):
                self._waiting[name] = cell.id
            else:
                self._waiting.pop(name, None)

    def _cell_name(self, cell_id: str) -> str:
        cell = self._by_id[cell_id]
        return f"#{cell.number}"

    def _run_name(self, place: int) -> str:
        number = self._executions[place].number
        count = f"[{number}]" if number is not None else "code the agent ran"
        cell_id = self._cell_of.get(place)
        return f"{self._cell_name(cell_id)} {count}" if cell_id is not None else count


def _is_same(one: Version | None, other: Version | None) -> bool:
    """Return whether two versions are certainly equal."""
    if one is None or other is None:
        return False
    if one.key and one.key == other.key:
        return True
    if one.mark is None or other.mark is None or one.mark.content is None:
        return False
    return one.mark.content == other.mark.content and (one.mark.exact or one.source == other.source)
