"""Find secrets in the user's variables: values that a name, key, column or attribute marks as secret.

Built-in containers and their subclasses, frames, arrays and object attributes are searched without running any user
code. Once found, a value stays known, since code may bind it only briefly.

Nothing is skipped silently. Each source has its own budget, so that a large one can't use up the others', and values
bound to a variable are always known. If a source holds more than can be searched or remembered, its name is
`partly_known`, and the redactor withholds everything that could be one of its values.
"""

import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, TypeVar, cast

from vibe_jupyter.errors import error_of_user
from vibe_jupyter.variables.adapters import (
    class_dict,
    class_mro,
    instance_dict,
    loaded_attribute,
    module_of,
    names_of_module,
    pairs_of,
)
from vibe_jupyter.variables.secret_memory import FoundValues, Judge, SecretMemory, Source

STEPS: Final = 50_000  # steps per search: 1 per value, `OPENING` per container
OBJECT_STEPS: Final = 10_000  # steps of these for objects: a library's object may reference its whole program
OPENING: Final = 10  # steps for opening a container
ITEMS: Final = 10_000  # items searched per container
ROWS: Final = 120_000  # rows up to which a column is searched completely
ROWS_IN_A_STEP: Final = 10
END_ROWS: Final = 300  # values searched at each end of a longer column
LONGEST: Final = 20_000  # characters per value
LONGEST_BYTES: Final = 1_000_000  # bytes decoded per value
SMALL: Final = 300  # items; smaller containers are searched before larger ones
DEPTH_OF_OBJECTS: Final = 6  # levels of object attributes searched; containers are opened at any depth
TRIES: Final = 10  # attempts to copy a container that changes concurrently
FRAMES: Final = 20  # innermost frames of the last error whose locals are searched
_MAPPINGS: Final = frozenset(map(id, (dict, OrderedDict, defaultdict)))
_SEQUENCES: Final = frozenset(map(id, (list, tuple, set, frozenset, deque)))
_TEXTS: Final = frozenset(map(id, (str, bytes, bytearray)))
_LIBRARIES: Final = ("pandas", "polars")
_PLAIN: Final = (int, float, bool, complex, types.NoneType)
_CODE: Final = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
# Classes without parts, by id, since a metaclass may override hashing.
_NO_PARTS: Final = frozenset(map(id, (*_PLAIN, *_CODE)))
_LENGTH_OF_DICT: Final[Callable[[object], int]] = dict.__dict__["__len__"]
_TUPLE_PART: Final[Callable[[object, slice], tuple[object, ...]]] = tuple.__dict__["__getitem__"]
_COPIED_DICT: Final[Callable[[object], dict[object, object]]] = dict.__dict__["copy"]
_COPIED_LIST: Final[Callable[[object], list[object]]] = list.__dict__["copy"]
_ALL: Final = slice(None)
_PACKAGE: Final = str(Path(__file__).resolve().parents[1])
_SITE: Final = "site-packages"
_OF_CODE: Final = frozenset(map(id, (types.ModuleType, type)))
_NO_ITEMS: Final = _NO_PARTS | _TEXTS
# Classes whose values can be compared without running user code.
_HASHED: Final = frozenset(map(id, (str, bytes, float, int, types.NoneType)))
_SIZED: Final = frozenset(map(id, (dict, list, tuple, set, frozenset, OrderedDict, defaultdict, deque)))
_LIST: Final = id(list)
_DICT: Final = id(dict)
# Source of the values inside a value of each source.
_INSIDE: Final[Mapping[Source, Source]] = {
    "variables": "containers",
    "containers": "containers",
    "objects": "objects",
    "columns": "columns",
}
Item = TypeVar("Item")


# A value in the search queue: name, value, depth, source, and the index of the variable it belongs to. A plain tuple,
# because there may be a hundred thousand of them.
_Place = tuple[str, object, int, Source, int]


