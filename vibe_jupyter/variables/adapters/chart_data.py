"""Chart data as plain lists, extracted without running code of the user's objects."""

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from vibe_jupyter.variables.adapters import (
    TypeMap,
    class_mro,
    instance_dict,
    is_of_package,
    is_one_of,
    loaded_attribute,
    type_of,
)
from vibe_jupyter.variables.adapters.pandas_frames import is_known_storage, pandas_values, sample_values
from vibe_jupyter.variables.plain_values import is_scalar, plain_cell_text

_LIST_ITER: Final[Any] = list.__dict__["__iter__"]
# Points read per series. Larger series are sampled evenly, plus the points with the minimum and maximum.
MOST_POINTS: Final = 1_000
# List items searched for the minimum and maximum. Longer lists are sampled evenly.
MOST_LISTED: Final = 20_000
# Values of a range or a pyarrow column that are converted to Python objects.
MOST_ROWS: Final = 20_000
MOST_ITEMS: Final = 400  # items of a list that isn't a data column
DEPTH: Final = 12
_PLAIN: Final = (str, int, float, bool, type(None), datetime.datetime, datetime.date, datetime.time)
_NUMBERS: Final = "iufb"


class _NumberKind(NamedTuple):
    # Returns the number, as a plain one for subclasses. Raises TypeError for other classes without running their code.
    own_number: Callable[[Any], int | float]
    code: str  # NumPy's type code


# Number types that fill a column.
_KINDS: Final[TypeMap[_NumberKind]] = TypeMap(
    {int: _NumberKind(int.conjugate, "q"), float: _NumberKind(float.conjugate, "d")}
)


def plain_item(value: Any) -> Any:
    """Return a column's value as a plain object, or None for an unknown class."""
    cls = type_of(value)
    if is_one_of(cls, _PLAIN):
        return value[:200] if cls is str else value
    if cls is decimal.Decimal:
        return float(value) if value.is_finite() else None
    if is_one_of(cls, (tuple, list)):
        return [plain_item(part) for part in value[:4]]
    return None if not is_scalar(value) and not is_of_package(cls, "pandas") else plain_cell_text(value)


def stored_values(value: Any) -> Any:
    """Return the NumPy array or list behind a column of any known library, or None if it isn't a column."""
    cls = type_of(value)
    if cls is loaded_attribute("numpy", "ndarray"):
        return value
    if is_one_of(cls, (list, tuple)):
        return _as_array(value) if MOST_POINTS < len(value) <= MOST_LISTED else value
    if cls is range:
        return value if len(value) <= MOST_ROWS else None
    if any(cls is loaded_attribute("pandas", name) for name in ("Series", "Index", "DatetimeIndex", "RangeIndex")):
        values = pandas_values(value)
        return _of_pandas(values) if is_known_storage(type_of(values)) else None
    if cls is loaded_attribute("polars", "Series"):
        return loaded_attribute("polars", "Series")._from_pyseries(instance_dict(value)["_s"]).to_numpy()
    return None


def _as_array(column: Sequence[Any]) -> Any:
    """Convert a long list of numbers to a NumPy array, where finding extremes takes a tenth of the time."""
    fromiter, asarray = loaded_attribute("numpy", "fromiter"), loaded_attribute("numpy", "asarray")
    kind = _KINDS.get(type_of(column[0]))
    if fromiter is None or kind is None:
        return column
    try:
        return fromiter(map(kind.own_number, column), kind.code, len(column))
    except OverflowError:  # integers wider than 64 bits
        return column
    except TypeError:  # mixed classes
        array = asarray(column) if all(map(_is_number, column)) else None
    return array if array is not None and array.dtype.kind in _NUMBERS else column


def _is_number(value: object) -> bool:
    # Identity of the class: hashing or comparing a class may call its metaclass.
    return type(value) is float or type(value) is int


def _of_pandas(values: Any) -> Any:
    inner: Any = getattr(values, "_ndarray", None) if is_of_package(type_of(values), "pandas") else values
    is_array = type_of(inner) is loaded_attribute("numpy", "ndarray")
    return inner if is_array and inner.dtype.kind != "O" else sample_values(values, None)


def list_items(value: Any) -> list[Any]:
    """Return the items of a list or subclass, with list's own iterator."""
    return list(_LIST_ITER(value))


