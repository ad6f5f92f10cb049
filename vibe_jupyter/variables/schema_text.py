"""Descriptions without values: classes, shapes, column labels, types and counts.

What is revealed is listed here by kind; for all other values it is only the class. Labels count as names if a person
chose them. Labels that pandas made from values (by `pivot`, `unstack`, `T`, `get_dummies`) are withheld, as far as
they can be recognized.
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
LONGEST_LABEL: Final = 60  # characters; longer labels can't be names
LINE_COLUMNS: Final = 12  # columns in the one-line form
_ITEMS: Final = 100  # items of a container whose types are reported
_TYPES: Final = 3  # types listed per container
_HEADLINE: Final = lazy_pattern(r"[A-Za-z][\w. ]*? [\d,?]+( × [\d,?]+| columns?)")  # a frame's headline: kind and size
# Labels that look like names; e-mail addresses, dates and numbers don't.
_NAME: Final = lazy_pattern(r"[^\W\d][\w .,:()/%°²³-]*")
_VALUES_IN_TYPE: Final = lazy_pattern(r"[(\[{].*", re.DOTALL)  # bracketed parameters, such as an enum's categories
UNKNOWN: Final = "unknown"  # type of a column that wasn't inspected
# Types of dummy columns, which `get_dummies` and `to_dummies` create from the values of one column.
_FLAGS: Final = frozenset({"bool", "boolean", "Boolean", "uint8", "u8", "UInt8", UNKNOWN})
_ARRAYS: Final = (("numpy", "ndarray"), ("torch", "Tensor"), ("pandas", "Series"), ("polars", "Series"))


def schema_line(value: object) -> str:
    """Return a value's kind and size in one line, with labels and types of its columns."""
    headline, columns = _schema(value, VariableView(rows=0, stats=False))
    if not columns:
        return headline
    named = [f"{label} {kind}" for label, kind, *_ in columns[1:] if label != WITHHELD_LABEL]
    withheld = len(columns) - 1 - len(named)
    shown = [*named[:LINE_COLUMNS], *(["…"] if len(named) > LINE_COLUMNS else [])]
    return f"{headline} ({', '.join([*shown, *([f'{withheld:,} labels withheld'] if withheld else [])])})"


def schema_headline(value: object) -> str:
    """Return a value's kind and size without columns."""
    return _schema(value, VariableView(rows=0, stats=False))[0]


def schema_text(value: object, columns: Sequence[str] | None = None) -> str:
    """Return kind and size, followed by a table of columns with null and distinct counts.

    Raises:
        ToolError: None of the columns exists.
    """
    headline, rows = _schema(value, VariableView(rows=0, columns=tuple(columns) if columns else None))
    return "\n".join([headline, *(" | ".join(row) for row in rows)])


def schema_labels(value: object) -> list[str]:
    """Return the labels of the first columns that are names."""
    return [told for told in told_labels(value, [(label, UNKNOWN) for label in column_labels(value)]) if told]


def schema_types(value: object, labels: Sequence[str]) -> Mapping[str, str]:
    """Return types of some columns."""
    return {label: _VALUES_IN_TYPE.sub("", kind) for label, kind in column_types(value, labels).items()}


def told_labels(value: object, columns: Sequence[tuple[str, str]]) -> list[str]:
    """Return each label, or "" if it may be a value.

    Args:
        value: The frame.
        columns: Labels and types. With type `UNKNOWN`, labels that share a prefix are withheld.
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
    """Return the headline, and the table of columns with a header row, or [] without columns."""
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
    """Return whether column labels are known to be values: pivoting names their axis after the original column."""
    if type_of(value) is not loaded_attribute("pandas", "DataFrame"):
        return False
    axis = cast("Any", value).columns
    return any(name is not None for name in axis.names) or axis.inferred_type not in ("string", "mixed", "empty")
