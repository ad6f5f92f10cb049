"""Structured content: whether a text says the same, and whether it is a table."""

import json
from collections.abc import Sequence
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.protocol import Table

ROWS_LIMIT: Final = 200
"""Rows of a table that are kept."""
COLUMNS_LIMIT: Final = 30
"""Columns of a table; what has more is no table to read."""


def indented(value: JsonValue) -> str:
    """JSON for readers."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def says_same(texts: Sequence[str], structured: JsonValue) -> bool:
    """Whether these blocks of text hold the structured content already, as servers put it for older clients."""
    if not texts:
        return False
    forms = [structured]
    if isinstance(structured, dict) and len(structured) == 1:  # around a value that is no object
        forms.extend(structured.values())
    values = [_value(text) for text in texts]
    return any(
        (len(values) == 1 and _is(values[0], texts[0], form)) or (isinstance(form, list) and values == form)
        for form in forms
    )


def table_of(structured: JsonValue) -> Table | None:
    """A list of flat objects, alone or as the only value of an object; None for everything else."""
    if isinstance(structured, dict) and len(structured) == 1:
        structured = next(iter(structured.values()))
    if not isinstance(structured, list) or not structured or not all(_is_flat(row) for row in structured):
        return None
    rows = cast("list[dict[str, JsonValue]]", structured)
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    if not 0 < len(columns) <= COLUMNS_LIMIT:
        return None
    cells = (tuple(_cell(row.get(column)) for column in columns) for row in rows[:ROWS_LIMIT])
    return Table(columns=columns, rows=tuple(cells))


def _is(value: JsonValue, text: str, form: JsonValue) -> bool:
    return value == form or text == form


def _value(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_flat(row: JsonValue) -> bool:
    return isinstance(row, dict) and not any(isinstance(value, dict | list) for value in row.values())


def _cell(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
