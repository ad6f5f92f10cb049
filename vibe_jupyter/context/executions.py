"""Log of executions in this kernel, with fingerprints of variables after each, and row counts of frames around it.

Code that ran before the first prompt is known only by its source, from IPython's history. If the user has loaded
ipyflow, the reads that it traced are used too; nothing of it is imported here. Of frames that the code names, only the
shapes are read.
"""

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

from vibe_jupyter.context.read_ahead import KEPT, earlier_runs
from vibe_jupyter.files.shown_names import LONGEST_SHOWN
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.frame_operations import (
    ADDS,
    JOINS,
    LOSES,
    RESHAPES,
    TAKES,
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
RARE: Final = 1_000  # numbers this large rarely occur in a text by chance
_WORD: Final = lazy_pattern(r"[^\W\d]\w*")
# Excludes parts of decimals, dates, times, versions and percentages.
_NUMBER: Final = lazy_pattern(
    r"(?<![\w.:/+-])(?P<whole>\d{1,3}(?:[,_\u2009\u202f\xa0]\d{3})+|\d+)(?:\.0+)?(?![\w:/%]|[.,-]\d|\s*%)"
)
_SHAPE: Final = lazy_pattern(r"\(\s*(\d+),\s*\d+\s*\)")
_BESIDE: Final = 3  # words on each side of a number that may show what it counts
_OF_ROWS: Final = lazy_pattern(
    r"rows?|records?|observations?|entries|samples?|count|len|shape|after|left|dropp?(?:ed|ing)?|remov(?:ed|ing)|lost"
    r"|losing|remain(?:s|ing)?|kept|exclud(?:ed|ing)|filtered|discarded|gone|fewer"
    r"|zeilen?|datensätze|lignes?|filas?|righe|linhas?",
    re.IGNORECASE,
)
# Words that directly follow a number which doesn't count rows.
_OF_OTHERS: Final = lazy_pattern(
    r"columns?|cols?|features?|variables?|spalten?|colonnes?|columnas?|percent|days?|hours?|minutes?|seconds?|ms|s",
    re.IGNORECASE,
)
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


RowsKind = Literal["read", "lost", "taken", "reshaped", "added", "same"]


class RowChange(NamedTuple):
    """Row counts of one frame before and after a run."""

    name: str
    # The frame it was made from: its own name if it was reassigned, or "" if it was read or created.
    source: str
    before: int | None  # rows of the source, or None without one
    after: int
    operations: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def kind(self) -> RowsKind:
        """Kind of change. ``lost`` means that an operation dropped rows without reporting how many."""
        names = main_operations(self.operations)
        if self.before is None:
            return "read"
        if self.after == self.before:
            return "same"
        if names & RESHAPES:
            return "reshaped"
        if self.after > self.before:
            return "added"
        if names & LOSES or (self.name == self.source and not names & (TAKES | ADDS)):
            return "lost"
        return "taken"

    @property
    def words(self) -> str:
        """Description such as ``clean (of sales): 344 → 333 rows (−3 %), dropna``."""
        name = f"{self.name} (of {self.source})" if self.source not in ("", self.name) else self.name
        what = f", {', '.join(self.operations[:_SHOWN])}" if self.operations else ""
        if self.kind == "added" and main_operations(self.operations) & JOINS:
            what += ", keys match several rows"
        if self.before is None:
            return f"{name}: {self.after:,} rows{what}"
        return f"{name}: {self.before:,} → {self.after:,} rows ({_share(self.before, self.after)}){what}"

    def is_told(self, text: str) -> bool:
        """Return whether a text mentions the number of remaining or dropped rows.

        Numbers below `RARE` occur in many texts by chance. Such a number counts only if it is alone on its line, part
        of a shape, on one line with the previous row count, or near a word for rows.
        """
        before = self.before or 0
        told = {self.after, before - self.after}
        return any(_names_rows(line, told, before) for line in text.splitlines())


class RowStep(NamedTuple):
    """Row changes of one run of code."""

    source: str
    cell: str | None  # id of the cell, if the front end sent it
    number: int | None  # execution count, or None for code outside of cells
    ok: bool
    time: datetime  # end of the run, in UTC
    changes: tuple[RowChange, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """A line per frame whose row count changed, for the model and for the step shown to the user."""
        return tuple(f"rows {'lost' if one.kind == 'lost' else 'changed'}: {one.words}" for one in self.told)

    @property
    def told(self) -> tuple[RowChange, ...]:
        """Changes of frames whose row count changed."""
        return tuple(one for one in self.changes if one.kind not in ("read", "same"))


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
        # Running executions, outermost first, with the rows of the frames they name, or None if time ran out.
        self._running: list[tuple[object, dict[str, int] | None]] = []
        self.steps: deque[RowStep] = deque(maxlen=ROWS_KEPT)
        shell.events.register(_BEFORE, self._before)
        shell.events.register(_AFTER, self._after)

    def close(self) -> None:
        """Unregister the callbacks."""
        for event, hear in ((_BEFORE, self._before), (_AFTER, self._after)):
            if hear in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, hear)

    def lines(self, source: str) -> tuple[str, ...]:
        """Return the changes of the latest run if it was of this code."""
        latest = self.steps[-1] if self.steps else None
        return latest.lines if latest is not None and latest.source == source else ()

    def counts(self, source: str) -> tuple[RowCount, ...]:
        """Return the row counts changed by the latest run if it was of this code, as reported from a copy."""
        latest = self.steps[-1] if self.steps else None
        if latest is None or latest.source != source:
            return ()
        return tuple(RowCount(one.name, one.source, one.before or 0, one.after) for one in latest.told)

    @staticmethod
    def lines_of_counts(source: str, counts: Iterable[RowCount]) -> tuple[str, ...]:
        """Return `lines` for row counts that a copy reported, skipping frames that the code doesn't create."""
        made = {one.target: one for one in frame_operations(source)}
        changes = tuple(
            RowChange(one.name, one.source, one.before, one.after, _short(made[one.name].operations))
            for one in counts
            if one.name in made and one.source in ("", *made[one.name].sources)
        )
        return RowStep(source, None, None, True, datetime.now(UTC), changes).lines

    def _before(self, info: Any) -> None:
        self._running.append((info, self._rows(_WORD.findall(info.raw_cell))))

    def _after(self, result: Any) -> None:
        info, before = result.info, None
        for at, (running, rows) in reversed(list(enumerate(self._running))):
            if running is info:
                before = rows
                del self._running[at:]
                break
        if before is None:  # began before the ledger existed, or names too many frames
            return
        source = info.raw_cell
        has_frames = before or self._rows(_WORD.findall(source))
        made = frame_operations(source) if has_frames else ()
        if (after := self._rows(one.target for one in made)) is None:
            return
        changes = (_change(one, before, after) for one in made)
        number, cell = result.execution_count, getattr(info, "cell_id", None)
        now = datetime.now(UTC)
        self.steps.append(RowStep(source, cell, number, bool(result.success), now, tuple(filter(None, changes))))

    def _rows(self, names: Iterable[str]) -> dict[str, int] | None:
        """Return the row counts of frames. None if time runs out, because sums over only some would be wrong."""
        from vibe_jupyter.variables.frame_changes import frame_shape  # noqa: PLC0415 - it comes with the first frame

        namespace, until = self._namespace(), time.thread_time() + ROWS_TIME
        rows: dict[str, int] = {}
        for name in dict.fromkeys(names):
            if time.thread_time() > until:
                return None
            if name not in namespace or is_scalar(value := namespace[name]):
                continue
            if (shape := frame_shape(value)) is not None:
                rows[name] = shape.rows
        return rows


def _names_rows(line: str, told: set[int], before: int) -> bool:
    """Return whether a line contains one of these numbers and uses it as a row count."""
    if any(int(shape) in told for shape in _SHAPE.findall(line)):
        return True
    found = [(int(re.sub(r"\D", "", one["whole"])), one) for one in _NUMBER.finditer(line)]
    numbers = {number for number, _ in found}
    return any(
        number >= RARE or one.group() == line.strip() or before in numbers or _counts_rows(line, one)
        for number, one in found
        if number in told and number != before
    )


def _counts_rows(line: str, number: re.Match[str]) -> bool:
    behind = _WORD.findall(line[number.end() :])[:_BESIDE]
    if behind and _OF_OTHERS.fullmatch(behind[0]):
        return False
    return any(_OF_ROWS.fullmatch(word) for word in (*_WORD.findall(line[: number.start()])[-_BESIDE:], *behind))


def _change(one: FrameOperation, before: Mapping[str, int], after: Mapping[str, int]) -> RowChange | None:
    if one.target not in after:
        return None
    sources = [name for name in one.sources if name in before]
    source = sources[0] if sources else ""
    # Created in the same run, so its row count before is unknown.
    if not source and any(name in after for name in one.sources):
        return None
    rows = sum(before[name] for name in sources) if main_operations(one.operations) & ADDS else before.get(source)
    return RowChange(one.target, source, rows if source else None, after[one.target], one.operations, one.files)


def _short(operations: Iterable[str]) -> tuple[str, ...]:
    """Drop operations with names too long to be displayed."""
    return tuple(one for one in operations if len(one) <= LONGEST_SHOWN)


def _share(before: int, after: int) -> str:
    if not before:
        return "new rows"
    percent = 100 * (after - before) / before
    size = abs(percent)
    digits = f"{size:.1f}" if size < 1 or 99 < size < 100 else f"{size:,.0f}"
    return f"{'−' if percent < 0 else '+'}{digits} %"