def chosen_positions(columns: Sequence[Any]) -> list[int] | None:
    """Return the positions to read in columns of equal length, or None for all."""
    rows = max((len(one) for one in columns), default=0)
    if rows <= MOST_POINTS:
        return None
    chosen = {place * (rows - 1) // (MOST_POINTS - 1) for place in range(MOST_POINTS)}
    for column in columns:
        if len(column) == rows:
            chosen |= _extreme_places(column)
    return sorted(chosen)


def is_glanced_at(column: Any) -> bool:
    """Return whether the column is only sampled for its minimum and maximum."""
    return is_one_of(type_of(column), (list, tuple)) and len(column) > MOST_LISTED


def _extreme_places(column: Any) -> set[int]:
    """Return the positions of a column's smallest and largest number."""
    step = 1
    if is_glanced_at(column):
        step = -(-len(column) // MOST_LISTED)
        column = _as_array(column[::step])
    if is_one_of(type_of(column), (list, tuple)):
        return {place * step for place in _listed_extremes(column)}
    is_array = type_of(column) is loaded_attribute("numpy", "ndarray") and column.ndim == 1
    if not is_array or column.dtype.kind not in _NUMBERS:
        return set()
    finite = column if column.dtype.kind != "f" else _without_nan(column)
    return {int(finite.argmin()) * step, int(finite.argmax()) * step}


def _listed_extremes(column: Sequence[Any]) -> set[int]:
    """Return the positions of a list's smallest and largest number."""
    if all(map(_is_number, column)):
        low, high = min(column), max(column)
        if low == low and high == high:  # NaN in first place would be returned by both
            return {column.index(low), column.index(high)}
    numbers = [(item, place) for place, item in enumerate(column) if _is_number(item) and item == item]
    return {min(numbers)[1], max(numbers)[1]} if numbers else set()


def _without_nan(column: Any) -> Any:
    # `argmin` and `argmax` would both return the position of a NaN.
    numpy: Any = loaded_attribute
    missing = column != column
    return (
        numpy("numpy", "where")(missing, column[~missing][0], column) if missing.any() and not missing.all() else column
    )


def plain_column(values: Any, places: Sequence[int] | None = None) -> list[Any]:
    """Convert a column to a list of plain values."""
    if type_of(values) is loaded_attribute("numpy", "ndarray"):
        array = values if places is None else values[list(places)]
        if array.dtype.kind == "M":
            return [None if item is None else item for item in array.astype("M8[us]").tolist()]
        if array.dtype.kind in _NUMBERS + "U":
            return array.tolist()
        return [plain_item(item) for item in array.reshape(-1).tolist()] if array.dtype.kind == "O" else []
    return [plain_item(values[place]) for place in (range(len(values)) if places is None else places)]


def plain_tree(value: Any, depth: int = DEPTH) -> Any:
    """Convert nested dictionaries, lists and data columns to JSON-like values."""
    cls = type_of(value)
    if is_one_of(cls, (str, int, float, bool, type(None))):
        return value
    if cls is dict and depth:
        return _plain_dict(cast("dict[object, object]", value), depth)
    column = stored_values(value)
    if column is None or not depth:
        return plain_item(value)
    if is_one_of(type_of(column), (list, tuple)) and _is_nested(column):
        return [plain_tree(part, depth - 1) for part in column[:MOST_ITEMS]]
    return plain_column(column, chosen_positions([column]) if _is_long(column) else None)


def _plain_dict(value: Mapping[object, object], depth: int) -> dict[str, Any]:
    """Convert one level. Columns of equal length are read at the same points.

    `_total` is their full length, `_places` the points read, and `_glanced` names columns that were only sampled for
    their extremes.
    """
    columns = {key: stored_values(one) for key, one in value.items() if type(key) is str}
    long = {key: one for key, one in columns.items() if one is not None and _is_long(one)}
    rows = max((len(one) for one in long.values()), default=0)
    places = chosen_positions([one for one in long.values() if len(one) == rows]) if long else None
    out: dict[str, Any] = {}
    for key, one in value.items():
        if type(key) is str and key != "template":
            own = long.get(key)
            out[key] = plain_column(own, places) if own is not None and len(own) == rows else plain_tree(one, depth - 1)
    if places is None:
        return out
    return {**out, "_total": rows, "_places": places, "_glanced": [*filter(lambda key: is_glanced_at(long[key]), long)]}


def _is_nested(values: Sequence[object]) -> bool:
    return any(is_one_of(type_of(one), (dict, list, tuple)) or stored_values(one) is not None for one in values[:4])


def _is_long(column: Any) -> bool:
    return (
        len(column) > MOST_POINTS
        and getattr(column, "ndim", 1) == 1
        and not (is_one_of(type_of(column), (list, tuple)) and _is_nested(column))
    )


def frame_rows(frame: Any, wanted: set[str]) -> tuple[list[dict[str, Any]], int] | None:
    """Return a frame's rows with the wanted columns and its row count, or None if it isn't a frame."""
    columns = _frame_columns(frame, wanted)
    if columns is None:
        return None
    places = chosen_positions(list(columns.values()))
    known = {name: plain_column(values, places) for name, values in columns.items()}
    total = max((len(values) for values in columns.values()), default=0)
    return [dict(zip(known, row, strict=True)) for row in zip(*known.values(), strict=True)], total


def _frame_columns(frame: Any, wanted: set[str]) -> dict[str, Any] | None:
    bases = class_mro(type_of(frame))
    if loaded_attribute("pandas", "DataFrame") in bases:
        memory: Any = instance_dict(frame)["_mgr"]
        labels = [label if type(label) is str else "" for label in memory.axes[0].tolist()]
        found = {label: memory.iget_values(place) for place, label in enumerate(labels) if label in wanted}
        return {name: _of_pandas(one) for name, one in found.items() if is_known_storage(type_of(one))}
    if type_of(frame) is loaded_attribute("polars", "DataFrame"):
        return {name: _polars_values(frame.get_column(name)) for name in frame.columns if name in wanted}
    if type_of(frame) is loaded_attribute("pyarrow", "Table"):
        return {
            name: frame.column(name).slice(0, MOST_ROWS).to_pylist() for name in frame.column_names if name in wanted
        }
    return None


def _polars_values(series: Any) -> Any:
    return series.to_numpy() if series.dtype.is_numeric() or series.dtype.is_temporal() else series.to_list()