class SecretValues:
    """Search through the user's namespace. Thread-safe: containers are copied before they are walked."""

    def __init__(
        self,
        namespace: Callable[[], dict[str, object]],
        *,
        names_secret: Callable[[str], bool],
        holds_secret: Judge,
    ) -> None:
        self._namespace = namespace
        self._names_secret = names_secret
        self._memory = SecretMemory(holds_secret)
        # Large variable to begin the next search with, since the last search didn't reach all of them.
        self._first = 0

    def __call__(self) -> Mapping[str, str]:
        """Return every value found so far with the name that makes it secret. The same object while nothing changes."""
        self.look()
        return self._memory.values()

    def partly_known(self) -> Mapping[str, tuple[str, ...]]:
        """Return names whose values couldn't all be searched or remembered, with samples of known values."""
        return {name: tuple(samples) for name, samples in self._memory.partly.copy().items()}

    def counts(self) -> Mapping[Source, int]:
        """Return the number of remembered values per source."""
        return {source: len(names) for source, names in self._memory.names.items()}

    def look(self) -> None:
        """Search the namespace now: secret names first, then the newest of the other variables."""
        named: list[tuple[str, object, Source]] = []
        small: list[tuple[str, object, Source]] = []  # usually settings, searched before data uses up the steps
        large: list[tuple[str, object, Source]] = []
        for name, value in reversed(self._namespace().items()):
            if type(name) is not str:
                continue
            cls = id(type(value))
            if self._names_secret(name):
                named.append((name, value, "variables"))
            elif cls in _SIZED and len(cast("list[object]", value)) > SMALL:
                large.append((name, value, "variables"))
            elif cls not in _NO_ITEMS or cls in _OF_CODE:
                small.append((name, value, "variables"))
        named.extend((name, value, "containers") for name, value in _locals_of_last_error())
        search = _Search(self._names_secret)
        places: list[_Place] = [
            (name, value, 0, source, at) for at, (name, value, source) in enumerate((*named, *small, *large))
        ]
        search.through(places[: len(named)])
        search.through(places[len(named) : len(named) + len(small)])
        begin = len(named) + len(small)
        first = begin + self._first
        in_turn = [*places[first:], *places[begin:first]]
        done = 0
        while self._first and done < len(in_turn) and search.steps > STEPS // 2:
            search.through(in_turn[done : done + 1])  # completely, before other variables use up the steps
            done += 1
        search.through(in_turn[done:])
        self._first = (self._first + max(1, done)) % len(in_turn) if search.steps <= 0 and in_turn else 0
        self._memory.take(search.found_values())


