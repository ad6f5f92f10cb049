"""pandas frames, series and indexes in constant time, through pandas' own code alone.

A subclass is first put into a plain frame on the same memory, so that nothing it overrides is called, and columns
whose storage is not pandas' or numpy's are named and left alone.
"""

from typing import Any, cast

from vibe_jupyter.notebook.plain import is_scalar, plain, plain_text
from vibe_jupyter.notebook.type_facts import class_name, instance_dict, is_of_package, loaded, type_name, type_of
from vibe_jupyter.notebook.variable_adapters.adapter import Adapter, Description, View
from vibe_jupyter.notebook.variable_adapters.frames import (
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
    spread,
    value_column,
)
from vibe_jupyter.notebook.variable_adapters.numpy_arrays import array_figures, dtype_text, has_figures

_INDEX_LABELS = 6
"""First labels of an index shown."""


def pandas_frame_adapter() -> Adapter:
    """For `pandas.DataFrame` and its subclasses."""
    return Adapter(line=_frame_line, describe=_describe_frame, fingerprint=_frame_fingerprint)


def pandas_series_adapter() -> Adapter:
    """For `pandas.Series` and its subclasses: a frame of one column."""
    return Adapter(line=_series_line, describe=_describe_series, fingerprint=_series_fingerprint)


def pandas_index_adapter() -> Adapter:
    """For `pandas.Index` and its subclasses."""
    return Adapter(line=lambda value: f"pandas {_index_line(value)}", describe=_describe_index, fingerprint=id)


def _frame_line(value: Any) -> str:
    frame = _plain_frame(value)
    foreign = _foreign_columns(frame)
    labels = _labels(frame, LINE_COLUMNS)
    columns = tuple(_bare_column(frame, place, label, foreign) for place, label in enumerate(labels))
    rows, width = frame.shape
    return one_line(Frame(_kind(value, "DataFrame"), rows, width, columns))


def _describe_frame(value: Any, view: View) -> Description:
    frame = _plain_frame(value)
    foreign = _foreign_columns(frame)
    rows, width = frame.shape
    places = spread(rows) if view.stats else []
    labels = _labels(frame, None if view.columns is not None else 10 * LINE_COLUMNS)
    chosen = choose_columns(labels, view.columns)
    columns = tuple(
        _column(frame, place, labels[place], places)
        if view.stats and place not in foreign
        else _bare_column(frame, place, labels[place], foreign)
        for place in chosen
    )
    return describe_frame(
        Frame(
            kind=_kind(value, "DataFrame"),
            rows=rows,
            width=width if view.columns is None else len(chosen),
            columns=columns,
            looked_at=(rows if places is None else len(places)) if view.stats else 0,
            index=_index_text(frame.index),
            head=_head(frame, chosen[:HEAD_COLUMNS], foreign, view.rows),
        )
    )


def _plain_frame(value: Any) -> Any:
    """The frame without its subclass, its instance's attributes or a copy of its memory."""
    return _from_memory(value, loaded("pandas", "DataFrame"))


def _from_memory(value: Any, cls: Any) -> Any:
    memory: Any = instance_dict(value)["_mgr"]
    # pandas before 2.1 takes the memory in its constructor.
    return cls._from_mgr(memory, memory.axes) if hasattr(cls, "_from_mgr") else cls(memory)


def _foreign_columns(frame: Any) -> frozenset[int]:
    """Columns stored in classes of neither pandas nor numpy, whose code would run on any access."""
    foreign: set[int] = set()
    for block in frame._mgr.blocks:
        if not _is_known_storage(type_of(block.values)):
            foreign.update(block.mgr_locs.as_array.tolist())
    return frozenset(foreign)


def _is_known_storage(cls: type) -> bool:
    return cls is loaded("numpy", "ndarray") or is_of_package(cls, "pandas")


def _labels(frame: Any, limit: int | None) -> list[str]:
    labels = frame.columns if limit is None else frame.columns[:limit]
    return [plain_text(label, LABEL_WIDTH) for label in _values(labels)]


def _values(index: Any) -> list[object]:
    if not _is_known_storage(type_of(index.array)) and loaded("pandas", "MultiIndex") is not type(index):
        return [f"<{type_name(index.array)}>"] * len(index)
    return cast("list[object]", index.tolist())


def _column(frame: Any, place: int, label: str, places: list[int] | None) -> Column:
    series = frame.iloc[:, place]
    series = series if places is None else series.iloc[places]
    dtype = _dtype_text(series.dtype)
    if has_figures(series.dtype):
        return number_column(label, dtype, array_figures(series.to_numpy()))
    if dtype.startswith("datetime64"):
        return number_column(label, dtype, _in_utc(array_figures(series.to_numpy(dtype="datetime64[ns]"))))
    return value_column(label, dtype, series.tolist())


def _in_utc(figures: tuple[int, str, str]) -> tuple[int, str, str]:
    nulls, span, detail = figures
    return nulls, span and f"{span} UTC", detail


