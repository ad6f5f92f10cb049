"""Text descriptions of tables of any library, from facts gathered in constant time."""

import datetime
import difflib
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vibe_jupyter.errors import ToolError
from vibe_jupyter.variables.adapters import SampleTable, VariableDescription, class_name, is_one_of
from vibe_jupyter.variables.plain_values import plain_cell_text, present_values

GROUP_ROWS = 4  # neighboring rows sampled together
SAMPLE_ROWS = 1_000  # rows sampled, spread evenly; smaller frames are read completely
COLUMNS_LIMIT = 40  # columns described unless some are requested
LINE_COLUMNS = 12  # columns in the one-line form
CELL_WIDTH = 24  # characters per cell
LABEL_WIDTH = 60  # characters per column label
VALUES_SHOWN = 3  # distinct values shown per column
HEAD_COLUMNS = 20  # columns in the preview of first rows
_COMPARED = 1_000  # labels compared for suggestions
_MEAN_LIMIT = 1e300  # numbers from which a sum may overflow
_TIMES = (datetime.date, datetime.datetime, datetime.time, datetime.timedelta)


class Column(NamedTuple):
    """Facts about one column."""

    label: str
    type: str
    # Missing values in the sampled rows, or in all rows (`Frame.nulls_of_all`). None if not counted, as in columns
    # stored in another library's class.
    nulls: int | None = None
    sample: str = ""  # range or some of the values; "" if not sampled
    detail: str = ""  # more for the model: the mean, or the number of distinct values
    distinct: int | None = None  # distinct values in the sampled rows, or None if not counted

    @property
    def name(self) -> str:
        """The label, quoted if surrounding spaces would be overlooked."""
        return self.label if self.label and self.label == self.label.strip() else repr(self.label)


@dataclass(frozen=True)
class Frame:
    """Facts about one frame."""

    kind: str  # such as ``pandas DataFrame``
    rows: int
    width: int  # number of all columns, including those not in `columns`
    columns: tuple[Column, ...]
    looked_at: int = 0  # rows the figures are computed from, or 0
    nulls_of_all: bool = False  # whether nulls were counted in all rows regardless of `looked_at`
    is_chosen: bool = False  # whether `columns` were requested by label
    unknown: str = ""  # message about requested columns that don't exist
    index: str = ""
    head: tuple[tuple[str, ...], ...] = ()
    row_labels: tuple[str, ...] = ()  # labels of the rows in `head`; empty for a default index


