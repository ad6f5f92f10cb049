"""Replay of the kernel's executions in order: what each run of code read and left."""

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.name_steps import BUILTINS, Act, FunctionNames, NameStep

_DEEP: Final = 20  # depth to which functions calling functions are followed


class Mark(NamedTuple):
    """State of a variable at the end of a run."""

    identity: int
    # Equal while the value looks the same, even for another object; None if that can't be determined.
    content: object = None
    exact: bool = False  # True if equal contents imply equal values


class Execution(NamedTuple):
    """A run of code in the kernel."""

    source: str  # "" if only its effects are known
    number: int | None = None  # execution count, if any
    cell: str | None = None  # id of its cell, if the front end sent it
    ok: bool = True
    # Marks at the end of the run, at least for names in the code; None if they weren't recorded.
    marks: Mapping[str, Mark] | None = None
    traced: frozenset[str] = frozenset()  # names of earlier cells that a tracer saw it read, regardless of its code


class Version:
    """The state of a variable between two changes."""

    def __init__(
        self, run: int, source: str = "", key: str = "", *, mark: Mark | None = None, is_guess: bool = False
    ) -> None:
        self.run = run  # index of the execution that made it
        self.source = source
        self.key = key
        self.mark = mark
        self.is_guess = is_guess  # True if the execution may have bound the name, which can't be determined


class _Binding:
    def __init__(self, version: Version, later: FunctionNames | None = None, uses: tuple[str, ...] = ()) -> None:
        self.version = version
        self.later = later
        self.uses = uses  # names that are read wherever this one is


class Trace:
    """Reads and effects of one execution."""

    def __init__(self) -> None:
        self.reads: dict[str, Version | None] = {}
        self.left: dict[str, Version | None] = {}
        self.guess: Version | None = None  # stands for any name that it may have bound


class Replay:
    """All executions in order. One thread adds; any thread may read."""

    def __init__(self, executions: Iterable[Execution] = ()) -> None:
        self._executions = list(executions)
        self._traces: list[Trace] = []  # of the executions processed so far
        self._reading = threading.Lock()
        self._env: dict[str, _Binding] = {}
        self._same: dict[str, set[str]] = {}  # all names bound to the same object, including the key
        self._guess: Version | None = None
        self._before: dict[tuple[str | None, str], Trace] = {}

    def __len__(self) -> int:
        return len(self._executions)

    def executions(self) -> list[Execution]:
        """Return all executions so far, in order."""
        return list(self._executions)

    def add(self, execution: Execution) -> None:
        """Append an execution. Its code is analyzed on demand."""
        self._executions.append(execution)

    def read(self, seconds: float = math.inf) -> bool:
        """Process pending executions for about `seconds` at most, and return whether all are done."""
        end = time.perf_counter() + seconds
        with self._reading:
            while len(self._traces) < len(self._executions):
                if time.perf_counter() >= end:
                    return False
                place = len(self._traces)
                self._traces.append(self._run(place, self._executions[place]))
        return True

    def traces(self) -> Sequence[Trace]:
        """Return the trace of each execution, processing pending ones first."""
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
        """Reconcile what the code implies with the recorded marks."""
        for name, mark in marks.items():
            binding = self._env.get(name)
            if binding is None:
                if trace.guess is not None or (not one.source and self._guess is None):
                    self._env[name] = _Binding(Version(place, one.source, mark=mark))
                    trace.left[name] = self._env[name].version
                continue
            old = before.get(name)
            known = old.mark if old is not None else None
            if old is not None and binding.version is old:  # the code has no step that touches the name
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
        """Restore the reads of an identical earlier run for names that this run left unchanged.

        Otherwise a run that is repeated would seem to depend on its own results.
        """
        key = (one.cell, one.source)
        earlier = self._before.get(key)
        if earlier is not None:
            for name, version in trace.reads.items():
                kept = name in trace.left and trace.left[name] is before.get(name) and name in earlier.reads
                if kept and version is before.get(name):
                    trace.reads[name] = earlier.reads[name]
        self._before[key] = trace


class _Before:
    """Variables now, and before the current execution."""

    def __init__(self, env: dict[str, _Binding]) -> None:
        self.env = env
        self._was: dict[str, Version | None] = {}

    def get(self, name: str) -> Version | None:
        """Return the version before the execution."""
        if name in self._was:
            return self._was[name]
        found = self.env.get(name)
        return found.version if found is not None else None

    def set(self, name: str, binding: _Binding | None) -> None:
        """Bind the name, or unbind it if `binding` is None."""
        self._was.setdefault(name, self.get(name))
        if binding is None:
            self.env.pop(name, None)
        else:
            self.env[name] = binding


class _Run:
    """An execution in progress. Applies its steps in order."""

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
        """Record that the execution may have bound any name."""
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
            return  # settings of a library rather than data
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
        """Return what calling a function changes, including the functions it uses."""
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
