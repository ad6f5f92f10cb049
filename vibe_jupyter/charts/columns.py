"""A chart's data as lists of numbers or texts, and facts about them."""

import array
import base64
import binascii
import datetime
import itertools
import math
import re
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, cast

Value = float | str  # number or text; times are texts in ISO 8601 format

MOST_VALUES: Final = 2_000_000  # numbers of one packed column to decode
_TREND: Final = 0.6  # minimum correlation with the order for a series to count as rising or falling
_TREND_POINTS: Final = 4
_TREND_SAMPLE: Final = 500  # points sampled from longer series to determine the trend
_TEXT_WIDTH: Final = 24
_CATEGORIES: Final = 4  # categories named per axis
_TIME: Final = re.compile(r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?")
_MIDNIGHT: Final = re.compile(r"[T ]00:00(:00(\.0+)?)?(Z|\+00:?00)?$")
# Array type codes by the type names that Plotly and Bokeh use for packed numbers.
_CODES: Final[Mapping[str, str]] = {
    **{"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d"},
    **{"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q"},
    **{"uint64": "Q", "float32": "f", "float64": "d", "bool": "b"},
}


@dataclass(frozen=True)
class DataColumn:
    """Values drawn along one axis."""

    values: tuple[Value | None, ...] = ()
    kind: Literal["number", "time", "text"] = "text"
    total: int | None = None  # number of values if `values` is a sample that includes the extremes
    is_estimate: bool = False  # True if `total` is extrapolated from a sample
    is_glance: bool = False  # True if minimum and maximum are those of a sample

    @property
    def count(self) -> int:
        """Number of values, including missing ones."""
        return len(self.values) if self.total is None else self.total

    @cached_property
    def known(self) -> tuple[Value, ...]:
        """The values without missing ones."""
        return tuple(value for value in self.values if value is not None)

    @cached_property
    def low(self) -> Value | None:
        """The minimum, or None for texts."""
        return min(self.known, default=None) if self.kind != "text" else None  # type: ignore[type-var]

    @cached_property
    def high(self) -> Value | None:
        """The maximum, or None for texts."""
        return max(self.known, default=None) if self.kind != "text" else None  # type: ignore[type-var]

    @cached_property
    def distinct(self) -> tuple[Value, ...]:
        """The distinct values, in order of first occurrence."""
        return tuple(dict.fromkeys(self.known))


NOTHING: Final = DataColumn()


def column_of(values: object, total: int | None = None) -> DataColumn:
    """Make a column from part of a chart's specification: a list, packed numbers, one value, or nothing."""
    if isinstance(values, DataColumn):
        return values
    given = list(_items_of(values))
    if given and set(map(type, given)) <= {int, float}:  # the most common case, and the one with the most values
        with suppress(OverflowError):
            return number_column(map(float, cast("list[float]", given)), total)
    items = list(map(one_value, given))
    known = [value for value in items if value is not None]
    if known and all(type(value) is not str for value in known):
        return DataColumn(tuple(items), "number", total)
    if known and all(type(value) is str and _TIME.fullmatch(value) for value in known[:50]):
        times = tuple(None if value is None else _MIDNIGHT.sub("", str(value)).replace("T", " ") for value in items)
        return DataColumn(times, "time", total)
    return DataColumn(tuple(None if value is None else value_text(value) for value in items), "text", total)


def sampled_column(data: Mapping[str, Any], key: str) -> DataColumn:
    """Read a column from data that may be a sample, with its total count and whether its extremes are certain."""
    total = data.get("_total")
    column = column_of(data.get(key), total if type(total) is int else None)
    return replace(column, is_glance=True) if key in list_of(data.get("_glanced")) else column


def number_column(values: Iterable[float], total: int | None = None) -> DataColumn:
    """Make a column of numbers. Infinite values and NaN count as missing."""
    return DataColumn(tuple([value if math.isfinite(value) else None for value in values]), "number", total)


def joined_column(columns: Iterable[DataColumn]) -> DataColumn:
    """Concatenate columns. Columns of different kinds become text."""
    parts = [column for column in columns if column.values]
    if not parts:
        return NOTHING
    if len(parts) == 1:
        return parts[0]
    values = tuple(itertools.chain.from_iterable(column.values for column in parts))
    total, is_estimate = sum(column.count for column in parts), any(column.is_estimate for column in parts)
    if len({column.kind for column in parts}) == 1:
        is_glance = any(column.is_glance for column in parts)
        return DataColumn(values, parts[0].kind, total, is_estimate, is_glance)
    texts = tuple(None if value is None else value_text(value) for value in values)
    return DataColumn(texts, "text", total, is_estimate)


def taken(column: DataColumn, places: Iterable[int]) -> DataColumn:
    """Return the values at the given indices."""
    values = tuple(column.values[place] for place in places if place < len(column.values))
    if column.count == len(column.values):
        return DataColumn(values, column.kind)
    return DataColumn(values, column.kind, round(len(values) * column.count / len(column.values)), is_estimate=True)


def one_value(value: object) -> Value | None:
    """Convert a value of a specification. Returns None for missing values."""
    kind = type(value)
    if kind is float:
        return value if math.isfinite(cast("float", value)) else None  # type: ignore[return-value]
    if kind is int or kind is bool:
        number = cast("int", value)
        return float(number) if abs(number) < 1 << 1000 else None  # float() overflows at 1 << 1024
    if kind is str:
        return cast("str", value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if kind in (list, tuple):
        # Nested categories, such as grouped bars.
        return " / ".join(value_text(one_value(part)) for part in cast("Sequence[object]", value)[:4])
    return None


def _items_of(values: object) -> Iterable[object]:
    if type(values) is list or type(values) is tuple:
        return cast("Sequence[object]", values)
    if type(values) is dict:
        return unpacked(cast("dict[str, Any]", values)) or ()
    return ()


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return the value if it is exactly a dictionary, else an empty one. Subclasses may override iteration."""
    return cast("Mapping[str, Any]", value) if type(value) is dict else {}


def list_of(value: object) -> list[Any]:
    """Return the value as a list if it is a list or tuple, else an empty one."""
    if type(value) is tuple:
        return list(cast("tuple[Any, ...]", value))
    return cast("list[Any]", value) if type(value) is list else []


def unpacked(packed: Mapping[str, Any]) -> Sequence[object] | None:
    """Decode base64 numbers as Plotly (``bdata``) and Bokeh (``ndarray``) write them. None for anything else."""
    dtype, data = packed.get("dtype"), packed.get("bdata")
    if data is None and packed.get("type") == "ndarray":
        inner = packed.get("array")
        if type(inner) is list:
            return cast("list[object]", inner)
        data = cast("dict[str, Any]", inner).get("data") if type(inner) is dict else None
    code = _CODES.get(str(dtype).removeprefix("<").removeprefix("|"))
    if code is None or type(data) is not str or len(data) > MOST_VALUES * 12:
        return None
    try:
        numbers = array.array(code, _whole_bytes(base64.b64decode(data)))
    except (ValueError, binascii.Error, zlib.error):
        return None
    if packed.get("order", "little") != sys.byteorder:
        numbers.byteswap()
    return numbers.tolist()


def _whole_bytes(raw: bytes) -> bytes:
    """Undo Bokeh's gzip compression, up to a size limit."""
    return zlib.decompressobj(wbits=31).decompress(raw, MOST_VALUES * 8) if raw[:2] == b"\x1f\x8b" else raw


def value_text(value: Value | None) -> str:
    """Format a number with five significant digits, or shorten a text."""
    if value is None:
        return "none"
    if type(value) is str:
        text = " ".join(value.split())
        return text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…"
    number = cast("float", value)
    if number == int(number) and abs(number) < 1e9:
        return str(int(number))
    return f"{number:.5g}"


def range_text(column: DataColumn) -> str:
    """Describe the range: ``1 … 9``, ``about 1 … 9``, or the first categories."""
    if column.kind != "text":
        low, high = column.low, column.high
        if low is None:
            return ""
        about = "about " if column.is_glance else ""
        return about + (value_text(low) if low == high else f"{value_text(low)} … {value_text(high)}")
    distinct = column.distinct
    shown = ", ".join(map(value_text, distinct[:_CATEGORIES]))
    return f"{shown}, … ({len(distinct)} categories)" if len(distinct) > _CATEGORIES else shown


def median_of(column: DataColumn) -> float | None:
    """Return the median, or None for anything but numbers."""
    if column.kind != "number" or not column.known:
        return None
    ordered = sorted(cast("tuple[float, ...]", column.known))
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def trend_of(x: DataColumn, y: DataColumn) -> str:
    """Return ``rising``, ``falling`` or "" for numbers in order of x."""
    if y.kind != "number":
        return ""
    pairs = list(zip(x.values, y.values, strict=False)) if len(x.values) == len(y.values) else list(enumerate(y.values))
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    if len(known) < _TREND_POINTS:
        return ""
    if x.kind != "text":
        known.sort(key=lambda pair: cast("float", pair[0]))
    step = max(1, len(known) // _TREND_SAMPLE)
    values = [cast("float", other) for _, other in known[::step]]
    middle, mean = (len(values) - 1) / 2, math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    if not spread or not math.isfinite(spread):
        return ""
    together = math.fsum((place - middle) * (value - mean) for place, value in enumerate(values))
    scale = math.sqrt(spread * math.fsum((place - middle) ** 2 for place in range(len(values))))
    share = together / scale
    return "rising" if share >= _TREND else "falling" if share <= -_TREND else ""


def extremes_of(x: DataColumn, y: DataColumn) -> tuple[Value | None, Value | None]:
    """Return the x values of the minimum and maximum y, or None if unknown."""
    if y.kind == "text" or len(x.values) != len(y.values) or not y.known:
        return None, None
    return x.values[y.values.index(y.low)], x.values[y.values.index(y.high)]
