"""What each run of code in the kernel read, and what it left: the runs gone through in their order."""

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.name_steps import BUILTINS, Act, FunctionNames, NameStep

_DEEP: Final = 20
"""Functions that use functions, followed so far."""


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


class Version:
    """A variable between two changes of it."""

    def __init__(
        self, run: int, source: str = "", key: str = "", *, mark: Mark | None = None, is_guess: bool = False
    ) -> None:
        self.run = run
        """Place of the execution that made it."""
        self.source = source
        self.key = key
        self.mark = mark
        self.is_guess = is_guess
        """Whether the execution may have bound the name, and nobody knows."""


class _Binding:
    def __init__(self, version: Version, later: FunctionNames | None = None, uses: tuple[str, ...] = ()) -> None:
        self.version = version
        self.later = later
        self.uses = uses
        """Names that are read where this one is."""


class Trace:
    """What one execution read, and what it left."""

    def __init__(self) -> None:
        self.reads: dict[str, Version | None] = {}
        self.left: dict[str, Version | None] = {}
        self.guess: Version | None = None
        """Stands for names that it may have bound."""


class Replay:
    """The executions in the order in which they happened. One thread adds, any may read and ask."""

    def __init__(self, executions: Iterable[Execution] = ()) -> None:
        self._executions = list(executions)
        self._traces: list[Trace] = []
        """Of the executions that were read."""
        self._reading = threading.Lock()
        self._env: dict[str, _Binding] = {}
        self._same: dict[str, set[str]] = {}
        """Name to all names of the same object, itself included."""
        self._guess: Version | None = None
        self._before: dict[tuple[str | None, str], Trace] = {}

    def __len__(self) -> int:
        return len(self._executions)

    def executions(self) -> list[Execution]:
        """All so far, in their order."""
        return list(self._executions)

    def add(self, execution: Execution) -> None:
        """The newest. Its code is read when somebody asks, if not before."""
        self._executions.append(execution)

    def read(self, seconds: float = math.inf) -> bool:
        """Read the executions that were not read yet, for at most about so long; whether none is left."""
        end = time.perf_counter() + seconds
        with self._reading:
            while len(self._traces) < len(self._executions):
                if time.perf_counter() >= end:
                    return False
                place = len(self._traces)
                self._traces.append(self._run(place, self._executions[place]))
        return True

    def traces(self) -> Sequence[Trace]:
        """Of each execution."""
        self.read()
        return self._traces

    def _run(self, place: int, one: Execution) -> Trace:
        names = cell_names(one.source)
        trace = Trace()
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

    def _look(self, place: int, one: Execution, marks: Mapping[str, Mark], before: "_Before", trace: Trace) -> None:
        """Join what the code says with how the variables look."""
        for name, mark in marks.items():
            binding = self._env.get(name)
            if binding is None:
                if trace.guess is not None or (not one.source and self._guess is None):
                    self._env[name] = _Binding(Version(place, one.source, mark=mark))
                    trace.left[name] = self._env[name].version
                continue
            old = before.get(name)
            known = old.mark if old is not None else None
            if old is not None and binding.version is old:  # the code does not say that it touches the name
                if known is None:
                    old.mark = mark
                elif known != mark:
                    binding.version = trace.left[name] = Version(place, one.source, mark=mark)
                elif trace.guess is not None and old.source == one.source:
                    trace.left[name] = old
                continue
            binding.version.mark = mark
            if old is None or known is None or mark.content is None or known.content != mark.content:
                continue
            if mark.exact or old.source == one.source:
                old.mark = mark
                binding.version = trace.left[name] = old

    def _as_before(self, one: Execution, before: "_Before", trace: Trace) -> None:
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
        self._was: dict[str, Version | None] = {}

    def get(self, name: str) -> Version | None:
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
        trace: Trace,
        variables: _Before,
        same: dict[str, set[str]],
        guess: Version | None,
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
                self._trace.guess = self._guess = Version(
                    self._place, self._source, key=f"star {step.key}", is_guess=True
                )

    def _settle(self, name: str, *, is_own: bool) -> None:
        (self._own.add if is_own else self._own.discard)(name)
        binding = self._env.get(name)
        if binding is not None and binding.version.run == self._place:
            binding.version.key = ""

    def guess(self) -> None:
        """Anything may be bound by now."""
        self._trace.guess = self._guess = Version(self._place, self._source, is_guess=True)

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
        version = Version(self._place, self._source, step.key)
        if old is not None and step.key and old.version.key == step.key:
            version = old.version
        self._rebind(name, _Binding(version, step.later, uses if name not in uses else ()))

    def _alias(self, name: str, root: str) -> None:
        found = self._env.get(root)
        if found is None or name == root:
            self._rebind(name, _Binding(Version(self._place, self._source)))
            return
        self._rebind(name, _Binding(Version(self._place, self._source), found.later, found.uses))
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
            version = Version(self._place, self._source)
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