class _Search:
    """A breadth-first walk within the step limits."""

    def __init__(self, names_secret: Callable[[str], bool]) -> None:
        self._names_secret = names_secret
        self._frames = _loaded(_LIBRARIES, ("DataFrame", "Series"))
        self._arrays = _loaded(("numpy", "pandas"), ("ndarray", "Index"))
        self.steps = STEPS
        self._object_steps = OBJECT_STEPS
        self._visited: set[int] = set()
        self._names_in: dict[int, set[str]] = {}  # names of secrets by the variable that contains them
        self._cut: set[int] = set()  # variables that weren't searched completely
        # Ids of classes whose instances, inside the user's containers, have attributes with secret names.
        self._telling: set[int] = set()
        # Pairs of a variable and a class (by id) of which not all instances in it were searched.
        self._left_out: set[tuple[int, int]] = set()
        self.found: dict[tuple[Source, str], list[str]] = {}  # values by the name that may make them secret
        self.partly: set[str] = set()  # names of secrets that may have more values
        self.unseen: set[str] = set()  # secret names without any inspected value

    def through(self, places: list[_Place]) -> None:
        """Search these values and everything inside them."""
        level = places
        while level:
            level = [inner for place in level for inner in self._look_at(place)]

    def found_values(self) -> FoundValues:
        """Return the results so far."""
        return FoundValues(self.found, frozenset(self._names_of_more()), frozenset(self.unseen))

    def _names_of_more(self) -> set[str]:
        """Return names of secrets that may have more values.

        Objects count only if a container of the user's holds them: attributes of library objects lead to the whole
        library and to the interpreter's internals.
        """
        cut = self._cut | {root for root, cls in self._left_out if cls in self._telling}
        return self.partly.union(*(self._names_in.get(root, ()) for root in cut))

    def _look_at(self, place: _Place) -> Iterable[_Place]:
        """Record a string with a secret name, or return the parts of another value."""
        name, value, _, source, root = place
        cls = id(type(value))
        if cls in _TEXTS:
            if self._names_secret(name):
                self._note(source, name, [_text(cast("str | bytes", value))], root)
            return ()
        if id(value) in self._visited or (cls in _NO_PARTS and not _is_of_the_user(value)):
            return ()
        if self.steps <= 0:
            self._leave_out(place)
            return ()
        if place[3] == "objects":
            if self._object_steps <= 0:
                return ()
            self._object_steps -= OPENING
        self._visited.add(id(value))
        self.steps -= OPENING
        if cls == _LIST:  # the most common case
            return self._items(place, list)
        if cls == _DICT:
            return self._pairs(place, lambda: pairs_of(cast(Any, value)), len(cast("dict[object, object]", value)))
        return self._parts(place)

    def _note(self, source: Source, name: str, values: list[str], root: int) -> None:
        self.found.setdefault((source, name), []).extend(values)
        if source != "objects":
            self._names_in.setdefault(root, set()).add(name)

    def _leave_out(self, place: _Place) -> None:
        """Record a value that the steps didn't suffice for, unless it belongs to an object."""
        name, value, depth, source, root = place
        if source == "objects":
            return
        if id(type(value)) not in _SIZED:
            self._left_out.add((root, id(type(value))))
        else:
            self._cut.add(root)
            if depth == 0 and self._names_secret(name):
                self.unseen.add(name)

    def _parts(self, place: _Place) -> Iterable[_Place]:
        """Return the parts of a value, each with the name it goes by."""
        value: Any = place[1]
        cls = cast("type[object]", type(value))
        if id(cls) in self._frames:
            self._safely(self._look_at_frame, place)
            return ()
        if id(cls) in self._arrays:
            if self._names_secret(place[0]):
                self._safely(self._look_at_array, place)
            return ()
        bases = class_mro(cls)
        ids = set(map(id, bases))
        if ids & _MAPPINGS:
            return self._pairs(place, lambda: pairs_of(value), _LENGTH_OF_DICT(value))
        if ids & _SEQUENCES:
            if fields := _fields(bases):
                pairs = list(zip(fields, _TUPLE_PART(value, _ALL), strict=False))
                return self._pairs(place, lambda: pairs, len(pairs))
            return self._items(place, next(base for base in bases if id(base) in _SEQUENCES))
        if place[2] > DEPTH_OF_OBJECTS:
            return ()
        attributes: Any = _own_names(value)
        slots = list(_slots(value, bases))
        name, _, depth, source, root = place
        telling = [
            key for key in (*attributes, *(key for key, _ in slots)) if type(key) is str and self._names_secret(key)
        ]
        if telling and source != "objects":
            self._telling.add(id(cls))
            self._names_in.setdefault(root, set()).update(telling)
        place = (name, value, DEPTH_OF_OBJECTS if id(cls) in _OF_CODE else depth, "objects", root)
        return [*self._pairs(place, attributes.items, len(attributes)), *self._pairs(place, lambda: slots, len(slots))]

    def _pairs(
        self, place: _Place, pairs: Callable[[], Iterable[tuple[object, object]]], count: int
    ) -> Iterable[_Place]:
        """Return the values of a mapping or object that need further search, without numbers and unnamed strings."""
        outer, value, depth, source, root = place
        room = self._room(place, count)
        # dict.copy() is atomic under the GIL, so no other thread can change the dict meanwhile.
        is_copied = id(type(value)) == _DICT and count <= room
        items = _COPIED_DICT(value).items() if is_copied else _first(pairs, room)
        secret, inner = self._names_secret, _INSIDE[source]
        inherits = secret(outer)
        parts: list[_Place] = []
        for key, value in items:
            kind = id(type(value))
            if kind in _NO_PARTS and kind not in _OF_CODE:
                continue
            if type(key) is str and (not inherits or secret(key)):
                if kind not in _TEXTS or secret(key):
                    parts.append((key, value, depth + 1, inner, root))
            elif inherits or kind not in _TEXTS:
                parts.append((outer, value, depth + 1, inner, root))
        return parts

    def _items(self, place: _Place, base: Any) -> Iterable[_Place]:
        """Return the items of a sequence, or those at both ends of a long one."""
        name, value, depth, source, root = cast("tuple[str, Any, int, Source, int]", place)
        count: int = base.__len__(value)
        room = self._room(place, count)
        items: list[object]
        if id(base) == _LIST and count <= room:
            items = _COPIED_LIST(value)
        else:
            items = _first(lambda: base.__iter__(value), room if count <= room else room // 2)
        if count > room and hasattr(base, "__reversed__"):
            items += _first(lambda: base.__reversed__(value), room // 2)
        elif count > room > 1 and base is tuple:
            items += _TUPLE_PART(value, slice(-(room // 2), None))
        depth, source = depth + 1, _INSIDE[source]
        if self._names_secret(name) and (texts := [item for item in items if id(type(item)) in _TEXTS]):
            self._note(source, name, list(map(_text, cast("list[str | bytes]", texts))), root)
        return [(name, item, depth, source, root) for item in items if id(type(item)) not in _NO_ITEMS]

    def _room(self, place: _Place, count: int) -> int:
        """Take steps for `count` values. Records the container if that isn't enough."""
        room = max(0, min(ITEMS, self.steps))
        self.steps -= min(room, count)
        if count > room and place[3] != "objects":
            self._cut.add(place[4])
            if self._names_secret(place[0]):
                (self.partly if room else self.unseen).add(place[0])
        return room

    def _safely(self, look: Callable[[_Place], None], place: _Place) -> None:
        try:
            look(place)
        except Exception:  # noqa: BLE001 - a library failing on an unusual frame must not fail the run
            if self._names_secret(place[0]):
                self.unseen.add(place[0])

    def _look_at_frame(self, place: _Place) -> None:
        name, value, _, _, root = cast("tuple[str, Any, int, Source, int]", place)
        if hasattr(value, "index"):
            self._look_at_labels(value, root)
        if not hasattr(value, "columns"):
            label = value.name if type(value.name) is str and self._names_secret(value.name) else name
            if self._names_secret(label):
                self._look_at_column(label, value, root)
            return
        secret = [label for label in dict.fromkeys(value.columns) if type(label) is str and self._names_secret(label)]
        for label in secret:
            column = value[label]
            if len(column.shape) == 2:  # two columns with this label: search both
                for at in range(column.shape[1]):
                    self._look_at_column(label, column.iloc[:, at], root)
            else:
                self._look_at_column(label, column, root)

    def _look_at_labels(self, value: Any, root: int) -> None:
        """Search the index levels that have a secret name."""
        from vibe_jupyter.variables.adapters.pandas_frames import plain_index  # noqa: PLC0415 - rarely needed

        index = plain_index(value.index)
        for at, name in enumerate(index.names):
            if type(name) is str and self._names_secret(name):
                self._take_column(name, index.levels[at] if hasattr(index, "levels") else index, root)

    def _look_at_column(self, label: str, column: Any, root: int) -> None:
        if getattr(column.dtype, "kind", "O") in "iufcbmM":
            return  # numbers and times can't be secrets
        rows = len(column)
        if hasattr(column, "iloc"):
            categories = getattr(column.dtype, "categories", None)
            if categories is not None:
                column = categories  # few values, and complete
            elif rows <= self._rows() and type(column.dtype) is loaded_attribute("pandas", "StringDtype"):
                column = column.unique()  # six times faster than searching all values
            else:
                column = column.iloc
        self._take_column(label, column, root)

    def _rows(self) -> int:
        """Return the number of rows up to which a column is searched completely."""
        return min(ROWS, max(self.steps * ROWS_IN_A_STEP, END_ROWS))

    def _look_at_array(self, place: _Place) -> None:
        name, value, _, _, root = cast("tuple[str, Any, int, Source, int]", place)
        if getattr(value.dtype, "kind", "O") in "OUST":
            self._take_column(name, value.reshape(-1) if hasattr(value, "reshape") else value, root)

    def _take_column(self, label: str, column: Any, root: int) -> None:
        """Record the strings of a column, or those at both ends of a long one."""
        rows = len(column.obj) if hasattr(column, "obj") else len(column)
        parts = [slice(None)]
        if rows > self._rows():
            parts = [slice(None, END_ROWS), slice(-END_ROWS, None)]
            self.partly.add(label)
        items = list(chain.from_iterable(_listed(column[part]) for part in parts))
        self.steps -= len(items) // ROWS_IN_A_STEP
        if not set(map(id, map(type, items))) <= _HASHED:
            items = [item for item in items if id(type(item)) in _TEXTS]
        elif items:
            items = list(dict.fromkeys(items))
        texts = [_text(cast("str | bytes", item)) for item in items if id(type(item)) in _TEXTS]
        self._note("columns", label, texts, root)


def _listed(values: Any) -> list[object]:
    return values.tolist() if hasattr(values, "tolist") else values.to_list()


def _is_of_the_user(value: object) -> bool:
    """Return whether this is a user-defined class or module, whose names may hold secrets like variables do."""
    if type(value) is type:
        return module_of(value) == "__main__"
    if type(value) is not types.ModuleType:
        return False
    file = names_of_module(value).get("__file__")
    return type(file) is str and not file.startswith((sys.prefix, sys.base_prefix, _PACKAGE)) and _SITE not in file


def _own_names(value: Any) -> Mapping[str, object]:
    if type(value) is type:
        return dict(class_dict(value))
    return names_of_module(value) if type(value) is types.ModuleType else instance_dict(value)


def _loaded(libraries: Iterable[str], kinds: Iterable[str]) -> frozenset[int]:
    """Return the ids of these classes in libraries that are imported."""
    loaded = filter(sys.modules.__contains__, libraries)
    classes = [loaded_attribute(library, kind) for library in loaded for kind in kinds]
    return frozenset(map(id, classes)) - {id(None)}


def _fields(bases: tuple[type, ...]) -> tuple[str, ...]:
    """Return the field names of a named tuple, or ()."""
    if len(bases) < 3 or bases[-2] is not tuple:
        return ()
    fields = next((class_dict(base)["_fields"] for base in bases if "_fields" in class_dict(base)), ())
    is_names = type(fields) is tuple and all(type(field) is str for field in cast("tuple[object, ...]", fields))
    return cast("tuple[str, ...]", fields) if is_names else ()


def _slots(value: object, bases: tuple[type, ...]) -> Iterator[tuple[object, object]]:
    """Yield attributes stored in `__slots__`."""
    for base in bases:
        for name, slot in class_dict(base).items():
            if type(slot) is types.MemberDescriptorType and not name.startswith("__"):
                with suppress(AttributeError):  # a slot that was never set
                    yield name, slot.__get__(value)


def _first(items: Callable[[], Iterable[Item]], count: int) -> list[Item]:
    """Copy the first `count` items. Returns [] if another thread changes the container on every attempt."""
    for _ in range(TRIES):
        with suppress(RuntimeError):  # changed during iteration
            return list(islice(items(), count))
    return []


def _locals_of_last_error() -> list[tuple[str, object]]:
    error = error_of_user()
    frames = [] if error is None else [frame for frame, _ in islice(walk_tb(error.__traceback__), 10 * FRAMES)]
    return [
        pair
        for frame in frames[-FRAMES:]
        if "__file__" not in frame.f_locals and frame.f_locals is not frame.f_globals
        for pair in list(frame.f_locals.items())
    ]


def _text(value: "str | bytes | bytearray") -> str:
    """Decode bytes as UTF-8 or show their repr, and cut to `LONGEST`."""
    if isinstance(value, str):
        return value[:LONGEST]
    head = bytes(value[:LONGEST_BYTES])
    try:
        return head.decode()[:LONGEST]
    except UnicodeDecodeError:
        return repr(head)[2:-1][:LONGEST]
