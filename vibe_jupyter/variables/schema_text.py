"""The user's variables without any of their values: classes, shapes, labels of columns, types and counts.

What is said is listed here kind by kind; of everything else it is the class alone. Labels are names where somebody
chose them. Those that pandas made of values (by `pivot`, `unstack`, `T`, `get_dummies`) are not, as far as that shows.
"""

import re
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from vibe_jupyter.errors import ToolError
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.variables.adapters import (
    VariableView,
    is_of_package,
    is_one_of,
    loaded_attribute,
    pairs_of,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.facts import extent_of
from vibe_jupyter.variables.describe import column_labels, column_types, describe_value
from vibe_jupyter.variables.plain_values import BRACKETS, MAPPINGS

WITHHELD_LABEL: Final = "(label withheld)"
LONGEST_LABEL: Final = 60
"""Characters of a label that can be a name."""
LINE_COLUMNS: Final = 12
"""Columns named in one line."""
_ITEMS: Final = 100
"""Items of a container whose types are reported."""
_TYPES: Final = 3
"""Types told of one container."""
_HEADLINE: Final = lazy_pattern(r"[A-Za-z][\w. ]*? [\d,?]+( × [\d,?]+| columns?)")
"""What an adapter says first of a frame: kind and extent."""
_NAME: Final = lazy_pattern(r"[^\W\d][\w .,:()/%°²³-]*")
"""A label that can be a name: an e-mail address, a date or a number is none."""
_VALUES_IN_TYPE: Final = lazy_pattern(r"[(\[{].*", re.DOTALL)
"""Categories of an enumeration stand in brackets."""
UNKNOWN: Final = "unknown"
"""Of a column whose type was not looked at."""
_FLAGS: Final = frozenset({"bool", "boolean", "Boolean", "uint8", "u8", "UInt8", UNKNOWN})
"""Types of the columns that stand for one value each, as `get_dummies` and `to_dummies` make them of a column."""
_ARRAYS: Final = (("numpy", "ndarray"), ("torch", "Tensor"), ("pandas", "Series"), ("polars", "Series"))


def schema_line(value: object) -> str:
    """Kind and extent of a value in one line, and the labels and types of its columns."""
    headline, columns = _schema(value, VariableView(rows=0, stats=False))
    if not columns:
        return headline
    named = [f"{label} {kind}" for label, kind, *_ in columns[1:] if label != WITHHELD_LABEL]
    withheld = len(columns) - 1 - len(named)
    shown = [*named[:LINE_COLUMNS], *(["…"] if len(named) > LINE_COLUMNS else [])]
    return f"{headline} ({', '.join([*shown, *([f'{withheld:,} labels withheld'] if withheld else [])])})"


def schema_headline(value: object) -> str:
    """Kind and extent of a value alone."""
    return _schema(value, VariableView(rows=0, stats=False))[0]


def schema_text(value: object, columns: Sequence[str] | None = None) -> str:
    """The same in lines, with counts of nulls and of different values.

    Raises:
        ToolError: none of the columns is there.
    """
    headline, rows = _schema(value, VariableView(rows=0, columns=tuple(columns) if columns else None))
    return "\n".join([headline, *(" | ".join(row) for row in rows)])


def schema_labels(value: object) -> list[str]:
    """The labels of the first columns that are names."""
    return [told for told in told_labels(value, [(label, UNKNOWN) for label in column_labels(value)]) if told]


def schema_types(value: object, labels: Sequence[str]) -> Mapping[str, str]:
    """Some columns with their types."""
    return {label: _VALUES_IN_TYPE.sub("", kind) for label, kind in column_types(value, labels).items()}


def told_labels(value: object, columns: Sequence[tuple[str, str]]) -> list[str]:
    """Each label of these columns, or nothing where it may be a value.

    Args:
        value: the frame.
        columns: labels and types; with `UNKNOWN` ones, those that are like each other are left out.
    """
    if _has_labels_of_values(value):
        return [""] * len(columns)
    flags = Counter(label.rpartition("_")[0] for label, kind in columns if kind in _FLAGS)
    return [
        label
        if len(label) <= LONGEST_LABEL
        and _NAME.fullmatch(label)
        and not (kind in _FLAGS and flags[label.rpartition("_")[0]] > 1)
        else ""
        for label, kind in columns
    ]


def _schema(value: object, view: VariableView) -> tuple[str, list[tuple[str, ...]]]:
    """The headline, and the table of columns under its titles; none where it has no columns."""
    if not column_labels(value):
        return _plain_schema(value), []
    try:
        described = describe_value(value, view)
    except ToolError:
        raise ToolError(f"It has no such columns: {schema_line(value)}") from None
    if described.schema is None or _HEADLINE.fullmatch(described.headline) is None:
        return type_name(value), []
    rows = described.schema.rows
    labels = told_labels(value, [(row[0], row[1]) for row in rows])
    told = [
        (label or WITHHELD_LABEL, _VALUES_IN_TYPE.sub("", row[1]), *row[2:])
        for label, row in zip(labels, rows, strict=True)
    ]
    return described.headline, [described.schema.columns, *told]


def _plain_schema(value: object) -> str:
    cls = type_of(value)
    if is_one_of(cls, MAPPINGS):
        pairs = list(islice(pairs_of(cast("dict[object, object]", value)), _ITEMS))
        kinds = f"{_types_of([key for key, _ in pairs])}: {_types_of([item for _, item in pairs])}" if pairs else ""
        return f"{type_name(value)} of {len(cast('dict[object, object]', value)):,} items{kinds and f' ({kinds})'}"
    if BRACKETS.get(cls) is not None:
        items = cast("list[object]", value)
        kinds = _types_of(list(islice(items, _ITEMS)))
        return f"{type_name(value)} of {len(items):,} items{kinds and f' ({kinds})'}"
    if cls is types.FunctionType:
        code = cast("types.FunctionType", value).__code__
        return f"function ({', '.join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])})"
    if any(cls is loaded_attribute(module, name) and is_of_package(cls, module) for module, name in _ARRAYS):
        array = cast("Any", value)
        kind = _VALUES_IN_TYPE.sub("", str(getattr(array.dtype, "name", array.dtype)))
        return f"{type_name(value)} {extent_of(array.shape)} {kind}"
    return type_name(value)


def _types_of(items: Sequence[object]) -> str:
    names = list(dict.fromkeys(map(type_name, items)))
    return f"{', '.join(names[:_TYPES])}{', …' if len(names) > _TYPES else ''}"


def _has_labels_of_values(value: object) -> bool:
    """Whether the labels of its columns are known to be values: their axis has the name of the column they were in."""
    if type_of(value) is not loaded_attribute("pandas", "DataFrame"):
        return False
    axis = cast("Any", value).columns
    return any(name is not None for name in axis.names) or axis.inferred_type not in ("string", "mixed", "empty")
