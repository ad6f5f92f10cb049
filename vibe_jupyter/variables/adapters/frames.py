"""Tables of any library in words, from facts that took constant time to gather."""

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

GROUP_ROWS = 4
"""Neighbours that are looked at together, in a frame of more rows than are looked at."""
SAMPLE_ROWS = 1_000
"""Rows looked at, spread evenly over the frame; a frame with no more is looked at whole."""
COLUMNS_LIMIT = 40
"""Columns looked at where none are named."""
LINE_COLUMNS = 12
"""Columns named in the one-line form."""
CELL_WIDTH = 24
"""Characters of one value in a row."""
LABEL_WIDTH = 60
"""Characters of one column's label."""
VALUES_SHOWN = 3
"""Distinct values of a column named."""
HEAD_COLUMNS = 20
"""Columns of the first rows shown."""
_COMPARED = 1_000
"""Labels that are compared with a wrong one."""
_MEAN_LIMIT = 1e300
"""Numbers from which a sum may overflow."""
_TIMES = (datetime.date, datetime.datetime, datetime.time, datetime.timedelta)


class Column(NamedTuple):
    """What is known of one column."""

    label: str
    type: str
    nulls: int | None = None
    """Missing values in the rows looked at, or in all of them (`Frame.nulls_of_all`); None when not counted, as in a
    column whose values are stored by code of another library."""
    sample: str = ""
    """Range or some of the values; empty when not looked at."""
    detail: str = ""
    """More for the model: the mean, the number of distinct values."""
    distinct: int | None = None
    """Different values in the rows looked at; None where they were not counted."""

    @property
    def name(self) -> str:
        """The label, in quotes where blanks around it would be overlooked."""
        return self.label if self.label and self.label == self.label.strip() else repr(self.label)


@dataclass(frozen=True)
class Frame:
    """What is known of one frame."""

    kind: str
    """Such as ``pandas DataFrame``."""
    rows: int
    width: int
    """All columns, also those not in `columns`."""
    columns: tuple[Column, ...]
    looked_at: int = 0
    """Rows the figures come from; 0 when none were looked at."""
    nulls_of_all: bool = False
    """Whether nulls were counted in all rows whatever `looked_at`."""
    is_chosen: bool = False
    """Whether `columns` are those that were named."""
    unknown: str = ""
    """What is reported of named columns that do not exist."""
    index: str = ""
    head: tuple[tuple[str, ...], ...] = ()
    row_labels: tuple[str, ...] = ()
    """Of the rows in `head`; none where rows are only counted."""


@functools.lru_cache(maxsize=16)
def spread_rows(rows: int) -> tuple[int, ...] | None:
    """Positions of rows to look at, in evenly spread groups, first and last among them; None for all.

    Of a long column each group comes from its own place in memory, and waiting for that is most of the time of a look:
    the further rows of a group are there already.
    """
    if rows <= SAMPLE_ROWS:
        return None
    groups = SAMPLE_ROWS // GROUP_ROWS
    starts = (number * (rows - GROUP_ROWS) // (groups - 1) for number in range(groups))
    return tuple(start + at for start in starts for at in range(GROUP_ROWS))


def extent_text(rows: int, width: int) -> str:
    """``344 × 8``."""
    return f"{rows:,} × {width:,}"


def one_line(frame: Frame) -> str:
    """Kind, shape and the first columns' types."""
    shown = ", ".join(f"{column.name} {column.type}" for column in frame.columns[:LINE_COLUMNS])
    more = ", …" if frame.width > LINE_COLUMNS else ""
    return f"{frame.kind} {extent_text(frame.rows, frame.width)} ({shown}{more})"


def describe_frame(frame: Frame) -> VariableDescription:
    """The frame for the model and for the user."""
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
    """Positions of the columns to look at; wanted ones that do not exist are left out.

    Raises:
        ToolError: none of the wanted columns exists.
    """
    if wanted is None:
        return list(range(min(len(labels), COLUMNS_LIMIT)))
    positions = {label: position for position, label in reversed(list(enumerate(labels)))}
    chosen = [positions[label] for label in wanted if label in positions]
    if wanted and not chosen:
        raise ToolError(unknown_columns(labels, wanted))
    return chosen


def unknown_columns(labels: Sequence[str], wanted: Sequence[str] | None) -> str:
    """What is reported of wanted columns that do not exist, with the near ones; empty where there are none."""
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
    """A column of numbers or times from its nulls and its range; the range is None when every value is missing."""
    if figures is None:
        return Column(label, dtype)
    nulls, sample, detail = figures
    return Column(label, dtype, nulls, sample, detail)


def value_column(label: str, dtype: str, values: Sequence[object]) -> Column:
    """A column of any values, which are compared only where they are of one built-in type."""
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
    """A figure short enough for a table."""
    return f"{value:.6g}" if type(value) is float else plain_cell_text(value, CELL_WIDTH)


def range_of_numbers(values: Sequence[object]) -> tuple[str, str]:
    """Least and greatest, and the mean, of numbers that are all numbers."""
    numbers = [value for value in values if type(value) is int or type(value) is float]
    mean = math.fsum(numbers) / len(numbers) if max(map(abs, numbers)) < _MEAN_LIMIT else None
    detail = f"mean {number_text(mean)}" if mean is not None else ""
    return f"{number_text(min(numbers))} … {number_text(max(numbers))}", detail


def distinct_text(values: Iterable[object]) -> tuple[str, str, int]:
    """The first different values, and how many there are, in words and as a number; all must be of built-in types, None
    is left out."""
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
