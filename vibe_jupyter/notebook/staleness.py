"""Which cells still show what the cells above them give: by what each read, and which run bound or changed that.

The executions of the kernel are gone through twice: in the order in which they happened, for what each read; and in the
order of the notebook, for what each would read if all were run again. A cell is stale where the two differ.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from vibe_jupyter.notebook.cell_names import cell_names, code_shape, gives_prompt
from vibe_jupyter.notebook.name_steps import BUILTINS, Act, FunctionNames, NameStep
from vibe_jupyter.protocol import Cell, CellState

_REASONS: Final = 3
"""Names told of one cell."""
_DEEP: Final = 20
"""Functions that use functions, followed so far."""
_OTHER_KERNEL: Final = "it ran before this kernel was started"


class Mark(NamedTuple):
    """How a variable looked when a run was over."""

    identity: int
    content: object = None
    """Equal while it looks the same, also for another object; None where nobody can see that."""
    exact: bool = False
    """Whether equal contents are equal values."""


class Execution(NamedTuple):
    """One run of code in the kernel."""

    source: str
    """Empty where only what it left is known."""
    number: int | None = None
    """Execution count; None for code that has none."""
    cell: str | None = None
    """Id of its cell, where the front end said so."""
    ok: bool = True
    marks: Mapping[str, Mark] | None = None
    """Name to how it looked at the end, at least for the names that the code mentions; None where nobody looked."""
    traced: frozenset[str] = frozenset()
    """Names of earlier cells that a tracer saw it read, whatever its code says."""


class CellStatus(NamedTuple):
    """How a cell stands to the cells above it."""

    state: CellState
    why: str = ""
    """What it waits for, or why nobody can tell; empty where there is nothing to say."""
    waits: tuple[tuple[str, str | None], ...] = ()
    """Each name it waits for, with the id of the cell that changed it; None where that cell is gone."""


@dataclass(eq=False, slots=True)
class _Version:
    """A variable between two changes of it."""

    run: int
    """Place of the execution that made it."""
    source: str = ""
    key: str = ""
    mark: Mark | None = None
    is_guess: bool = False
    """Whether the execution may have bound the name, and nobody knows."""


@dataclass(slots=True)
class _Binding:
    version: _Version
    later: FunctionNames | None = None
    uses: tuple[str, ...] = ()
    """Names that are read where this one is."""


@dataclass(slots=True)
class _Trace:
    """What one execution read, and what it left."""

    reads: dict[str, _Version | None] = field(default_factory=dict[str, _Version | None])
    left: dict[str, _Version | None] = field(default_factory=dict[str, _Version | None])
    guess: _Version | None = None
    """Stands for names that it may have bound."""


def cell_standings(cells: Sequence[Cell], replay: "Replay") -> dict[str, CellStatus]:
    """Cell id to how it stands, for cells of code.

    Args:
        cells: all of the notebook, in its order.
        replay: of all executions of the kernel so far.
    """
    executions = replay.executions()
    return _Judgement(cells, executions, replay, _last_runs(cells, executions)).standings()


def with_standings(cells: Iterable[Cell], standings: Mapping[str, CellStatus]) -> tuple[Cell, ...]:
    """The cells, each as it stands."""
    return tuple(
        cell.model_copy(update={"state": found.state, "why": found.why}) if (found := standings.get(cell.id)) else cell
        for cell in cells
    )


def dependents(cells: Sequence[Cell], changed: Iterable[str]) -> list[str]:
    """Ids of the cells below that read what these cells bind or change, by their present sources; in notebook order."""
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
    """Cell id to the place of its last execution, where this kernel ran it."""
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


class Replay:
    """The executions in the order in which they happened. One thread adds, any may ask."""

    def __init__(self, executions: Iterable[Execution] = ()) -> None:
        self.traces: list[_Trace] = []
        """Of each execution."""
        self._executions: list[Execution] = []
        self._env: dict[str, _Binding] = {}
        self._same: dict[str, set[str]] = {}
        """Name to all names of the same object, itself included."""
        self._guess: _Version | None = None
        self._before: dict[tuple[str | None, str], _Trace] = {}
        for one in executions:
            self.add(one)

    def executions(self) -> list[Execution]:
        """All so far, in their order."""
        return list(self._executions)

    def add(self, execution: Execution) -> None:
        """The newest."""
        self.traces.append(self._run(len(self._executions), execution))
        self._executions.append(execution)

    def _run(self, place: int, one: Execution) -> _Trace:
        names = cell_names(one.source)
        trace = _Trace()
        if names.is_prompt:
            return trace
        before = _Before(self._env)
        run = _Run(place, one.source, trace, before, self._same, self._guess)
        for name in one.traced:
            run.take(NameStep(Act.READ, name))
        for step in names.steps:
            run.take(step)
        if names.unknown:
            run.guess()
        if one.marks is not None:
            self._look(place, one, one.marks, before, trace)
        if trace.guess is not None:
            self._guess = trace.guess
        self._as_before(one, before, trace)
        return trace

    def _look(self, place: int, one: Execution, marks: Mapping[str, Mark], before: "_Before", trace: _Trace) -> None:
        """Join what the code says with how the variables look."""
        for name, mark in marks.items():
            binding = self._env.get(name)
            if binding is None:
                if trace.guess is not None or (not one.source and self._guess is None):
                    self._env[name] = _Binding(_Version(place, one.source, mark=mark))
                    trace.left[name] = self._env[name].version
                continue
            old = before.get(name)
            known = old.mark if old is not None else None
            if old is not None and binding.version is old:  # the code does not say that it touches the name
                if known is None:
                    old.mark = mark
                elif known != mark:
                    binding.version = trace.left[name] = _Version(place, one.source, mark=mark)
                elif trace.guess is not None and old.source == one.source:
                    trace.left[name] = old
                continue
            binding.version.mark = mark
            if old is None or known is None or mark.content is None or known.content != mark.content:
                continue
            if mark.exact or old.source == one.source:
                old.mark = mark
                binding.version = trace.left[name] = old

    def _as_before(self, one: Execution, before: "_Before", trace: _Trace) -> None:
        """A run again that changed nothing has read what it read before, and not what it left itself."""
        key = (one.cell, one.source)
        earlier = self._before.get(key)
        if earlier is not None:
            for name, version in trace.reads.items():
                kept = name in trace.left and trace.left[name] is before.get(name) and name in earlier.reads
                if kept and version is before.get(name):
                    trace.reads[name] = earlier.reads[name]
        self._before[key] = trace


class _Before:
    """Variables as they are, and as they were before the execution that is looked at."""

    def __init__(self, env: dict[str, _Binding]) -> None:
        self.env = env
        self._was: dict[str, _Version | None] = {}

    def get(self, name: str) -> _Version | None:
        """The version before the execution."""
        if name in self._was:
            return self._was[name]
        found = self.env.get(name)
        return found.version if found is not None else None

    def set(self, name: str, binding: _Binding | None) -> None:
        """Bind it, or with None unbind it."""
        self._was.setdefault(name, self.get(name))
        if binding is None:
            self.env.pop(name, None)
        else:
            self.env[name] = binding


class _Run:
    """One execution: takes its steps, in their order."""

    def __init__(
        self,
        place: int,
        source: str,
        trace: _Trace,
        variables: _Before,
        same: dict[str, set[str]],
        guess: _Version | None,
    ) -> None:
        self._place = place
        self._source = source
        self._trace = trace
        self._env = variables.env
        self._variables = variables
        self._same = same
        self._guess = guess
        self._own: set[str] = set()

    def take(self, step: NameStep) -> None:
        match step.act:
            case Act.READ:
                self._read(step.name)
            case Act.BIND:
                self._bind(step)
            case Act.ALIAS:
                self._alias(step.name, step.others[0])
            case Act.CHANGE:
                self._read(step.name)
                self._change(step.name)
            case Act.CALL:
                self._call(step)
            case Act.DELETE:
                self._delete(step.name)
            case Act.FORGET | Act.SURE:
                self._settle(step.name, is_own=step.act is Act.SURE)
            case Act.STAR:
                self._trace.guess = self._guess = _Version(
                    self._place, self._source, key=f"star {step.key}", is_guess=True
                )

    def _settle(self, name: str, *, is_own: bool) -> None:
        (self._own.add if is_own else self._own.discard)(name)
        binding = self._env.get(name)
        if binding is not None and binding.version.run == self._place:
            binding.version.key = ""

    def guess(self) -> None:
        """Anything may be bound by now."""
        self._trace.guess = self._guess = _Version(self._place, self._source, is_guess=True)

    def _read(self, name: str, depth: int = 0) -> None:
        binding = self._env.get(name)
        if name not in self._own and name not in self._trace.reads:
            if binding is not None:
                self._trace.reads[name] = binding.version
            else:
                self._trace.reads[name] = None if name in BUILTINS else self._guess
        elif depth:
            return
        if binding is not None and depth < _DEEP:
            if binding.later is not None:
                for used in binding.later.reads:
                    self._read(used, depth + 1)
            for used in binding.uses:
                self._read(used, depth + 1)
                self._read_methods(used, depth + 1)

    def _read_methods(self, name: str, depth: int = 0) -> None:
        found = self._env.get(name)
        for used in found.later.method_reads if found is not None and found.later is not None else ():
            self._read(used, depth + 1)

    def _bind(self, step: NameStep) -> None:
        name, old = step.name, self._env.get(step.name)
        uses = tuple(
            one for one in step.others if (found := self._env.get(one)) is not None and (found.later or found.uses)
        )
        version = _Version(self._place, self._source, step.key)
        if old is not None and step.key and old.version.key == step.key:
            version = old.version
        self._rebind(name, _Binding(version, step.later, uses if name not in uses else ()))

    def _alias(self, name: str, root: str) -> None:
        found = self._env.get(root)
        if found is None or name == root:
            self._rebind(name, _Binding(_Version(self._place, self._source)))
            return
        self._rebind(name, _Binding(_Version(self._place, self._source), found.later, found.uses))
        group = self._same.setdefault(root, {root})
        group.add(name)
        self._same[name] = group

    def _rebind(self, name: str, binding: _Binding) -> None:
        self._same.pop(name, set[str]()).discard(name)
        self._variables.set(name, binding)
        self._trace.left[name] = binding.version
        self._own.add(name)

    def _change(self, name: str) -> None:
        found = self._env.get(name)
        if found is not None and found.version.key.startswith("module "):
            return  # settings of a library, not data
        for one in self._same.get(name, {name}):
            old = self._env.get(one)
            version = _Version(self._place, self._source)
            self._variables.set(one, _Binding(version, old.later if old else None, old.uses if old else ()))
            self._trace.left[one] = version

    def _call(self, step: NameStep) -> None:
        found = self._env.get(step.name)
        if found is None:
            return
        if step.method:
            self._read_methods(step.name)
            if any(self._has_changing(one, step.method) for one in found.uses):
                self._change(step.name)
            return
        for place in found.later.changes if found.later is not None else ():
            if place < len(step.others) and step.others[place]:
                self._change(step.others[place])
        for changed in self._changed_by(step.name):
            self._change(changed)

    def _changed_by(self, function: str) -> list[str]:
        """What a call of a function changes, and what the functions it uses change."""
        waiting, seen, changed = [function], set[str](), list[str]()
        while waiting and len(seen) < _DEEP:
            binding = self._env.get(name := waiting.pop())
            if binding is None or name in seen:
                continue
            seen.add(name)
            if binding.later is not None:
                changed += binding.later.binds
                waiting += binding.later.reads
            waiting += binding.uses
        return changed

    def _has_changing(self, name: str, method: str) -> bool:
        found = self._env.get(name)
        return found is not None and found.later is not None and method in found.later.methods

    def _delete(self, name: str) -> None:
        self._same.pop(name, set[str]()).discard(name)
        self._variables.set(name, None)
        self._trace.left[name] = None
        self._own.discard(name)


class _Judgement:
    """The cells in the order of the notebook."""

    def __init__(
        self, cells: Sequence[Cell], executions: Sequence[Execution], replay: Replay, last: Mapping[str, int]
    ) -> None:
        self._cells = cells
        self._executions = executions
        self._traces = replay.traces
        self._last = last
        self._cell_of = {place: cell_id for cell_id, place in last.items()}
        self._by_id = {cell.id: cell for cell in cells}
        self._expected: dict[str, _Version | None] = {}
        self._guess: _Version | None = None
        self._waiting: dict[str, str] = {}
        """Name to the cell that will bind or change it when it runs again."""

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
        self, cell: Cell, place: int, name: str, expected: _Version | None, read: _Version | None
    ) -> tuple[str, str | None]:
        """Why a cell read another version than it would read now, and the cell that made the newer one."""
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
        """What the cell leaves for those below it."""
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


def _is_same(one: _Version | None, other: _Version | None) -> bool:
    """Whether two versions are surely equal."""
    if one is None or other is None:
        return False
    if one.key and one.key == other.key:
        return True
    if one.mark is None or other.mark is None or one.mark.content is None:
        return False
    return one.mark.content == other.mark.content and (one.mark.exact or one.source == other.source)
