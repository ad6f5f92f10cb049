"""Log of executions in this kernel, with fingerprints of variables after each, and the rows that frames lost in it.

Code that ran before the first prompt is known only by its source, from IPython's history. If the user has loaded
ipyflow, the reads that it traced are used too; nothing of it is imported here. Of frames that the code names, only the
shapes are read.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol, cast

from vibe_jupyter.context.read_ahead import KEPT, earlier_runs
from vibe_jupyter.files.shown_names import LONGEST_SHOWN
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.frame_operations import (
    ADDS,
    LOSES,
    RESHAPES,
    FrameOperation,
    frame_operations,
    main_operations,
)
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.notebook.replay import Execution, Mark, Replay
from vibe_jupyter.notebook.staleness import CellStatus, cell_standings
from vibe_jupyter.protocol import Cell
from vibe_jupyter.protocol.variable_effects import RowCount
from vibe_jupyter.variables.adapters import type_name
from vibe_jupyter.variables.describe import value_fingerprint
from vibe_jupyter.variables.plain_values import comparison_mark, is_scalar

_BEFORE, _AFTER = "pre_run_cell", "post_run_cell"
ROWS_TIME: Final = 0.02  # CPU seconds for counting rows, before and after each run
ROWS_KEPT: Final = 2_000  # runs of code whose row counts are remembered
_WORD: Final = lazy_pattern(r"[^\W\d]\w*")
_SHOWN: Final = 4  # operations listed per frame


class _Result(Protocol):
    """Interface of `IPython.core.interactiveshell.ExecutionResult`."""

    info: Any
    success: bool
    execution_count: int | None


class ExecutionLog:
    """Execution log of a kernel. Main thread only, except `standings` and `read`."""

    def __init__(self, shell: Any, namespace: Callable[[], Mapping[str, object]], replay: Replay | None = None) -> None:
        """Start logging.

        Args:
            shell: IPython's shell.
            namespace: Returns the user's variables.
            replay: Replay of the runs that were read ahead, starting with the oldest remembered one.
        """
        self._shell = shell
        self.namespace = namespace
        self._replay = replay or Replay()
        last = self._replay.executions()[-1].number if replay else None
        for number, source in earlier_runs(shell, last or 0):
            self._replay.add(Execution(source, number))
        self.count = len(self._replay)  # runs so far, including those dropped from memory
        # Names mentioned by code outside of cells since variables were last fingerprinted.
        self._scratch: set[str] = set()
        shell.events.register(_AFTER, self._on_ran)
        self.rows = RowLedger(shell, namespace)

    def close(self) -> None:
        """Unregister the callbacks."""
        if self._on_ran in self._shell.events.callbacks[_AFTER]:
            self._shell.events.unregister(_AFTER, self._on_ran)
        self.rows.close()

    def executions(self) -> list[Execution]:
        """Return all runs so far, in order."""
        return self._replay.executions()

    def standings(self, cells: Sequence[Cell]) -> dict[str, CellStatus]:
        """Return the status of each code cell by id."""
        return cell_standings(cells, self._replay)

    def read(self) -> None:
        """Analyze code that ran but wasn't analyzed yet, so that listing cells is fast. Thread-safe."""
        self._replay.read()

    def _on_ran(self, result: _Result) -> None:
        info = result.info
        number = result.execution_count
        source = info.raw_cell
        names = cell_names(source)
        if number is None:  # names bound by code outside of cells may be restored
            self._scratch |= names.mentioned
            return
        namespace = self.namespace()
        is_open = bool(names.unknown) or any(step.act is Act.STAR for step in names.steps)
        if self._scratch:
            self._add(Execution("", marks=_marks(self._scratch - names.mentioned, namespace)))
            self._scratch = set()
        mentioned = namespace if is_open else _with_aliases(names.mentioned, namespace)
        cell_id = getattr(info, "cell_id", None)
        marks = _marks(mentioned, namespace)
        self._add(Execution(source, number, cell_id, result.success, marks, traced_reads(cell_id, namespace)))

    def _add(self, execution: Execution) -> None:
        self._replay.add(execution)
        self.count += 1
        if len(self._replay) > KEPT:
            self._replay = Replay(self._replay.executions()[KEPT // 10 :])


def _with_aliases(names: Iterable[str], namespace: Mapping[str, object]) -> set[str]:
    """Return these names, and all other names of the same objects."""
    found = {name for name in names if name in namespace}
    objects = {id(namespace[name]) for name in found}
    return found | {name for name, value in namespace.items() if id(value) in objects}


def _marks(names: Iterable[str], namespace: Mapping[str, object]) -> dict[str, Mark]:
    return {name: variable_mark(namespace[name]) for name in names if name in namespace}


def variable_mark(value: object) -> Mark:
    """Return a variable's current fingerprint."""
    if is_scalar(value):
        return Mark(0, (type_name(value), comparison_mark(value)), exact=True)
    look = value_fingerprint(value)
    if type(look) is int:
        return Mark(look)
    if type(look) is tuple:
        parts = cast("tuple[object, ...]", look)
        if parts[:1] == (id(value),):
            return Mark(id(value), parts[1:])
        return Mark(0, parts, exact=True)
    return Mark(0, look, exact=True)


_CELLS: Final = "ipyflow.data_model.cell"


def traced_reads(cell_id: str | None, names: Container[str]) -> frozenset[str]:
    """Return names that the cell read in its last run and that earlier cells bound; empty without ipyflow."""
    module: Any = sys.modules.get(_CELLS)
    if module is None or cell_id is None:
        return frozenset()
    try:
        parents = module.Cell.from_id(cell_id).dynamic_parents
        found = {str(symbol) for symbols in parents.values() for symbol in symbols}
    except Exception:  # noqa: BLE001 - another version of ipyflow, or a cell unknown to it
        return frozenset()
    return frozenset(name for name in found if name in names)


class RowLoss(NamedTuple):
    """A frame with fewer rows than the frame it was made from."""

    name: str
    source: str  # the frame it was made from; its own name if it was reassigned or changed in place
    before: int  # rows of the source
    after: int
    operations: tuple[str, ...]

    @property
    def words(self) -> str:
        """Description such as ``clean (of sales): 344 → 333 rows (−3 %), dropna``."""
        name = self.name if self.source == self.name else f"{self.name} (of {self.source})"
        percent = 100 * (self.before - self.after) / self.before
        digits = f"{percent:.1f}" if percent < 1 or 99 < percent < 100 else f"{percent:.0f}"
        what = f", {', '.join(self.operations[:_SHOWN])}" if self.operations else ""
        return f"{name}: {self.before:,} → {self.after:,} rows (−{digits} %){what}"


class RowStep(NamedTuple):
    """Rows lost by one run of code."""

    source: str
    cell: str | None  # id of the cell, if the front end sent it
    number: int | None  # execution count, or None for code outside of cells
    time: datetime  # end of the run, in UTC
    losses: tuple[RowLoss, ...]


class _Counted(NamedTuple):
    """A frame as it was counted."""

    rows: int
    identity: int


class RowLedger:
    """Row counts of a kernel's frames. Main thread only; `steps` may be read from any thread."""

    def __init__(self, shell: Any, namespace: Callable[[], Mapping[str, object]]) -> None:
        """Start counting.

        Args:
            shell: IPython's shell.
            namespace: Returns the user's variables.
        """
        self._shell = shell
        self._namespace = namespace
        # Running executions, outermost first, with the frames they name, or None if time ran out.
        self._running: list[tuple[object, dict[str, _Counted] | None]] = []
        self.steps: deque[RowStep] = deque(maxlen=ROWS_KEPT)
        shell.events.register(_BEFORE, self._before)
        shell.events.register(_AFTER, self._after)

    def close(self) -> None:
        """Unregister the callbacks."""
        for event, hear in ((_BEFORE, self._before), (_AFTER, self._after)):
            if hear in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, hear)

    def lines(self, source: str) -> tuple[str, ...]:
        """Return a line per loss of the latest run if it was of this code, for the model and for the user's step."""
        latest = self.steps[-1] if self.steps else None
        return _lines(latest.losses) if latest is not None and latest.source == source else ()

    def counts(self, source: str) -> tuple[RowCount, ...]:
        """Return the losses of the latest run if it was of this code, as reported from a copy."""
        latest = self.steps[-1] if self.steps else None
        if latest is None or latest.source != source:
            return ()
        return tuple(RowCount(*one[:4]) for one in latest.losses)

    @staticmethod
    def lines_of_counts(source: str, counts: Iterable[RowCount]) -> tuple[str, ...]:
        """Return `lines` for losses that a copy reported, skipping those that the code can't have caused."""
        made = {one.target: one for one in frame_operations(source)}
        counted = {one.name: one for one in counts if one.name in made and one.source in made[one.name].sources}
        return _lines(
            loss
            for name, one in counted.items()
            if (loss := _loss(made[name], {one.source: one.before}, {name: one.after})) is not None
        )

    def _before(self, info: Any) -> None:
        self._running.append((info, self._counted(_WORD.findall(info.raw_cell))))

    def _after(self, result: Any) -> None:
        info, before = result.info, None
        for at, (running, counted) in reversed(list(enumerate(self._running))):
            if running is info:
                before = counted
                del self._running[at:]
                break
        if before is None:  # began before the ledger existed, or names too many frames
            return
        source = info.raw_cell
        made = frame_operations(source) if before else ()
        if (after := self._counted(one.target for one in made)) is None:
            return
        number, cell = result.execution_count, getattr(info, "cell_id", None)
        self.steps.append(RowStep(source, cell, number, datetime.now(UTC), tuple(_losses(made, before, after))))

    def _counted(self, names: Iterable[str]) -> dict[str, _Counted] | None:
        """Return the frames of these names. None if time runs out, because sums over only some would be wrong."""
        from vibe_jupyter.variables.frame_changes import frame_shape  # noqa: PLC0415 - it comes with the first frame

        namespace, until = self._namespace(), time.thread_time() + ROWS_TIME
        counted: dict[str, _Counted] = {}
        for name in dict.fromkeys(names):
            if time.thread_time() > until:
                return None
            if name not in namespace or is_scalar(value := namespace[name]):
                continue
            if (shape := frame_shape(value)) is not None:
                counted[name] = _Counted(shape.rows, id(value))
        return counted


def _losses(
    made: Iterable[FrameOperation], before: Mapping[str, _Counted], after: Mapping[str, _Counted]
) -> Iterator[RowLoss]:
    rows, left = ({name: one.rows for name, one in counted.items()} for counted in (before, after))
    unknown: set[str] = set()  # frames made shorter or longer so far, whose rows in between were not counted
    for one in made:
        # The same frame as before: its line was not reached, because of an error or a condition.
        is_made = before.get(one.target) != after.get(one.target)
        frames = [name for name in one.sources if name in rows or name in unknown]
        is_counted = unknown.isdisjoint(frames if main_operations(one.operations) & ADDS else frames[:1])
        if is_made and is_counted and (loss := _loss(one, rows, left)) is not None:
            yield loss
        if rows.get(one.target) != left.get(one.target):
            unknown.add(one.target)


def _loss(one: FrameOperation, before: Mapping[str, int], after: Mapping[str, int]) -> RowLoss | None:
    """Return the rows that a frame lost if its name became shorter, or if it was joined or cleaned of rows."""
    sources = [name for name in one.sources if name in before]
    operations = main_operations(one.operations)
    is_cleaned = bool(operations & LOSES) and not operations & RESHAPES
    if one.target not in after or not sources or not (is_cleaned or sources[0] == one.target):
        return None
    rows = sum(before[name] for name in (sources if operations & ADDS else sources[:1]))
    if after[one.target] >= rows:
        return None
    shown = tuple(name for name in one.operations if len(name) <= LONGEST_SHOWN)
    return RowLoss(one.target, sources[0], rows, after[one.target], shown)


def _lines(losses: Iterable[RowLoss]) -> tuple[str, ...]:
    return tuple(f"rows lost: {one.words}" for one in losses)
