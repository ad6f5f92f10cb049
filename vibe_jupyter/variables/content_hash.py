"""Bounded content hashes, which show whether code set a variable to its previous value.

Equal hashes mean equal content, regardless of identity: a frame that was read again, or a list that was rebuilt. No
method of a user's class is called. Values of unknown C types, and values that are too large, have no hash.
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

MOST_BYTES: Final = 256 << 20  # bytes of arrays and strings in one value
_PIECE: Final = 1 << 20  # array elements hashed between two checks of the time
_MOST_LISTED: Final = 1_000_000  # column values that are converted to Python objects for hashing
_DIGEST_SIZE: Final = 16  # bytes

# Classes whose `repr` contains everything that defines a value.
_BY_REPR: Final = frozenset(
    {
        *(types.NoneType, bool, int, float, complex, range, types.EllipsisType, types.NotImplementedType),
        *(datetime.date, datetime.timedelta, datetime.timezone, decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
    }
)
_SIMPLE: Final = frozenset({types.NoneType, bool, int, float, complex, str, bytes})
_BY_REPR_IN_PANDAS: Final = frozenset({"Timestamp", "Timedelta", "NaTType", "NAType", "Period", "Interval"})


# Components of values of these classes.
_PARTS: Final[Mapping[type, Callable[[Any], Iterable[object]]]] = {
    slice: lambda value: (value.start, value.stop, value.step),
    re.Pattern: lambda value: (value.pattern, value.flags),
    functools.partial: lambda value: (value.func, value.args, value.keywords),
    types.MethodType: lambda value: (value.__func__, value.__self__),
    property: lambda value: (value.fget, value.fset, value.fdel),
    staticmethod: lambda value: (value.__func__,),
    classmethod: lambda value: (value.__func__,),
}


class ContentHash(NamedTuple):
    """Content hash of one value."""

    digest: bytes
    # Ids of user-defined classes in it. Redefining a class yields a different object even if its content is equal.
    identities: tuple[int, ...]


class ContentHasher:
    """Hasher with a CPU time budget for all its values.

    It references all parts that are compared by identity, so that their ids can't be reused.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.thread_time() + seconds
        self._held: list[object] = []

    @property
    def is_spent(self) -> bool:
        """True once the time budget is used up."""
        return time.thread_time() > self._until

    def hash(self, value: object) -> ContentHash | None:
        """Return the hash of a value, or None if it can't be hashed in time."""
        feed = _Feed(self._until)
        try:
            feed.add(value)
        except Exception:  # noqa: BLE001 - a library's object may raise anything; there is just no hash then
            return None
        self._held += feed.held
        return ContentHash(feed.digest(), tuple(map(id, feed.held)))


class _Unhashable(Exception):
    """The value is too large or of an unknown class."""


class _Feed:
    """Incremental hash of one value."""

    def __init__(self, until: float) -> None:
        self.held: list[object] = []  # parts compared by identity
        self._hash = hashlib.blake2b(digest_size=_DIGEST_SIZE)
        self._until = until
        self._left = MOST_BYTES
        self._open: dict[int, int] = {}  # depth of each object being walked, by id

    def digest(self) -> bytes:
        return self._hash.digest()

    def add(self, value: Any) -> None:
        """Add a value and everything in it."""
        if time.thread_time() > self._until:
            raise _Unhashable
        if self._add_plain(value):
            return
        if id(value) in self._open:  # a recursive structure
            self._put("again", str(self._open[id(value)]).encode())
            return
        self._open[id(value)] = len(self._open)
        if is_of(value, type):
            self._add_class(value)
        elif not (self._add_container(value) or self._add_function(value) or self._add_of_library(value)):
            self._add_object(value)
        del self._open[id(value)]

    def _put(self, tag: str, data: bytes = b"") -> None:
        """Add a tag and data, length-prefixed so that no two sequences produce the same bytes."""
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
        if _SIMPLE.issuperset(map(type, held)):  # one repr for all items is ten times faster
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
        """Add a function by its code, without file name and line numbers."""
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
            self._put("writeable", str(value.flags.writeable).encode())
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
                for column in value._iter_column_arrays():
                    self._add_column(column, numpy)
            else:
                self.add(value.name)
                self._add_column(value._values, numpy)
        elif is_of(value, pandas.MultiIndex):
            self._add_all("levels", (list(value.names), *map(value.get_level_values, range(value.nlevels))))
        # Compared by values: filtering that keeps all rows turns a RangeIndex into an Index.
        elif is_of(value, pandas.Index):
            self._put("index")
            self.add(value.name)
            self._add_column(value._values, numpy)
        elif is_of(value, pandas.api.extensions.ExtensionArray):
            self._add_extension_array(value, numpy, pandas)
        else:
            return False
        return True

    def _add_column(self, values: Any, numpy: Any) -> None:
        """Add values of pandas, which sets arrays read-only as it likes."""
        if type(values) is numpy.ndarray:
            self._add_array(values, numpy)
        else:
            self.add(values)

    def _add_extension_array(self, value: Any, numpy: Any, pandas: Any) -> None:
        self._put("extension", f"{type(value).__name__} {value.dtype} {len(value)}".encode())
        self._spend(int(value.nbytes))
        if isinstance(value, pandas.Categorical):
            self._add_all("categories", (value.categories, bool(value.ordered), numpy.asarray(value.codes)))
            return
        self._add_array(numpy.asarray(value.isna()), numpy)
        self._add_array(numpy.asarray(pandas.util.hash_array(value)), numpy)

    def _add_of_polars(self, value: Any, polars: Any) -> bool:
        """Add values as Python objects: polars hashes on threads, which don't exist in a forked process."""
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
        """Add a user-defined class."""
        self.held.append(value)
        content = class_names(value)
        self._add_all("class", (value.__qualname__, value.__bases__, *content.keys()))
        self._add_all("content", content.values())

    def _add_object(self, value: Any) -> None:
        """Add an instance of a Python class by its attributes."""
        if not all(one is object or is_in_python(one) for one in type(value).__mro__):
            raise _Unhashable  # part of its state may be outside its attributes
        kind = _class_of(value)
        self.add(kind)
        names = [name for name in attribute_places(kind) if read_attribute(value, name) is not MISSING]
        self._add_all("slots", [part for name in names for part in (name, read_attribute(value, name))])
        held = vars_of(value) or {}
        self._add_all("attributes", held.keys())
        self._add_all("values", held.values())


def same_content(before: ContentHash | None, after: ContentHash | None) -> bool | None:
    """Return whether two hashes stand for equal content, or None if unknown."""
    if before is None or after is None:
        return None
    if before.digest != after.digest:
        return False
    return True if before.identities == after.identities else None


def _class_of(value: object) -> type:
    return type(value)


def _library_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]
