"""polars frames and series in constant time, running only polars' own code."""

import functools
import re
from typing import Any

from vibe_jupyter.variables.adapters import (
    LABELS_COMPARED,
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_mro,
    class_name,
    instance_dict,
    is_of_package,
    is_one_of,
    loaded_attribute,
    module_dict,
    type_of,
)
from vibe_jupyter.variables.adapters.frames import (
    CELL_WIDTH,
    HEAD_COLUMNS,
    LABEL_WIDTH,
    LINE_COLUMNS,
    Column,
    Frame,
    choose_columns,
    describe_frame,
    distinct_text,
    number_column,
    number_text,
    one_line,
    range_of_numbers,
    spread_rows,
    unknown_columns,
    value_column,
)
from vibe_jupyter.variables.adapters.numpy_arrays import array_figures
from vibe_jupyter.variables.plain_values import plain_cell_text, present_values

_TYPE_WIDTH = 60  # characters of a column's type; nested ones can be long

# Types whose values are only strings or booleans.
_TEXT_TYPES = ("String", "Utf8", "Categorical", "Boolean")

# Datetime(time_unit='us', time_zone=None) is shown as Datetime(us).
_TIME_PARAMETERS = re.compile(r"time_unit='(\w+)'|, time_zone=None|time_zone='([^']+)'")
# Days since 1970 of Python's first and last date, less one day, since a time zone may add a day.
_FIRST_DAY, _LAST_DAY = -719_162 + 1, 2_932_896 - 1
_DAY = 24 * 60 * 60
# Python's range for types that can hold more, in their own ticks.
_RANGES = {
    "Date ": (_FIRST_DAY, _LAST_DAY),
    "Datetime us": (_FIRST_DAY * _DAY * 10**6, _LAST_DAY * _DAY * 10**6),
    "Datetime ms": (_FIRST_DAY * _DAY * 10**3, _LAST_DAY * _DAY * 10**3),
    "Duration ms": (-999_999_999 * _DAY * 10**3, 999_999_999 * _DAY * 10**3),
}
_CONTENT_COLUMNS = 40  # columns whose values enter the fingerprint
# Column types known to be polars' own, by identity. Checking every column again would take a fifth of
# the time.
_OWN_TYPES: dict[int, type] = {}


def polars_frame_adapter() -> VariableAdapter:
    """Return an adapter for `polars.DataFrame` and subclasses."""
    return VariableAdapter(
        line=_frame_line, describe=_describe_frame, fingerprint=_frame_fingerprint, labels=_frame_labels
    )


def polars_series_adapter() -> VariableAdapter:
    """Return an adapter for `polars.Series` and subclasses, described as a one-column frame."""
    return VariableAdapter(line=_series_line, describe=_describe_series, fingerprint=_series_fingerprint)


def _frame_line(value: Any) -> str:
    frame = _plain_frame(value)
    columns = tuple(_bare_column(frame.to_series(place)) for place in range(min(frame.width, LINE_COLUMNS)))
    return one_line(Frame(_frame_kind(value, "DataFrame"), frame.height, frame.width, columns))


def _frame_labels(value: Any) -> list[str]:
    return [plain_cell_text(name, LABEL_WIDTH) for name in _plain_frame(value).columns[:LABELS_COMPARED]]


def _describe_frame(value: Any, view: VariableView) -> VariableDescription:
    frame = _plain_frame(value)
    chosen = choose_columns(frame.columns, view.columns)
    places = spread_rows(frame.height) if view.stats else ()
    series = [frame.to_series(place) for place in chosen]
    columns = [_sampled_column(each, places) if view.stats else _bare_column(each) for each in series]
    return describe_frame(
        Frame(
            kind=_frame_kind(value, "DataFrame"),
            rows=frame.height,
            width=frame.width,
            is_chosen=view.columns is not None,
            unknown=unknown_columns(frame.columns, view.columns),
            columns=tuple(columns),
            looked_at=(frame.height if places is None else len(places)) if view.stats else 0,
            nulls_of_all=view.stats,
            head=_head_rows(series[:HEAD_COLUMNS], view.rows),
        )
    )


def _plain_frame(value: Any) -> Any:
    return loaded_attribute("polars", "DataFrame")._from_pydf(instance_dict(value)["_df"])


def _plain_series(value: Any) -> Any:
    return loaded_attribute("polars", "Series")._from_pyseries(instance_dict(value)["_s"])


def _bare_column(series: Any) -> Column:
    return Column(plain_cell_text(series.name, LABEL_WIDTH), _dtype_text(series.dtype))


def _series_sample(series: Any, places: tuple[int, ...] | None) -> Any:
    # Column by column: gathering a whole frame wakes polars' thread pool, which is slower on busy machines.
    return series if places is None else series[_sample_positions(places)]


@functools.lru_cache(maxsize=16)
def _sample_positions(places: tuple[int, ...]) -> Any:
    polars = module_dict("polars")
    series: Any = polars["Series"]
    return series(places, dtype=polars["UInt32"])


