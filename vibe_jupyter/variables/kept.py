"""What variables held before code of a run, kept in memory so that `%vibe undo` restores them.

Each object that the code may reach is kept for itself, by its parts: a list by what stands in it, an array by its
values, a frame by a copy that shares its columns until one is written to. It is restored in place, so that all names
and containers that hold it see it as it was. What has no such parts (a connection, a file, a model in C) is not kept.

Where nothing is restored, the looks of the variables alone tell which of them code changed in place.
"""

import contextlib
import re
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Final, cast

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.variables.describe import value_fingerprint, value_kind
from vibe_jupyter.variables.keeping import class_names, keep_parts
from vibe_jupyter.variables.kept_libraries import COMPARED
from vibe_jupyter.variables.kept_parts import MOST_PARTS, TOO_MANY, KeptParts, is_of, is_plain

MOST_COPIED: Final = 256 << 20
"""Bytes of arrays that are copied for one run."""
TIME_LIMIT: Final = 0.25
"""Seconds of CPU for keeping what one piece of code may reach."""
LOOK_LIMIT: Final = 0.02
"""Seconds in which variables are looked at to tell which a piece of code changed in place."""
_WORD: Final = lazy_pattern(r"[^\W\d]\w*")
_REACHES_ALL: Final = frozenset({"globals", "locals", "exec", "eval", "vars", "get_ipython", "user_ns"})
"""Words by which code reaches variables that it does not name."""
_MAGIC: Final = lazy_pattern(r"^\s*[%!]", re.MULTILINE)


class KeptVariables:
    """Those of one run. Main thread only."""

    def __init__(
        self,
        namespace: Callable[[], Mapping[str, object]],
        bound: MutableMapping[str, object],
        compared: float = COMPARED,
    ) -> None:
        """
        Args:
            namespace: gives the user's variables.
            bound: where they are bound and deleted.
            compared: bytes of a frame's columns that may be compared; one that differs in more counts as changed.
        """
        self._compared = compared
        self._namespace = namespace
        self._bound = bound
        self._before: dict[str, object] | None = None
        """Before the first code; once the run is over, only those that it bound to something else or deleted."""
        self._kept: dict[int, tuple[object, str, KeptParts]] = {}
        """By the identity of each object: the object, the variable by which it was found, and its parts."""
        self._in_reach: set[str] = set()
        """Variables that the code may reach."""
        self._left: dict[str, tuple[int, object]] = {}
        """How all looked when the run was over."""
        self._bound_otherwise: Sequence[str] = ()
        """Names that the run made, deleted or bound to something else."""
        self._touched: list[tuple[str, KeptParts]] = []
        """Objects that the run changed in place, by the variable that was found to hold each, and by its own."""
        self._since: list[tuple[str, KeptParts]] = []
        """The same objects as the run left them, as far as there is room."""
        self._lost: dict[str, str] = {}
        self._copied = 0

    def before_code(self, code: str) -> None:
        """Keep what this code may reach, unless it is kept already."""
        namespace = self._namespace()
        if self._before is None:
            self._before = dict(namespace)
        until = time.thread_time() + TIME_LIMIT
        left, seen = sorted(_named_by(code, namespace)), set[str]()
        while left:
            name = left.pop()
            if name in seen or name not in namespace:
                continue
            seen.add(name)
            if name not in self._in_reach and name in self._before:
                self._in_reach.add(name)
                left += self._keep(namespace[name], name, until)

    def not_undone(self, code: str) -> Mapping[str, str]:
        """Variables that this code may reach and of which not all would be kept, each with the reason."""
        trial = KeptVariables(self._namespace, self._bound)
        trial._copied = self._copied
        trial.before_code(code)
        return trial._lost

    def end_run(self) -> tuple[str, ...]:
        """Look at what the run left; gives the variables that it bound, deleted or changed in place.

        What it left as it was is let go: else nothing that the user deletes would give its memory back.
        """
        if self._before is None:  # no code ran
            return ()
        namespace = self._namespace()
        own_names = {id(value): name for name, value in namespace.items()}
        self._touched, self._since = [], []
        for value, found, parts in self._kept.values():
            if _is_same(parts):
                continue
            names = dict.fromkeys((own_names.get(id(value), found), found))
            self._touched += [(name, parts) for name in names]
            with contextlib.suppress(Exception):  # what it looks like tells the rest
                left = self._parts_of(value)
                self._since += [(name, left) for name in names]
        self._kept.clear()
        self._left = self._marks()
        before, missing = self._before, object()
        self._bound_otherwise = [
            name
            for name in dict.fromkeys((*before, *self._left))
            if before.get(name, missing) is not namespace.get(name, missing)
        ]
        self._before = {name: before[name] for name in self._bound_otherwise if name in before}
        return self._changed()

    @property
    def lost(self) -> Mapping[str, str]:
        """Variables that were in reach and of which not all is kept, each with the reason."""
        return self._lost

    @property
    def changed_since(self) -> tuple[str, ...]:
        """Those that look different from how the run left them, among those that restoring would change."""
        now, changed = self._marks(), {name for name, parts in self._since if not _is_same(parts)}
        return tuple(n for n in self._changed() if n in changed or now.get(n) != self._left.get(n))

    def restore(self) -> tuple[str, ...]:
        """Make them as they were; gives those that were different."""
        before, changed = self._before, self._changed()
        if before is None:
            return ()
        for name in self._rebound():
            if name in before:
                self._bound[name] = before[name]
            else:
                self._bound.pop(name, None)
        for _, parts in self._touched:
            if not _is_same(parts):
                parts.restore()
        return changed

    def _changed(self) -> tuple[str, ...]:
        in_place = (name for name, parts in self._touched if not _is_same(parts))
        return tuple(dict.fromkeys((*self._rebound(), *in_place)))

    def _rebound(self) -> tuple[str, ...]:
        """Those that the run bound to something else, made or deleted, and that are not as before again."""
        before, now, missing = self._before or {}, self._namespace(), object()
        return tuple(n for n in self._bound_otherwise if before.get(n, missing) is not now.get(n, missing))

    def _marks(self) -> dict[str, tuple[int, object]]:
        """How all variables look now: which objects they are, and how these look that the code may have reached."""
        return {
            name: (id(value), value_fingerprint(value) if name in self._in_reach else None)
            for name, value in self._namespace().items()
        }

    def _keep(self, value: object, name: str, until: float) -> Iterable[str]:
        """With all it holds; gives what the user's functions in it name."""
        left, named = [value], set[str]()
        while left:
            one = left.pop()
            if id(one) in self._kept or is_plain(one):
                continue
            if len(self._kept) >= MOST_PARTS or time.thread_time() > until:
                self._lost.setdefault(name, TOO_MANY)
                break
            try:
                parts = self._parts_of(one)
            except Exception as error:  # noqa: BLE001 - whatever an object answers, the code must run
                self._lost.setdefault(name, str(error) or f"{value_kind(one)} cannot be kept")
                continue
            self._kept[id(one)] = (one, name, parts)
            left += parts.parts
            named.update(_names_in(one))
        return named

    def _parts_of(self, value: object) -> KeptParts:
        parts = keep_parts(value, MOST_COPIED - self._copied, self._compared)
        self._copied += parts.size
        return parts


