"""Snapshots of variables before a run's code, which `%vibe undo` restores.

Each object that the code may reach is saved by its parts: a list by its items, an array by its values, a frame by a
copy-on-write copy. Restoring works in place, so that all names and containers that reference the object see its old
state. Objects without such parts (connections, files, C models) aren't saved.

If nothing needs to be restored, fingerprints alone show which variables code changed in place.
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

MOST_COPIED: Final = 256 << 20  # bytes of arrays copied per run
TIME_LIMIT: Final = 0.25  # CPU seconds for saving what one piece of code may reach
LOOK_LIMIT: Final = 0.02  # seconds for fingerprinting variables to detect in-place changes
_WORD: Final = lazy_pattern(r"[^\W\d]\w*")
# Names by which code can access variables that it doesn't mention.
_REACHES_ALL: Final = frozenset({"globals", "locals", "exec", "eval", "vars", "get_ipython", "user_ns"})
_MAGIC: Final = lazy_pattern(r"^\s*[%!]", re.MULTILINE)


class KeptVariables:
    """Snapshot of the variables for one run. Main thread only."""

    def __init__(
        self,
        namespace: Callable[[], Mapping[str, object]],
        bound: MutableMapping[str, object],
        compared: float = COMPARED,
    ) -> None:
        """Create an empty snapshot.

        Args:
            namespace: Returns the user's variables.
            bound: Mapping in which variables are rebound and deleted on restore.
            compared: Bytes of a frame's columns that may be compared. A frame with more differing bytes counts as
                changed.
        """
        self._compared = compared
        self._namespace = namespace
        self._bound = bound
        # The namespace before the first code. Once the run has ended, only names that it rebound or deleted.
        self._before: dict[str, object] | None = None
        # Saved objects by id: the object, the variable through which it was found, and its parts.
        self._kept: dict[int, tuple[object, str, KeptParts]] = {}
        self._in_reach: set[str] = set()  # variables that the code may reach
        self._left: dict[str, tuple[int, object]] = {}  # ids and fingerprints of all variables at the end of the run
        self._bound_otherwise: Sequence[str] = ()  # names that the run created, deleted or rebound
        # Objects that the run changed in place, under the variable through which each was found and its own name.
        self._touched: list[tuple[str, KeptParts]] = []
        self._since: list[tuple[str, KeptParts]] = []  # the same objects as the run left them, as far as memory allows
        self._lost: dict[str, str] = {}
        self._copied = 0

    def before_code(self, code: str) -> None:
        """Save what this code may reach, unless it is saved already."""
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
        """Return variables that this code may reach but that can't be saved completely, with the reason for each."""
        trial = KeptVariables(self._namespace, self._bound)
        trial._copied = self._copied
        trial.before_code(code)
        return trial._lost

    def end_run(self) -> tuple[str, ...]:
        """Compare with the state after the run and return the variables it rebound, deleted or changed in place.

        Unchanged objects are released; otherwise, memory of variables that the user deletes would never be freed.
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
            with contextlib.suppress(Exception):  # the fingerprints cover the rest
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
        """Reachable variables that couldn't be saved completely, with the reason for each."""
        return self._lost

    @property
    def changed_since(self) -> tuple[str, ...]:
        """Variables changed since the run ended, among those that `restore` would change."""
        now, changed = self._marks(), {name for name, parts in self._since if not _is_same(parts)}
        return tuple(n for n in self._changed() if n in changed or now.get(n) != self._left.get(n))

    def restore(self) -> tuple[str, ...]:
        """Restore all changed variables and return their names."""
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
        """Return names that the run rebound, created or deleted, unless they are back to their previous object."""
        before, now, missing = self._before or {}, self._namespace(), object()
        return tuple(n for n in self._bound_otherwise if before.get(n, missing) is not now.get(n, missing))

    def _marks(self) -> dict[str, tuple[int, object]]:
        """Return every variable's id, and a fingerprint for those that the code may have reached."""
        return {
            name: (id(value), value_fingerprint(value) if name in self._in_reach else None)
            for name, value in self._namespace().items()
        }

    def _keep(self, value: object, name: str, until: float) -> Iterable[str]:
        """Save a value and everything in it. Returns the names that user-defined functions in it refer to."""
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
            except Exception as error:  # noqa: BLE001 - whatever an object raises, the code must still run
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
    """Fingerprints of variables. Main thread only; runs none of their code."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace

    def of_code(self, code: str) -> dict[str, object]:
        """Return fingerprints of the variables, those that the code names first, within `LOOK_LIMIT`."""
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
    """Return whether the object is unchanged. False if a user's thread modifies it during the comparison."""
    with contextlib.suppress(RuntimeError):
        return parts.is_same()
    return False


def _named_by(code: str, namespace: Mapping[str, object]) -> set[str]:
    """Return variables that the code names, or all if it may access any."""
    words = set(_WORD.findall(code))
    if not words.isdisjoint(_REACHES_ALL) or _MAGIC.search(code):
        return set(namespace)
    return words & namespace.keys()


def _names_in(value: object) -> Iterator[str]:
    """Yield names that a function, or the methods of a user-defined class, refer to."""
    functions = class_names(cast("type", value)).values() if is_of(value, type) else (value,)
    stack = [one.__code__ for one in functions if type(one) is types.FunctionType]
    while stack:
        code = stack.pop()
        yield from code.co_names
        stack += [one for one in code.co_consts if isinstance(one, types.CodeType)]