@functools.lru_cache(maxsize=16)
def spread_rows(rows: int) -> tuple[int, ...] | None:
    """Return the positions of rows to sample, in evenly spread groups including first and last, or None for all.

    In long columns, most of the time goes into cache misses: each group lies in a different place in memory, but
    the other rows of a group come with the first.
    """
    if rows <= SAMPLE_ROWS:
        return None
    groups = SAMPLE_ROWS // GROUP_ROWS
    starts = (number * (rows - GROUP_ROWS) // (groups - 1) for number in range(groups))
    return tuple(start + at for start in starts for at in range(GROUP_ROWS))


def extent_text(rows: int, width: int) -> str:
    """Return ``344 × 8``."""
    return f"{rows:,} × {width:,}"


def one_line(frame: Frame) -> str:
    """Return kind, shape and the types of the first columns."""
    shown = ", ".join(f"{column.name} {column.type}" for column in frame.columns[:LINE_COLUMNS])
    more = ", …" if frame.width > LINE_COLUMNS else ""
    return f"{frame.kind} {extent_text(frame.rows, frame.width)} ({shown}{more})"


def describe_frame(frame: Frame) -> VariableDescription:
    parts = [f"index: {frame.index}"] if frame.index else []
    parts.append(_column_lines(frame))
    if frame.unknown:
        parts.append(frame.unknown)
    if frame.head:
        parts.append(_head_lines(frame))
    return VariableDescription(
        headline=f"{frame.kind} {extent_text(frame.rows, frame.width)}",
        extent=(frame.rows, frame.width),
        body="\n".join(parts),
        summary=_frame_summary(frame),
        table=_frame_table(frame),
        schema=_frame_schema(frame),
    )


def choose_columns(labels: Sequence[str], wanted: Sequence[str] | None) -> list[int]:
    """Return the positions of the columns to describe, skipping requested ones that don't exist.

    Raises:
        ToolError: None of the requested columns exists.
    """
    if wanted is None:
        return list(range(min(len(labels), COLUMNS_LIMIT)))
    positions = {label: position for position, label in reversed(list(enumerate(labels)))}
    chosen = [positions[label] for label in wanted if label in positions]
    if wanted and not chosen:
        raise ToolError(unknown_columns(labels, wanted))
    return chosen


def unknown_columns(labels: Sequence[str], wanted: Sequence[str] | None) -> str:
    """Return a message about requested columns that don't exist, with suggestions, or "" if all exist."""
    known = frozenset(labels)
    unknown = [label for label in wanted or () if label not in known]
    if not unknown:
        return ""
    near = [one for label in unknown for one in difflib.get_close_matches(label, labels[:_COMPARED], 2, 0.6)]
    shown = list(dict.fromkeys([*near, *labels]))[:COLUMNS_LIMIT] if len(labels) > COLUMNS_LIMIT else labels
    rest = ", …" if len(labels) > len(shown) else ""
    hint = f" Did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else ""
    return f"No column {', '.join(map(repr, unknown))}.{hint} The columns are {', '.join(shown)}{rest}."


def number_column(label: str, dtype: str, figures: tuple[int, str, str] | None) -> Column:
    """Create a column of numbers or times from nulls, range and detail, or without figures if they are None."""
    if figures is None:
        return Column(label, dtype)
    nulls, sample, detail = figures
    return Column(label, dtype, nulls, sample, detail)


def value_column(label: str, dtype: str, values: Sequence[object]) -> Column:
    """Create a column of arbitrary values, which are compared only if all are of built-in types."""
    known = present_values(values)
    nulls = len(values) - len(known)
    types = list(map(type, known))
    kinds = list(dict(zip(map(id, types), types, strict=True)).values())
    if kinds and all(is_one_of(kind, (int, float)) for kind in kinds):
        return Column(label, dtype, nulls, *range_of_numbers(known))
    if kinds and all(is_one_of(kind, (str, bool, int, float, bytes)) for kind in kinds):
        return Column(label, dtype, nulls, *distinct_text(known))
    if kinds and all(is_one_of(kind, _TIMES) for kind in kinds):
        shown = [plain_cell_text(value, CELL_WIDTH) for value in known[:VALUES_SHOWN]]
        return Column(label, dtype, nulls, ", ".join(dict.fromkeys(shown)))
    return Column(label, dtype, nulls, ", ".join(class_name(kind) for kind in kinds[:VALUES_SHOWN]))


def number_text(value: object) -> str:
    """Format a number to fit a table cell."""
    return f"{value:.6g}" if type(value) is float else plain_cell_text(value, CELL_WIDTH)


def range_of_numbers(values: Sequence[object]) -> tuple[str, str]:
    """Return the range and the mean of a sequence of numbers."""
    numbers = [value for value in values if type(value) is int or type(value) is float]
    mean = math.fsum(numbers) / len(numbers) if max(map(abs, numbers)) < _MEAN_LIMIT else None
    detail = f"mean {number_text(mean)}" if mean is not None else ""
    return f"{number_text(min(numbers))} … {number_text(max(numbers))}", detail


def distinct_text(values: Iterable[object]) -> tuple[str, str, int]:
    """Return the first distinct values, a text with their number, and the number.

    All values must be of built-in types. None is ignored.
    """
    distinct = [value for value in dict.fromkeys(values) if value is not None]
    shown = ", ".join(plain_cell_text(value, CELL_WIDTH) for value in distinct[:VALUES_SHOWN])
    more = ", …" if len(distinct) > VALUES_SHOWN else ""
    return shown + more, f"{len(distinct):,} distinct" if more else "", len(distinct)


def _frame_summary(frame: Frame) -> str:
    text = extent_text(frame.rows, frame.width)
    if not frame.looked_at and not frame.nulls_of_all:
        return text
    with_nulls = sum(1 for column in frame.columns if column.nulls)
    if not with_nulls and any(column.nulls is None for column in frame.columns):
        return text
    if not with_nulls:
        return f"{text}, no nulls" if _is_exact(frame) else f"{text}, no nulls in {frame.looked_at:,} sampled rows"
    columns = "1 column" if with_nulls == 1 else f"{with_nulls} columns"
    return f"{text}, nulls in {columns}"


def _is_exact(frame: Frame) -> bool:
    return frame.nulls_of_all or frame.looked_at == frame.rows


def _column_lines(frame: Frame) -> str:
    counted = _counts_nulls(frame)
    sampled = frame.looked_at and frame.looked_at < frame.rows
    title = "column | type"
    if counted:
        title += " | nulls | values" if _is_exact(frame) else " | nulls in sample | values"
    lines = [f"{title} (of {frame.looked_at:,} sampled rows)" if sampled else title]
    for column in frame.columns:
        line = f"{column.name} | {column.type}"
        values = ", ".join(part for part in (column.sample, column.detail) if part)
        lines.append(f"{line} | {_nulls_text(column, '')} | {values}" if counted else line)
    left = 0 if frame.is_chosen else frame.width - len(frame.columns)
    if left > 0:
        lines.append(f"… {left:,} more columns; name them in `columns` to see them")
    return "\n".join(lines)


def _counts_nulls(frame: Frame) -> bool:
    return any(column.nulls is not None for column in frame.columns)


def _nulls_text(column: Column, form: str) -> str:
    return "unknown" if column.nulls is None else format(column.nulls, form)


def _head_lines(frame: Frame) -> str:
    labels = [column.name for column in frame.columns[:HEAD_COLUMNS]]
    title = "first row:" if len(frame.head) == 1 else f"first {len(frame.head)} rows:"
    rows = [labels, *frame.head]
    if frame.row_labels:
        rows = [(label, *row) for label, row in zip(("index", *frame.row_labels), rows, strict=True)]
    return "\n".join([title, *(" | ".join(row) for row in rows)])


def _frame_schema(frame: Frame) -> SampleTable:
    nulls = "nulls" if _is_exact(frame) else f"nulls in {frame.looked_at:,} rows"
    rows = tuple(
        (column.label, column.type, _nulls_text(column, ","), "" if column.distinct is None else f"{column.distinct:,}")
        for column in frame.columns
    )
    return SampleTable(("column", "type", nulls, "different values"), rows)


def _frame_table(frame: Frame) -> SampleTable:
    if not _counts_nulls(frame):
        return SampleTable(("column", "type"), tuple((column.label, column.type) for column in frame.columns))
    nulls = "nulls" if _is_exact(frame) else f"nulls in {frame.looked_at:,} rows"
    rows = tuple((column.label, column.type, _nulls_text(column, ","), column.sample) for column in frame.columns)
    return SampleTable(("column", "type", nulls, "sample"), rows)