class VariableLooks:
    """Main thread only, since it reads variables; runs none of their code."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace

    def of_code(self, code: str) -> dict[str, object]:
        """Marks of the variables, those that the code names first; equal as long as the variable looks unchanged."""
        namespace = self._namespace()
        named = [name for name in dict.fromkeys(_WORD.findall(code)) if name in namespace]
        until = time.monotonic() + LOOK_LIMIT
        marks: dict[str, object] = {}
        for name in dict.fromkeys([*named, *reversed(list(namespace))]):
            if time.monotonic() > until:
                break
            if value_kind(namespace[name]) != "module":
                marks[name] = value_fingerprint(namespace[name])
        return marks


def _is_same(parts: KeptParts) -> bool:
    """Not what a thread of the user's changes meanwhile, such as a dict that grows."""
    with contextlib.suppress(RuntimeError):
        return parts.is_same()
    return False


def _named_by(code: str, namespace: Mapping[str, object]) -> set[str]:
    """Variables that the code names; all where it may reach any."""
    words = set(_WORD.findall(code))
    if not words.isdisjoint(_REACHES_ALL) or _MAGIC.search(code):
        return set(namespace)
    return words & namespace.keys()


def _names_in(value: object) -> Iterator[str]:
    """What a function or the methods of a class of the user's name."""
    functions = class_names(cast("type", value)).values() if is_of(value, type) else (value,)
    stack = [one.__code__ for one in functions if type(one) is types.FunctionType]
    while stack:
        code = stack.pop()
        yield from code.co_names
        stack += [one for one in code.co_consts if isinstance(one, types.CodeType)]
