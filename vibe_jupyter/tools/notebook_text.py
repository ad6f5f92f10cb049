"""A notebook file as its cells' sources: the raw JSON is mostly outputs."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, cast

from vibe_jupyter.tools.text_file import LONG_LINE
from vibe_jupyter.tools.truncate import cut_line

NOTEBOOK_LIMIT: Final = 100_000_000
"""Bytes of a notebook file that are parsed; larger ones are read as plain text."""


def notebook_lines(file: BinaryIO) -> Iterator[str] | None:
    """The lines of a notebook's cells, each cell under a line with its number; None when it is no notebook.

    The file is then at its start again.
    """
    if os.fstat(file.fileno()).st_size > NOTEBOOK_LIMIT:
        return None
    cells = _cells(file.read())
    file.seek(0)
    return None if cells is None else _lines(cells)


def _cells(raw: bytes) -> Sequence[Any] | None:
    try:
        notebook = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    cells = cast("Mapping[str, Any]", notebook).get("cells") if isinstance(notebook, dict) else None
    return cast("Sequence[Any]", cells) if isinstance(cells, list) else None


def _lines(cells: Sequence[Any]) -> Iterator[str]:
    for number, cell in enumerate(cells, start=1):
        if isinstance(cell, dict):
            fields = cast("Mapping[str, Any]", cell)
            yield _title(number, fields)
            yield from (cut_line(line, LONG_LINE) for line in _source(fields).split("\n"))
            yield ""


def _title(number: int, cell: Mapping[str, Any]) -> str:
    facts = [f"cell {number}", str(cell.get("cell_type", "unknown"))]
    if isinstance(cell.get("id"), str):
        facts.append(f"id {cell['id']}")
    outputs = cell.get("outputs")
    if isinstance(outputs, list) and outputs:
        count = len(cast("Sequence[Any]", outputs))
        facts.append(f"{count} output{'s' * (count != 1)} left out")
    return f"--- {', '.join(facts)} ---"


def _source(cell: Mapping[str, Any]) -> str:
    source = cell.get("source", "")
    if isinstance(source, list):
        return "".join(str(line) for line in cast("Sequence[Any]", source))
    return str(source)