def _sampled_column(series: Any, places: tuple[int, ...] | None) -> Column:
    label, dtype = plain_cell_text(series.name, LABEL_WIDTH), _dtype_text(series.dtype)
    # polars caches null counts, so this is fast at any length.
    nulls: int = series.null_count()
    sample = _series_sample(series, places)
    if series.dtype.is_float() or series.dtype.is_integer():
        return number_column(label, dtype, (nulls, *_range_of_numbers(sample)))
    if series.dtype.is_temporal():
        if not _fits_python(sample):
            return Column(label, dtype, nulls, "", "some beyond Python's range")
        low, high = sample.min(), sample.max()
        span = "" if low is None else f"{plain_cell_text(low, CELL_WIDTH)} … {plain_cell_text(high, CELL_WIDTH)}"
        return number_column(label, dtype, (nulls, span, ""))
    if dtype in _TEXT_TYPES:
        return Column(label, dtype, nulls, *distinct_text(sample.unique(maintain_order=True).to_list()))
    column = value_column(label, dtype, sample.to_list())
    return Column(label, dtype, nulls, column.sample, column.detail, column.distinct)


def _range_of_numbers(sample: Any) -> tuple[str, str]:
    low, high, mean = sample.min(), sample.max(), sample.mean()
    if low is None:
        return "", ""
    if mean == mean:
        return f"{number_text(low)} … {number_text(high)}", f"mean {number_text(mean)}"
    unknown, span, detail = _range_without_nan(sample)
    not_numbers = f"{unknown - sample.null_count():,} NaN"
    return span, f"{detail}, {not_numbers}" if detail else not_numbers


def _range_without_nan(sample: Any) -> tuple[int, str, str]:
    """Return the count of nulls and NaN together, and the range and mean of the rest."""
    if module_dict("numpy"):
        return array_figures(sample.to_numpy())
    known = present_values(sample.to_list())
    span, detail = range_of_numbers(known) if known else ("", "")
    return len(sample) - len(known), span, detail


def _dtype_text(dtype: Any) -> str:
    cls = type_of(dtype)
    if id(cls) not in _OWN_TYPES:
        # A type without parameters may be given as a class rather than an instance.
        cls = dtype if is_one_of(type, class_mro(cls)) else cls
        if not is_of_package(cls, "polars"):
            return f"<{class_name(cls)}>"
        if cls is type_of(dtype):
            _OWN_TYPES[id(cls)] = cls
    return _type_text(dtype)


@functools.lru_cache(maxsize=256)
def _type_text(dtype: Any) -> str:
    text = _TIME_PARAMETERS.sub(lambda found: found[1] or found[2] or "", str(dtype))
    return text if len(text) <= _TYPE_WIDTH else text[:_TYPE_WIDTH] + "…"


def _head_rows(columns: list[Any], rows: int) -> tuple[tuple[str, ...], ...]:
    return tuple(zip(*(_cells(series.head(rows)) for series in columns), strict=True))


def _cells(series: Any) -> list[str]:
    if series.dtype.is_temporal() and not _fits_python(series):
        return ["…"] * len(series)
    return [number_text(value) for value in series.to_list()]


def _fits_python(series: Any) -> bool:
    """Return whether all times fit into Python's types. polars panics when converting longer ones."""
    least, greatest = _RANGES.get(f"{type_of(series.dtype).__name__} {getattr(series.dtype, 'time_unit', '')}", (0, 0))
    ticks = series.to_physical()
    low, high = ticks.min(), ticks.max()
    return least == greatest or low is None or (least <= low and high <= greatest)


def _frame_kind(value: Any, name: str) -> str:
    cls = type_of(value)
    own = f"polars {name}"
    return own if cls is loaded_attribute("polars", name) else f"{class_name(cls)} ({own})"


def _series_line(value: Any) -> str:
    series = _plain_series(value)
    return f"{_frame_kind(value, 'Series')} {len(series):,} {_dtype_text(series.dtype)}"


def _describe_series(value: Any, view: VariableView) -> VariableDescription:
    frame = _plain_series(value).alias("value").to_frame()
    described = _describe_frame(frame, VariableView(rows=view.rows, stats=view.stats))
    line = _series_line(value)
    return VariableDescription(line, described.body, line.removeprefix("polars Series "), described.table)


def _series_fingerprint(value: Any) -> object:
    series = _plain_series(value)
    return (id(value), series.name, len(series), _series_content(series, spread_rows(len(series))))


def _frame_fingerprint(value: Any) -> object:
    frame = _plain_frame(value)
    places = spread_rows(frame.height)
    columns = range(min(frame.width, _CONTENT_COLUMNS))
    content = tuple(_series_content(frame.to_series(place), places) for place in columns)
    return (id(value), frame.shape, hash(tuple(frame.columns)), content)


def _series_content(series: Any, places: tuple[int, ...] | None) -> object:
    dtype = _dtype_text(series.dtype)
    if series.dtype.is_nested() or series.dtype == loaded_attribute("polars", "Object"):
        return (dtype, series.null_count())
    return (dtype, series.null_count(), hash(tuple(_series_sample(series, places).hash(seed=0).to_list())))
