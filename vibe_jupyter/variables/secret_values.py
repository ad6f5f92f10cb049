"""Secrets in the user's variables: values that a name, a key, a column or an attribute calls secret.

Only exact built-in types, frames of pandas and polars, and the attributes of plain objects are walked, and none of the
user's code runs. A value once found stays known, since code may bind it for a moment only.
"""

import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from traceback import walk_tb
from typing import Any, Final, TypeVar, cast

from vibe_jupyter.errors import error_of_user
from vibe_jupyter.variables.adapters import instance_dict, loaded_attribute, pairs_of

LOOKED_AT: Final = 5_000
"""Values looked at in one search."""
KEPT: Final = 2_000
"""Values remembered."""
LONGEST: Final = 20_000
"""Characters of one value."""
DEPTH: Final = 4
"""Levels of containers and objects opened."""
ITEMS: Final = 300
"""Items of one container looked at, and values of one column at each end."""
TRIES: Final = 10
"""Looks at a container that changes meanwhile."""
FRAMES: Final = 20
"""Innermost frames of the last error whose variables are looked at."""
_MAPPINGS: Final = frozenset(map(id, (dict, OrderedDict, defaultdict)))
_SEQUENCES: Final = frozenset(map(id, (list, tuple, set, frozenset, deque)))
_LIBRARIES: Final = ("pandas", "polars")
_PLAIN: Final = (int, float, bool, complex, types.NoneType)
_CODE: Final = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
_NO_PARTS: Final = frozenset(map(id, (*_PLAIN, *_CODE)))
"""Classes by identity, since a metaclass may define its own hash: values of them have nothing inside."""
Item = TypeVar("Item")


class SecretValues:
    """Looks through the namespace. Callable from any thread: what is walked is copied first."""

    def __init__(
        self,
        namespace: Callable[[], dict[str, object]],
        *,
        names_secret: Callable[[str], bool],
        holds_secret: Callable[[str, str], bool],
    ) -> None:
        self._namespace = namespace
        self._names_secret = names_secret
        self._holds_secret = holds_secret
        self._kept: dict[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        """Every value found so far, and the name that calls it secret."""
        self.look()
        return self._kept.copy()

    def learn(self, found: Mapping[str, str]) -> None:
        """Take values that were found elsewhere, as far as their names call them secret."""
        for value, name in found.items():
            if len(self._kept) < KEPT and self._names_secret(name) and self._holds_secret(name, value):
                self._kept.setdefault(value, name)

    def look(self) -> None:
        """Remember what is there now: names that call their value secret first, and the newest of the others."""
        bound = [pair for pair in reversed(self._namespace().items()) if type(pair[0]) is str]
        others: list[tuple[str, object]] = []
        places: list[tuple[str, object]] = []
        for pair in (*bound, *_locals_of_last_error()):
            (places if self._names_secret(pair[0]) else others).append(pair)
        places += others
        for value, name in list(_Search(self._names_secret, self._holds_secret).through(places)):
            if len(self._kept) < KEPT:
                self._kept.setdefault(value, name)


class _Search:
    """One walk, within bounds."""

    def __init__(self, names_secret: Callable[[str], bool], holds_secret: Callable[[str, str], bool]) -> None:
        self._names_secret = names_secret
        self._holds_secret = holds_secret
        self._frames = _loaded_frames()
        self._room = LOOKED_AT
        self._seen: set[int] = set()

    def through(self, named: Iterable[tuple[str, object]], depth: int = DEPTH) -> Iterator[tuple[str, str]]:
        """The secrets among these, and inside them."""
        for name, value in named:
            self._room -= 1
            if self._room < 0:
                return
            cls = type(value)
            if cls is str or cls is bytes:
                if self._names_secret(name) and self._holds_secret(name, text := _text(cast("str | bytes", value))):
                    yield text, name
            elif depth and id(cls) not in _NO_PARTS and id(value) not in self._seen:
                self._seen.add(id(value))
                yield from self.through(self._parts(name, value), depth - 1)

    def _parts(self, name: str, value: Any) -> Iterable[tuple[str, object]]:
        """What is inside, each with the name it goes by."""
        cls = id(cast("type[object]", type(value)))
        if cls in _MAPPINGS:
            return _named(value, name)
        if cls in _SEQUENCES:
            return [(name, item) for item in _first(value)]
        if cls in self._frames:
            try:
                return self._column_values(name, value)
            except Exception:  # noqa: BLE001 - a library's own failure on a rare frame is no reason to fail a run
                return []
        return _named(instance_dict(value), name)

    def _column_values(self, name: str, value: Any) -> list[tuple[str, object]]:
        found = self._row_labels(value) if hasattr(value, "index") else []
        if hasattr(value, "columns"):
            labels = [label for label in value.columns if type(label) is str and self._names_secret(label)]
            return found + [(label, item) for label in labels for item in _ends(value, label)]
        label = value.name if type(value.name) is str and value.name else name
        return found + [(label, item) for item in _values(value)] if self._names_secret(label) else found

    def _row_labels(self, value: Any) -> list[tuple[str, object]]:
        """The first and the last of each level of the index that has such a name."""
        from vibe_jupyter.variables.adapters.pandas_frames import plain_index  # noqa: PLC0415 - rarely needed

        index = plain_index(value.index)
        names = [(at, name) for at, name in enumerate(index.names) if type(name) is str and self._names_secret(name)]
        ends = [index[:ITEMS], index[-ITEMS:]] if names else []
        return [(name, item) for at, name in names for end in ends for item in end.get_level_values(at).tolist()]


def _loaded_frames() -> frozenset[int]:
    """The classes of frames and columns that are imported, by identity too."""
    libraries = [library for library in _LIBRARIES if library in sys.modules]
    classes = [loaded_attribute(library, kind) for library in libraries for kind in ("DataFrame", "Series")]
    return frozenset(id(cls) for cls in classes if cls is not None)


def _named(mapping: Mapping[Any, object], name: str) -> list[tuple[str, object]]:
    pairs = _first(pairs_of(cast("dict[object, object]", mapping)))
    return [(key if type(key) is str else name, item) for key, item in pairs]


def _first(items: Iterable[Item]) -> list[Item]:
    """Not more than are looked at are copied; none where a thread of the user's changes it each time."""
    for _ in range(TRIES):
        with suppress(RuntimeError):  # it changed meanwhile
            return list(islice(items, ITEMS))
    return []


def _ends(frame: Any, label: str) -> list[object]:
    """Values of a column; of two columns of one name, both."""
    column = frame[label]
    if len(column.shape) == 2:
        return [item for at in range(column.shape[1]) for item in _values(column.iloc[:, at])]
    return _values(column)


def _values(column: Any) -> list[object]:
    """The first and the last."""
    if getattr(column.dtype, "kind", "O") in "iufcbmM":
        return []  # numbers and times
    return [*column.head(ITEMS).to_list(), *column.tail(ITEMS).to_list()]


def _locals_of_last_error() -> list[tuple[str, object]]:
    error = error_of_user()
    frames = [] if error is None else [frame for frame, _ in islice(walk_tb(error.__traceback__), 10 * FRAMES)]
    return [
        pair
        for frame in frames[-FRAMES:]
        if "__file__" not in frame.f_locals and frame.f_locals is not frame.f_globals
        for pair in list(frame.f_locals.items())
    ]


def _text(value: str | bytes) -> str:
    head = value[:LONGEST]
    return head if isinstance(head, str) else head.decode("utf-8", "replace")