def _bare_column(frame: Any, place: int, label: str, foreign: frozenset[int]) -> Column:
    if place in foreign:
        return Column(label, _foreign_type(frame, place), None)
    return Column(label, _dtype_text(frame.iloc[:, place].dtype))


def _foreign_type(frame: Any, place: int) -> str:
    blocks = (block for block in frame._mgr.blocks if place in block.mgr_locs.as_array)
    return f"<{type_name(next(blocks).values)}>"


def _dtype_text(dtype: Any) -> str:
    """Name of a column's type, without what it may hold of other people's objects (categories, fill values)."""
    cls = type_of(dtype)
    if not is_of_package(cls, "pandas"):
        return dtype_text(dtype)
    if cls is loaded("pandas", "SparseDtype"):
        return "Sparse"
    if cls is loaded("pandas", "ArrowDtype") and not is_of_package(type_of(dtype.pyarrow_dtype), "pyarrow"):
        return f"<{type_name(dtype.pyarrow_dtype)}>"
    return str(dtype.name)


def _head(frame: Any, chosen: list[int], foreign: frozenset[int], rows: int) -> tuple[tuple[str, ...], ...]:
    count = min(rows, len(frame))
    columns = [
        ["…"] * count
        if place in foreign
        else [number_text(value) for value in frame.iloc[:, place].iloc[:count].tolist()]
        for place in chosen
    ]
    return tuple(zip(*columns, strict=True))


def _kind(value: Any, name: str) -> str:
    cls = type_of(value)
    own = f"pandas {name}"
    return own if cls is loaded("pandas", name) else f"{class_name(cls)} ({own})"


def _index_text(index: Any) -> str:
    """The index in a few words; empty for the default one."""
    if type(index) is loaded("pandas", "RangeIndex") and index.name is None:
        return ""
    return _index_line(index)


def _index_line(index: Any) -> str:
    cls = type_of(index)
    if not is_of_package(cls, "pandas"):
        return f"{class_name(cls)} (pandas Index)"
    if cls is loaded("pandas", "MultiIndex"):
        names = ", ".join(plain_text(name, CELL_WIDTH) for name in index.names)
        return f"MultiIndex {len(index):,} ({names})"
    named = f" {plain_text(index.name, CELL_WIDTH)}" if index.name is not None else ""
    return f"{cls.__name__}{named} {len(index):,} {_dtype_text(index.dtype)}{_ends(index)}"


def _ends(index: Any) -> str:
    if not len(index) or not _is_known_storage(type_of(index.array)):
        return ""
    return f", {plain(index[0], width=CELL_WIDTH)} … {plain(index[-1], width=CELL_WIDTH)}"


def _describe_index(index: Any, view: View) -> Description:
    line = f"pandas {_index_line(index)}"
    if not is_of_package(type_of(index), "pandas"):
        return Description(line)
    labels = ", ".join(plain(label, width=CELL_WIDTH) for label in _values(index[:_INDEX_LABELS]))
    return Description(line, body=f"first: {labels}")


def _as_frame(value: Any) -> Any:
    series = _from_memory(value, loaded("pandas", "Series"))
    return series.to_frame(name="value")


def _series_line(value: Any) -> str:
    frame = _as_frame(value)
    return f"{_kind(value, 'Series')} {len(frame):,} {_bare_column(frame, 0, '', _foreign_columns(frame)).type}"


def _describe_series(value: Any, view: View) -> Description:
    described = _describe_frame(_as_frame(value), View(rows=view.rows, stats=view.stats))
    line = _series_line(value)
    summary = line.removeprefix("pandas Series ")
    return Description(headline=line, body=described.body, summary=summary, table=described.table)


def _series_fingerprint(value: Any) -> object:
    return (id(value), _frame_content(_as_frame(value)))


def _frame_fingerprint(value: Any) -> object:
    return (id(value), _frame_content(_plain_frame(value)))


def _frame_content(frame: Any) -> object:
    foreign = _foreign_columns(frame)
    places = spread(len(frame))
    labels = _labels(frame, 10 * LINE_COLUMNS)
    chosen = [place for place in choose_columns(labels, None) if place not in foreign]
    return (frame.shape, hash(tuple(labels)), tuple(_content(frame.iloc[:, place], places) for place in chosen))


def _content(series: Any, places: list[int] | None) -> object:
    sample = series if places is None else series.iloc[places]
    dtype = _dtype_text(series.dtype)
    if has_figures(series.dtype):
        return (dtype, hash(sample.to_numpy().tobytes()))
    values = cast("list[object]", sample.tolist())
    return (dtype, hash(tuple(plain(value, width=CELL_WIDTH) if is_scalar(value) else id(value) for value in values)))


def pandas_columns(value: Any) -> list[tuple[str, str]]:
    """Labels and types of a frame's first columns."""
    frame = _plain_frame(value)
    foreign = _foreign_columns(frame)
    labels = _labels(frame, COLUMNS_LIMIT)
    columns = [_bare_column(frame, place, label, foreign) for place, label in enumerate(labels)]
    return [(column.label, column.type) for column in columns]
