"""Short text for values of built-in types, bounded in depth, item count and width. Other objects show their class.

Only exact built-in types are traversed, since subclasses may override iteration.
"""

import datetime
import decimal
import fractions
import itertools
import pathlib
import types
import uuid
import zoneinfo
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from vibe_jupyter.variables.adapters import (
    TypeMap,
    class_mro,
    class_name,
    is_of_package,
    is_one_of,
    loaded_attribute,
    pairs_of,
    type_name,
    type_of,
)

WIDTH: Final = 60  # characters of a string inside another value
DEPTH: Final = 2  # levels of nested containers shown
ITEMS: Final = 6  # items shown per container
_BIG_INT: Final = 256  # bits; longer integers are shown by size, since printing digits takes quadratic time

_SAFE_ZONES: Final = (types.NoneType, datetime.timezone, zoneinfo.ZoneInfo)
BRACKETS: Final[TypeMap[tuple[str, str]]] = TypeMap(
    {
        list: ("[", "]"),
        tuple: ("(", ")"),
        set: ("{", "}"),
        frozenset: ("frozenset({", "})"),
        deque: ("deque([", "])"),
    }
)
MAPPINGS: Final = (dict, OrderedDict, defaultdict)
_SMALL: Final = (int, float, bool, types.NoneType)
_HASH_LIMIT: Final = 100_000  # characters or bytes hashed completely; of longer values, only the ends
_HASH_ENDS: Final = 1_000  # characters or bytes hashed at each end


def plain_line(value: object, *, depth: int = DEPTH, width: int = WIDTH) -> str:
    """Return any value as one line."""
    cls = type(value)
    if writer := _SCALARS.get(cls):
        return writer(value, width)
    if brackets := BRACKETS.get(cls):
        items = cast("list[object]", value)
        return sequence_text(items, len(items), brackets, depth, width)
    if is_one_of(cls, MAPPINGS):
        mapping = cast("dict[object, object]", value)
        return mapping_text(pairs_of(mapping), len(mapping), depth, width)
    return _library_scalar(value, width) or f"<{class_name(cls)}>"


def plain_cell_text(value: object, width: int = WIDTH) -> str:
    """Return one line like `plain_line`, with strings unquoted for table cells."""
    return _one_line(value, width) if type(value) is str else plain_line(value, depth=1, width=width)


def is_scalar(value: object) -> bool:
    """Return whether this is a small immutable value of a built-in or standard library type."""
    return type(value) in _SCALARS


def comparison_mark(value: object) -> object:
    """Return a mark that is equal for equal scalars. For other values it is the identity."""
    cls = type(value)
    if cls is str or cls is bytes:
        text = cast("str", value)
        return hash(text) if len(text) <= _HASH_LIMIT else (len(text), hash(text[:_HASH_ENDS] + text[-_HASH_ENDS:]))
    if is_one_of(cls, _SMALL):
        # As text, because -1 and -2 have the same hash and NaN isn't equal to itself.
        return plain_line(value)
    return plain_line(value, width=_HASH_LIMIT) if is_scalar(value) else id(value)


def present_values(values: Iterable[object]) -> list[object]:
    """Return the values without missing ones (None, NaN, NaT, NA), without calling their methods."""
    nat, na = loaded_attribute("pandas", "NaT"), loaded_attribute("pandas", "NA")
    return [
        value
        for value in values
        if not (value is None or (type(value) is float and value != value) or value is nat or value is na)
    ]


def sequence_text(items: Iterable[object], size: int, brackets: tuple[str, str], depth: int, width: int) -> str:
    """Format the first of `size` items in brackets."""
    left, right = brackets
    if depth <= 0 and size:
        return f"{left}… {size:,} {_items_text(size)}{right}"
    shown = [plain_line(item, depth=depth - 1, width=width) for item in itertools.islice(items, ITEMS)]
    return left + ", ".join(shown + _more_note(size)) + right


def mapping_text(pairs: Iterable[tuple[object, object]], size: int, depth: int, width: int) -> str:
    """Format the first of `size` pairs in braces."""
    if depth <= 0 and size:
        return f"{{… {size:,} {_items_text(size)}}}"
    first = itertools.islice(pairs, ITEMS)
    shown = [
        f"{plain_line(key, depth=0, width=width)}: {plain_line(item, depth=depth - 1, width=width)}"
        for key, item in first
    ]
    return "{" + ", ".join(shown + _more_note(size)) + "}"


