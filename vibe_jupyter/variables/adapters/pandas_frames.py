"""pandas frames, series and indexes in constant time, running only pandas' own code.

A subclass is first rewrapped as a plain frame on the same memory, so that none of its overrides is called. Columns
stored in classes of other libraries are named but not read.
"""

import bisect
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from vibe_jupyter.variables.adapters import (
    LABELS_COMPARED,
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_name,
    instance_dict,
    is_of_package,
    loaded_attribute,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.frames import (
    CELL_WIDTH,
    COLUMNS_LIMIT,
    HEAD_COLUMNS,
    LABEL_WIDTH,
    LINE_COLUMNS,
    Column,
    Frame,
    choose_columns,
    describe_frame,
    number_column,
    number_text,
    one_line,
    spread_rows,
    unknown_columns,
    value_column,
)
from vibe_jupyter.variables.adapters.numpy_arrays import array_figures, dtype_text, has_figures
from vibe_jupyter.variables.plain_values import comparison_mark, plain_cell_text, plain_line

_FIRST_LABELS: Final = 6  # first index labels shown

_CONTENT_WIDTH: Final = 100_000  # characters of one value that enter a fingerprint


def pandas_frame_adapter() -> VariableAdapter:
    """Return an adapter for `pandas.DataFrame` and subclasses."""
    return VariableAdapter(
        line=_frame_line,
        describe=_describe_frame,
        fingerprint=_frame_fingerprint,
        labels=_frame_labels,
    )


def pandas_series_adapter() -> VariableAdapter:
    """Return an adapter for `pandas.Series` and subclasses, described as a one-column frame."""
    return VariableAdapter(line=_series_line, describe=_describe_series, fingerprint=_series_fingerprint)


def _frame_line(value: Any) -> str:
    frame = _plain_frame(value)
    foreign = _foreign_columns(frame)
    labels = labels_of(frame, LINE_COLUMNS)
    columns = tuple(_bare_column(frame, place, label, foreign) for place, label in enumerate(labels))
    rows, width = frame.shape
    return one_line(Frame(_frame_kind(value, "DataFrame"), rows, width, columns))


def _describe_frame(value: Any, view: VariableView) -> VariableDescription:
    frame = _plain_frame(value)
    foreign = _foreign_columns(frame)
    rows, width = frame.shape
    places = spread_rows(rows) if view.stats else ()
    labels = labels_of(frame, None if view.columns is not None else 10 * LINE_COLUMNS)
    chosen = choose_columns(labels, view.columns)
    columns = tuple(
        described_column(stored_column(frame, place), labels[place], places)
        if view.stats and place not in foreign
        else _bare_column(frame, place, labels[place], foreign)
        for place in chosen
    )
    head = _head_rows(frame, chosen[:HEAD_COLUMNS], foreign, view.rows)
    return describe_frame(
        Frame(
            kind=_frame_kind(value, "DataFrame"),
            rows=rows,
            width=width,
            is_chosen=view.columns is not None,
            unknown=unknown_columns(labels, view.columns),
            columns=columns,
            looked_at=(rows if places is None else len(places)) if view.stats else 0,
            index=_axes_text(frame),
            head=head,
            row_labels=_row_labels(frame.index, len(head)),
        )
    )


def _row_labels(index: Any, count: int) -> tuple[str, ...]:
    """Return the labels of the first rows, or nothing for a default index."""
    if not index_text(index):
        return ()
    return tuple(plain_cell_text(label, CELL_WIDTH) for label in _label_values(index[:count]))


def _axes_text(frame: Any) -> str:
    """Describe the index, and the columns if they have several named levels."""
    columns = frame.columns
    several = type_of(columns) is loaded_attribute("pandas", "MultiIndex")
    levels = f"columns: {_index_line(columns)}" if several and any(name is not None for name in columns.names) else ""
    return "; ".join(filter(None, (index_text(frame.index), levels)))


def _plain_frame(value: Any) -> Any:
    """Return a plain frame on the same memory, without the subclass or attributes set on the instance."""
    return _from_memory(value, loaded_attribute("pandas", "DataFrame"))


def _from_memory(value: Any, cls: Any) -> Any:
    # pandas before 2.1 accepts the block manager in its constructor.
    plain = _with_plain_axes(_memory_of(value))
    return cls._from_mgr(plain, plain.axes) if hasattr(cls, "_from_mgr") else cls(plain)


def _with_plain_axes(memory: Any) -> Any:
    axes: list[Any] = [plain_index(axis) for axis in memory.axes]
    if all(one is other for one, other in zip(axes, memory.axes, strict=True)):
        return memory
    make: Any = type_of(memory)
    return make(memory.blocks, axes, verify_integrity=False) if len(axes) > 1 else make(memory.blocks[0], axes[0])


def _foreign_columns(frame: Any) -> frozenset[int]:
    """Return positions of columns stored in other libraries' classes, whose code would run on any access."""
    foreign: set[int] = set()
    for block in frame._mgr.blocks:
        if not is_known_storage(type_of(block.values)):
            foreign.update(block.mgr_locs.as_array.tolist())
    return frozenset(foreign)


def _bare_column(frame: Any, place: int, label: str, foreign: frozenset[int]) -> Column:
    if place in foreign:
        return Column(label, _foreign_type(frame, place), None)
    return Column(label, pandas_type(stored_column(frame, place).dtype))


def _foreign_type(frame: Any, place: int) -> str:
    blocks = (block for block in frame._mgr.blocks if place in block.mgr_locs.as_array)
    return f"<{type_name(next(blocks).values)}>"


def _head_rows(frame: Any, chosen: list[int], foreign: frozenset[int], rows: int) -> tuple[tuple[str, ...], ...]:
    count = min(rows, len(frame))
    columns = [
        ["…"] * count
        if place in foreign
        else [number_text(value) for value in stored_column(frame, place)[:count].tolist()]
        for place in chosen
    ]
    return tuple(zip(*columns, strict=True))


def _frame_kind(value: Any, name: str) -> str:
    cls = type_of(value)
    own = f"pandas {name}"
    return own if cls is loaded_attribute("pandas", name) else f"{class_name(cls)} ({own})"


def _memory_of(value: Any) -> Any:
    return instance_dict(value)["_mgr"]


def _series_values(value: Any) -> Any:
    return _memory_of(value).blocks[0].values


def pandas_values(value: Any) -> Any:
    """Return the storage of a series or index."""
    return _series_values(value) if "_mgr" in instance_dict(value) else plain_index(value)._values


def _as_frame(value: Any) -> Any:
    """Convert a series, stored by pandas or NumPy, to a frame. With other storage, pandas would run foreign code."""
    return _from_memory(value, loaded_attribute("pandas", "Series")).to_frame(name="value")


def _series_line(value: Any) -> str:
    values = _series_values(value)
    known = is_known_storage(type_of(values))
    rows = len(plain_index(_memory_of(value).axes[0]))
    return f"{_frame_kind(value, 'Series')} {rows:,} {pandas_type(values.dtype) if known else f'<{type_name(values)}>'}"


def _describe_series(value: Any, view: VariableView) -> VariableDescription:
    line = _series_line(value)
    summary = line.removeprefix("pandas Series ")
    if not is_known_storage(type_of(_series_values(value))):
        return VariableDescription(headline=line, summary=summary)
    described = _describe_frame(_as_frame(value), VariableView(rows=view.rows, stats=view.stats))
    return VariableDescription(headline=line, body=described.body, summary=summary, table=described.table)


def _series_fingerprint(value: Any) -> object:
    if not is_known_storage(type_of(_series_values(value))):
        return (id(value), _series_line(value))
    return (id(value), _frame_content(_as_frame(value)))


def _frame_fingerprint(value: Any) -> object:
    return (id(value), _frame_content(_plain_frame(value)))


def _frame_content(frame: Any) -> object:
    foreign = _foreign_columns(frame)
    places = spread_rows(len(frame))
    labels = labels_of(frame, 10 * LINE_COLUMNS)
    chosen = [place for place in choose_columns(labels, None) if place not in foreign]
    return (
        frame.shape,
        index_text(frame.index),
        hash(tuple(labels)),
        tuple(content_of(stored_column(frame, place), places) for place in chosen),
    )


def pandas_columns(value: Any) -> list[tuple[str, str]]:
    """Return labels and types of a frame's first columns."""
    frame = _plain_frame(value)
    foreign = _foreign_columns(frame)
    labels = labels_of(frame, COLUMNS_LIMIT)
    columns = [_bare_column(frame, place, label, foreign) for place, label in enumerate(labels)]
    return [(column.label, column.type) for column in columns]


def pandas_index_adapter() -> VariableAdapter:
    return VariableAdapter(line=_index_facts_line, describe=_describe_index, fingerprint=id)


def index_text(index: Any) -> str:
    """Describe the index briefly; "" for a default index."""
    if type(index) is loaded_attribute("pandas", "RangeIndex") and index.name is None:
        return ""
    return _index_line(index)


def plain_index(index: Any) -> Any:
    """Return the index without a user-defined subclass, on the same memory."""
    if is_of_package(type_of(index), "pandas"):
        return index
    own: Mapping[str, Any] = instance_dict(index)
    if "_levels" in own:
        parts = {name: own[f"_{name}"] for name in ("levels", "codes", "names")}
        return loaded_attribute("pandas", "MultiIndex")(**parts, verify_integrity=False)
    if "_range" in own:
        return loaded_attribute("pandas", "RangeIndex")(own["_range"])
    return loaded_attribute("pandas", "Index")._simple_new(own["_data"])


def _frame_labels(value: Any) -> list[str]:
    return labels_of(_plain_frame(value), LABELS_COMPARED)


def labels_of(frame: Any, limit: int | None) -> list[str]:
    """Return the labels of a frame's first columns, or of all if `limit` is None."""
    labels = frame.columns if limit is None else frame.columns[:limit]
    return [plain_cell_text(label, LABEL_WIDTH) for label in _label_values(labels)]


def _index_line(index: Any) -> str:
    cls = type_of(index)
    if cls is loaded_attribute("pandas", "MultiIndex"):
        sizes = zip(index.names, index.levels, strict=True)
        levels = ", ".join(f"{plain_cell_text(name, CELL_WIDTH)} {len(level):,}" for name, level in sizes)
        return f"MultiIndex {len(index):,} ({levels})"
    named = f" {plain_cell_text(index.name, CELL_WIDTH)}" if index.name is not None else ""
    return f"{cls.__name__}{named} {len(index):,} {pandas_type(index.dtype)}{_first_and_last(index)}"


def _describe_index(index: Any, view: VariableView) -> VariableDescription:
    first = _label_values(plain_index(index)[:_FIRST_LABELS])
    return VariableDescription(
        _index_facts_line(index), body="first: " + ", ".join(plain_line(label, width=CELL_WIDTH) for label in first)
    )


def _index_facts_line(index: Any) -> str:
    own = f"pandas {_index_line(plain_index(index))}"
    cls = type_of(index)
    return own if is_of_package(cls, "pandas") else f"{class_name(cls)} ({own})"


def _label_values(index: Any) -> list[object]:
    """Return the labels, as tuples for a `MultiIndex`, in the form that `frame[...]` accepts."""
    if type_of(index) is loaded_attribute("pandas", "MultiIndex"):
        levels = zip(index.levels, index.codes, strict=True)
        return list(zip(*(_level_values(plain_index(level), codes) for level, codes in levels), strict=True))
    if not is_known_storage(type_of(index.array)):
        return [f"<{type_name(index.array)}>"] * len(index)
    return cast("list[object]", index.tolist())


def _level_values(level: Any, codes: Any) -> list[object]:
    """Return one level's part of each label. Reads only the values that these labels use, however long the level is."""
    known = codes >= 0  # -1 marks a missing part
    if not is_known_storage(type_of(level.array)):
        return [f"<{type_name(level.array)}>" if one else None for one in known.tolist()]
    values = iter(cast("list[object]", level.take(codes[known]).tolist()))
    return [next(values) if one else None for one in known.tolist()]


def _first_and_last(index: Any) -> str:
    if not len(index) or not is_known_storage(type_of(index.array)):
        return ""
    return f", {plain_line(index[0], width=CELL_WIDTH)} … {plain_line(index[-1], width=CELL_WIDTH)}"


def is_known_storage(cls: type) -> bool:
    """Return whether a column's storage class is NumPy's or pandas', whose code may run."""
    return cls is loaded_attribute("numpy", "ndarray") or is_of_package(cls, "pandas")


def stored_column(frame: Any, place: int) -> Any:
    """Return a column as pandas stores it: a NumPy or pandas array on the same memory."""
    return frame._mgr.iget_values(place)


def pandas_type(dtype: Any) -> str:
    """Return a dtype's name, without foreign objects that it may hold (categories, fill values)."""
    cls = type_of(dtype)
    if not is_of_package(cls, "pandas"):
        return dtype_text(dtype)
    if cls is loaded_attribute("pandas", "SparseDtype"):
        return "Sparse"
    if cls is loaded_attribute("pandas", "ArrowDtype") and not is_of_package(type_of(dtype.pyarrow_dtype), "pyarrow"):
        return f"<{type_name(dtype.pyarrow_dtype)}>"
    return str(dtype.name)


def described_column(values: Any, label: str, places: tuple[int, ...] | None) -> Column:
    """Describe a column with nulls and range, from the rows at `places` or from all."""
    dtype = pandas_type(values.dtype)
    if has_figures(values.dtype):
        return number_column(label, dtype, array_figures(_as_array(_column_sample(values, places))))
    if dtype.startswith("datetime64"):
        figures = array_figures(_column_sample(values, places)._ndarray)
        return number_column(label, dtype, _in_utc(figures))
    return value_column(label, dtype, sample_values(values, places))


def _in_utc(figures: tuple[int, str, str]) -> tuple[int, str, str]:
    nulls, span, detail = figures
    return nulls, span and f"{span} UTC", detail


def content_of(values: Any, places: tuple[int, ...] | None) -> object:
    """Return a value that stays equal while dtype and sampled values are unchanged."""
    dtype = pandas_type(values.dtype)
    if has_figures(values.dtype):
        return (dtype, hash(_as_array(_column_sample(values, places)).tobytes()))
    known = sample_values(values, places)
    # Only an object column stores the objects themselves; others create new ones on each access.
    marks = map(comparison_mark if dtype == "object" else _text_of_content, known)
    return (dtype, hash(tuple(marks)))


def _text_of_content(value: object) -> str:
    return plain_line(value, width=_CONTENT_WIDTH)


def _column_sample(values: Any, places: tuple[int, ...] | None) -> Any:
    return values if places is None else values.take(_sample_positions(places))


@functools.lru_cache(maxsize=16)
def _sample_positions(places: tuple[int, ...]) -> Any:
    return loaded_attribute("numpy", "array")(places)


def _as_array(values: Any) -> Any:
    return values if type(values) is loaded_attribute("numpy", "ndarray") else values.to_numpy()


def sample_values(values: Any, places: tuple[int, ...] | None) -> list[object]:
    if places is None or not hasattr(values, "_pa_array"):
        return cast("list[object]", _column_sample(values, places).tolist())
    return values_of_chunks(values._pa_array.chunks, places)


def values_of_chunks(chunks: Sequence[Any], places: tuple[int, ...]) -> list[object]:
    """Read values of a chunked Arrow column chunk by chunk; Arrow's `take` would first concatenate them."""
    values: list[object] = []
    start, first = 0, 0
    for chunk in chunks:
        last = bisect.bisect_left(places, start + len(chunk), first)
        if last > first:
            inner = [place - start for place in places[first:last]]
            values += chunk.take(loaded_attribute("pyarrow", "array")(inner)).to_pylist()
        start, first = start + len(chunk), last
    return values
