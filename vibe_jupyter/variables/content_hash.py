"""Bounded hashes of whole values: they tell whether code set a variable to what it was before.

Equal hashes mean equal content, whichever objects hold it: a frame that was read again, a list that was built again.
No method of a user's class is called. A value of an unknown class in C, or one that is too large, has no hash.
"""

import array
import collections
import datetime
import decimal
import fractions
import functools
import hashlib
import pathlib
import re
import sys
import time
import types
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from vibe_jupyter.variables.keeping import MISSING, attribute_places, class_names, read_attribute
from vibe_jupyter.variables.kept_parts import is_in_python, is_of, is_own_class, vars_of

MOST_BYTES: Final = 256 << 20
"""Bytes of arrays and texts in one value."""
_PIECE: Final = 1 << 20
"""Values of an array that are hashed between two looks at the clock."""
_MOST_LISTED: Final = 1_000_000
"""Values of a column that are made Python objects for it."""
_DIGEST_SIZE: Final = 16
"""Bytes of a hash."""

_BY_REPR: Final = frozenset(
    {
        *(types.NoneType, bool, int, float, complex, range, types.EllipsisType, types.NotImplementedType),
        *(datetime.date, datetime.timedelta, datetime.timezone, decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
    }
)
"""Classes whose `repr` says all of a value."""
_SIMPLE: Final = frozenset({types.NoneType, bool, int, float, complex, str, bytes})
_BY_REPR_IN_PANDAS: Final = frozenset({"Timestamp", "Timedelta", "NaTType", "NAType", "Period", "Interval"})


_PARTS: Final[Mapping[type, Callable[[Any], Iterable[object]]]] = {
    slice: lambda value: (value.start, value.stop, value.step),
    re.Pattern: lambda value: (value.pattern, value.flags),
    functools.partial: lambda value: (value.func, value.args, value.keywords),
    types.MethodType: lambda value: (value.__func__, value.__self__),
    property: lambda value: (value.fget, value.fset, value.fdel),
    staticmethod: lambda value: (value.__func__,),
    classmethod: lambda value: (value.__func__,),
}
"""The parts of which values of these classes are made."""


class ContentHash(NamedTuple):
    """The content of one value."""

    digest: bytes
    identities: tuple[int, ...]
    """Ids of the user's classes: code that makes such a class again makes another one, whatever its content."""


class ContentHasher:
    """Hashes within a budget of CPU time, shared by all its values.

    Keeps references to the parts that count by their identity, so that no id is given to another object.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.thread_time() + seconds
        self._held: list[object] = []

    @property
    def is_spent(self) -> bool:
        """True once the time is over."""
        return time.thread_time() > self._until

    def hash(self, value: object) -> ContentHash | None:
        """Return the hash of a value, or None if it can't be hashed in time."""
        feed = _Feed(self._until)
        try:
            feed.add(value)
        except Exception:  # noqa: BLE001 - whatever an object of a library answers, there is just no hash
            return None
        self._held += feed.held
        return ContentHash(feed.digest(), tuple(map(id, feed.held)))


class _Unhashable(Exception):
    """The value is too large, or of an unknown class."""


class _Feed:
    """The hash of one value while it is walked."""

    def __init__(self, until: float) -> None:
        self.held: list[object] = []
        """Parts that count by their identity."""
        self._hash = hashlib.blake2b(digest_size=_DIGEST_SIZE)
        self._until = until
        self._left = MOST_BYTES
        self._open: dict[int, int] = {}
        """Depth of each object that is being walked, by its identity."""

    def digest(self) -> bytes:
        """Return the hash of what was added."""
        return self._hash.digest()

    def add(self, value: Any) -> None:
        """Add a value with all its parts."""
        if time.thread_time() > self._until:
            raise _Unhashable
        if self._add_plain(value):
            return
        if id(value) in self._open:  # a list that holds itself
            self._put("again", str(self._open[id(value)]).encode())
            return
        self._open[id(value)] = len(self._open)
        if is_of(value, type):
            self._add_class(value)
        elif not (self._add_container(value) or self._add_function(value) or self._add_of_library(value)):
            self._add_object(value)
        del self._open[id(value)]

    def _put(self, tag: str, data: bytes = b"") -> None:
        """Add a tag and data so that no two sequences of them give the same bytes."""
        self._spend(len(data))
        self._hash.update(f"{tag}:{len(data)}:".encode())
        self._hash.update(data)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _Unhashable

    def _add_all(self, tag: str, values: Iterable[Any]) -> None:
        held = list(values)
        self._put(tag, str(len(held)).encode())
        if _SIMPLE.issuperset(map(type, held)):  # one repr for all is ten times as fast
            self._put("simple", repr(held).encode())
            return
        for value in held:
            self.add(value)

    def _add_plain(self, value: Any) -> bool:
        kind = _class_of(value)
        if kind in _BY_REPR or (_library_of(kind) == "pandas" and kind.__name__ in _BY_REPR_IN_PANDAS):
            self._put(kind.__name__, repr(value).encode())
        elif kind is str:
            self._put("str", value.encode("utf-8", "surrogatepass"))
        elif kind in (bytes, bytearray):
            self._put(kind.__name__, bytes(value))
        elif kind is array.array:
            self._put(f"array {value.typecode}", value.tobytes())
        elif kind in (datetime.datetime, datetime.time):
            self._put(kind.__name__, repr(value.replace(tzinfo=None)).encode())
            self.add(value.tzinfo)
        elif (is_of(value, type) and not is_own_class(value)) or is_of(value, types.ModuleType):
            self._put("name", f"{value.__name__} {id(value)}".encode())
        elif kind is types.BuiltinFunctionType and is_of(value.__self__, types.ModuleType):
            self._put("built in", f"{value.__self__.__name__}.{value.__name__}".encode())
        else:
            return False
        return True

    def _add_container(self, value: Any) -> bool:
        kind = _class_of(value)
        if kind in (list, tuple, collections.deque):
            self._add_all(kind.__name__, value)
            if kind is collections.deque:
                self.add(value.maxlen)
        elif kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
            self._add_all(kind.__name__, [*dict[Any, Any].keys(value)])
            self._add_all("values", [*dict[Any, Any].values(value)])
            if kind is collections.defaultdict:
                self.add(value.default_factory)
        elif kind in (set, frozenset):
            self._add_all(kind.__name__, sorted(map(self._digest_of, value)))
        elif kind in _PARTS:
            self._add_all(kind.__name__, _PARTS[kind](value))
        else:
            return False
        return True

    def _digest_of(self, value: object) -> bytes:
        feed = _Feed(self._until)
        feed.add(value)
        self.held += feed.held
        return feed.digest()

    def _add_function(self, value: Any) -> bool:
        """Add a function by its code, without the place where it stands."""
        if type(value) is types.CodeType:
            self._put("code", value.co_code)
            arguments = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars, value.co_name)
            self._add_all("parts", (*arguments, *names, value.co_consts))
        elif type(value) is types.FunctionType:
            self._put("function", value.__module__.encode())
            closure = [cell.cell_contents for cell in value.__closure__ or ()]
            self._add_all("parts", (value.__code__, value.__defaults__, value.__kwdefaults__, closure))
            self._add_all("more", (vars_of(value) or {}, value.__doc__))
        else:
            return False
        return True

    def _add_of_library(self, value: Any) -> bool:
        numpy: Any = sys.modules.get("numpy")
        pandas: Any = sys.modules.get("pandas")
        polars: Any = sys.modules.get("polars")
        kind = _class_of(value)
        if numpy is not None and kind is numpy.ndarray:
            self._add_array(value, numpy)
        elif numpy is not None and is_of(value, numpy.generic) and _library_of(kind) == "numpy":
            self._put(f"scalar {value.dtype.str}", value.tobytes())
        elif numpy is not None and is_of(value, numpy.dtype):
            self._put("dtype", repr(value).encode())
        elif pandas is not None and hasattr(pandas, "DataFrame"):
            return self._add_of_pandas(value, numpy, pandas) or self._add_of_polars(value, polars)
        else:
            return self._add_of_polars(value, polars)
        return True

    def _add_array(self, value: Any, numpy: Any) -> None:
        self._put("ndarray", f"{value.dtype.descr!r} {value.shape}".encode())
        flat = value.reshape(-1)
        if value.dtype.hasobject:
            if len(flat) > _MOST_LISTED:
                raise _Unhashable
            self._add_all("objects", flat.tolist())
            return
        self._spend(value.nbytes)
        for start in range(0, len(flat), _PIECE):
            if time.thread_time() > self._until:
                raise _Unhashable
            self._hash.update(numpy.ascontiguousarray(flat[start : start + _PIECE]).view("u1").data)

    def _add_of_pandas(self, value: Any, numpy: Any, pandas: Any) -> bool:
        kind = _class_of(value)
        if _library_of(kind) != "pandas":
            return False
        if kind in (pandas.DataFrame, pandas.Series):
            self._put(kind.__name__, str(value.shape).encode())
            self._add_all("axes", value.axes)
            self._add_all("about", (dict(value.attrs), value.flags.allows_duplicate_labels))
            if kind is pandas.DataFrame:
                self._add_all("columns", value._iter_column_arrays())
            else:
                self._add_all("column", (value.name, value._values))
        elif is_of(value, pandas.MultiIndex):
            self._add_all("levels", (list(value.names), *map(value.get_level_values, range(value.nlevels))))
        elif is_of(value, pandas.Index):  # a filter that keeps all rows makes numbers of a range
            self._add_all("index", (value.name, value._values))
        elif is_of(value, pandas.api.extensions.ExtensionArray):
            self._add_extension_array(value, numpy, pandas)
        else:
            return False
        return True

    def _add_extension_array(self, value: Any, numpy: Any, pandas: Any) -> None:
        self._put("extension", f"{type(value).__name__} {value.dtype} {len(value)}".encode())
        self._spend(int(value.nbytes))
        if isinstance(value, pandas.Categorical):
            self._add_all("categories", (value.categories, bool(value.ordered), numpy.asarray(value.codes)))
            return
        self._add_array(numpy.asarray(value.isna()), numpy)
        self._add_array(numpy.asarray(pandas.util.hash_array(value)), numpy)

    def _add_of_polars(self, value: Any, polars: Any) -> bool:
        """Add its values as Python objects: hashes of polars use threads, which a forked process has not."""
        if polars is None or type(value) not in (polars.DataFrame, polars.Series):
            return False
        columns = value.get_columns() if type(value) is polars.DataFrame else [value]
        if sum(map(len, columns)) > _MOST_LISTED:
            raise _Unhashable
        self._put("polars", f"{type(value).__name__} {len(columns)}".encode())
        for column in columns:
            self._add_all("column", (column.name, str(column.dtype), column.to_list()))
        return True

    def _add_class(self, value: Any) -> None:
        """Add a class of the user's."""
        self.held.append(value)
        content = class_names(value)
        self._add_all("class", (value.__qualname__, value.__bases__, *content.keys()))
        self._add_all("content", content.values())

    def _add_object(self, value: Any) -> None:
        """Add an object of a class in Python by its attributes."""
        if not all(one is object or is_in_python(one) for one in type(value).__mro__):
            raise _Unhashable  # not all of it is in its attributes
        kind = _class_of(value)
        self.add(kind)
        names = [name for name in attribute_places(kind) if read_attribute(value, name) is not MISSING]
        self._add_all("slots", [part for name in names for part in (name, read_attribute(value, name))])
        held = vars_of(value) or {}
        self._add_all("attributes", held.keys())
        self._add_all("values", held.values())


def same_content(before: ContentHash | None, after: ContentHash | None) -> bool | None:
    """Return whether two hashes are of equal content; None if that isn't known."""
    if before is None or after is None:
        return None
    if before.digest != after.digest:
        return False
    return True if before.identities == after.identities else None


def _class_of(value: object) -> type:
    return type(value)


def _library_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]