def _items_text(size: int) -> str:
    return "item" if size == 1 else "items"


def _more_note(size: int) -> list[str]:
    return [f"… {size - ITEMS:,} more"] if size > ITEMS else []


def _library_scalar(value: object, width: int) -> str | None:
    """Format numbers and times of NumPy and pandas with the libraries' own code, which is trusted here."""
    cls = type(value)
    if value is loaded_attribute("pandas", "NaT") or value is loaded_attribute("pandas", "NA"):
        return cls.__name__.removesuffix("Type")
    if cls is loaded_attribute("pandas", "Timestamp"):
        return _timestamp(value, width)
    if cls is loaded_attribute("pandas", "Interval"):
        return _interval(value, width)
    if is_one_of(cls, (loaded_attribute("pandas", "Timedelta"), loaded_attribute("pandas", "Period"))):
        return str(value)
    generic = loaded_attribute("numpy", "generic")
    if generic is None or generic not in class_mro(cls) or not is_of_package(cls, "numpy"):
        return None
    return str(value) if cls.__name__ in ("datetime64", "timedelta64") else _numpy_scalar(value, width)


def _timestamp(value: Any, width: int) -> str:
    """Format a timestamp, in UTC if its time zone class isn't Python's and would run another library's code."""
    if is_one_of(type_of(value.tzinfo), _SAFE_ZONES):
        return _time_text(value, width)
    return f"{str(value.to_datetime64()).replace('T', ' ')} UTC"


def _interval(value: Any, width: int) -> str:
    left, right = ("[" if value.closed_left else "("), ("]" if value.closed_right else ")")
    return f"{left}{plain_line(value.left, width=width)}, {plain_line(value.right, width=width)}{right}"


def _numpy_scalar(value: Any, width: int) -> str | None:
    item = value.item()
    return plain_line(item, width=width) if is_scalar(item) else None


def _one_line(text: str, width: int) -> str:
    head = text[:width]
    shown = head if head.isprintable() else repr(head)[1:-1]
    return shown if len(text) <= width else f"{shown}…"


def _short_text(value: str, width: int) -> str:
    return repr(value) if len(value) <= width else f"{value[:width]!r}… ({len(value):,} characters)"


def _short_bytes(value: bytes, width: int) -> str:
    head = bytes(value[: width // 2])
    return repr(head) if len(value) == len(head) else f"{head!r}… ({len(value):,} bytes)"


def _int_text(value: int, width: int) -> str:
    bits = value.bit_length()
    return str(value) if bits <= _BIG_INT else f"<int of {bits:,} bits>"


def _decimal_text(value: decimal.Decimal, width: int) -> str:
    return _one_line(str(value), width)


def _fraction_text(value: fractions.Fraction, width: int) -> str:
    return f"{_int_text(value.numerator, width)}/{_int_text(value.denominator, width)}"


def _range_text(value: range, width: int) -> str:
    return f"range({_int_text(value.start, width)}, {_int_text(value.stop, width)}, {_int_text(value.step, width)})"


def _time_text(value: datetime.datetime | datetime.time, width: int) -> str:
    if not is_one_of(type(value.tzinfo), _SAFE_ZONES):
        return f"<{type_name(value)}>"
    return value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()


def _as_repr(value: object, width: int) -> str:
    return repr(value)


def _as_str(value: object, width: int) -> str:
    return _one_line(str(value), width)


_SCALARS: Final[TypeMap[Callable[[Any, int], str]]] = TypeMap(
    {
        types.NoneType: _as_repr,
        bool: _as_repr,
        int: _int_text,
        float: _as_repr,
        complex: _as_repr,
        str: _short_text,
        bytes: _short_bytes,
        bytearray: _short_bytes,
        range: _range_text,
        types.EllipsisType: _as_repr,
        decimal.Decimal: _decimal_text,
        fractions.Fraction: _fraction_text,
        datetime.date: _as_str,
        datetime.datetime: _time_text,
        datetime.time: _time_text,
        datetime.timedelta: _as_str,
        uuid.UUID: _as_str,
        pathlib.PosixPath: _as_str,
        pathlib.WindowsPath: _as_str,
        pathlib.PurePosixPath: _as_str,
        pathlib.PureWindowsPath: _as_str,
    }
)
