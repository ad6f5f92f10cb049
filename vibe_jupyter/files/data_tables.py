"""Short descriptions of CSV and Parquet files: columns, types and first values, without loading the file.

CSV is read with the standard library. Parquet is read with pyarrow or polars if the kernel has imported one of them;
neither is imported for this, since that takes time.
"""

import csv
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from vibe_jupyter.files.text_file import TextLines, text_encoding

LOOKED_AT: Final = 1_000  # rows used to infer types
LONGEST: Final = 100_000  # characters per line
COLUMNS: Final = 60  # columns listed; the rest is only counted
VALUES: Final = 3  # distinct values shown per column
WIDTH: Final = 24  # characters per value
HEAD_BYTES: Final = 64_000_000  # bytes; the first rows of a Parquet file aren't read from larger row groups
_TEXTS: Final = {".csv": ",;|\t", ".tsv": "\t"}
# The defaults of pandas, some of which spreadsheets write.
_MISSING: Final = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
_KINDS: Final = (
    ("int", re.compile(r"[+-]?\d{1,18}")),
    ("float", re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")),
    ("bool", re.compile(r"true|false", re.IGNORECASE)),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    ("datetime", re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")),
)


def is_text_table(path: Path) -> bool:
    """Return whether the suffix is that of a file with separated values."""
    return path.suffix.lower() in _TEXTS


def text_table_lines(file: BinaryIO, path: Path, cancelled: Callable[[], bool]) -> list[str]:
    """Describe a CSV file by its first rows, or return [] if it isn't tabular. Rewinds the file."""
    encoding = text_encoding(file)
    if encoding is None:
        return []
    with closing(TextLines(file, encoding, cancelled, longest=LONGEST)) as lines:
        try:
            rows = _separated_rows(iter(lines), _TEXTS[path.suffix.lower()])
        except csv.Error:
            rows = []
    file.seek(0)
    if len(rows) < 2 or len(rows[0]) < 2:
        return []
    names, *values = rows
    goes_on = len(values) == LOOKED_AT
    values = [row for row in values if row not in ([], [""])]  # skip blank lines
    columns = [
        _column_line(name, [row[at] if at < len(row) else "" for row in values]) for at, name in enumerate(names)
    ]
    extent = f"{len(values):,} × {len(names):,}"
    if goes_on:
        extent = f"{len(names):,} columns, by the first {len(values):,} rows"
    return _table_lines(extent, columns)


def _separated_rows(lines: Iterator[str], separators: str) -> list[list[str]]:
    first = next(lines, "")
    separator = max(separators, key=first.count)
    ended = (f"{line}\n" for line in itertools.chain([first], lines))  # a quoted value may continue on the next line
    reader = csv.reader(ended, delimiter=separator, skipinitialspace=True)
    rows = list(itertools.islice(reader, LOOKED_AT + 1))
    names = next(csv.reader([first], delimiter=separator))  # like pandas, keep spaces before a name
    return [names, *rows[1:]] if rows and len(names) == len(rows[0]) else rows


def _column_line(name: str, values: Sequence[str]) -> str:
    known = [value for value in values if value not in _MISSING]
    missing = len(values) - len(known)
    first = (" ".join(value[:WIDTH].split("\n")) for value in known)
    shown = ", ".join(itertools.islice(dict.fromkeys(first), VALUES))
    return f"{_name_text(name[: 2 * WIDTH])} | {_kind_of(known)} | {missing} | {shown}"


def _name_text(name: str) -> str:
    """Return the name, quoted if surrounding spaces would be overlooked or it contains a newline."""
    return name if name and name == name.strip() and "\n" not in name else repr(name)


def _kind_of(values: Sequence[str]) -> str:
    kinds = [kind for kind, form in _KINDS if all(map(form.fullmatch, values))] if values else []
    return kinds[0] if kinds else "str"


def _table_lines(title: str, columns: Sequence[str]) -> list[str]:
    more = [f"… {len(columns) - COLUMNS:,} more columns"] if len(columns) > COLUMNS else []
    return [f"table: {title}", "column | type | missing | first values", *columns[:COLUMNS], *more]


def parquet_lines(file: BinaryIO, rows: int) -> list[str]:
    """Describe a Parquet file by its columns and first rows. Returns [] if it is broken or no library is loaded.

    Args:
        file: The file, open at its start.
        rows: Number of rows to show.
    """
    for library, read in (("pyarrow", _by_pyarrow), ("polars", _by_polars)):
        if library in sys.modules:
            try:
                return read(file, rows)
            except Exception:  # noqa: BLE001 - each library has its own exceptions for broken files
                return []
    return []


def _by_pyarrow(file: BinaryIO, rows: int) -> list[str]:
    parquet: Any = import_module("pyarrow.parquet")
    with parquet.ParquetFile(file) as table:
        schema, found = table.schema_arrow, table.metadata
        title = f"{found.num_rows:,} × {len(schema.names):,}"
        small = found.num_row_groups and found.row_group(0).total_byte_size <= HEAD_BYTES
        head = next(table.iter_batches(batch_size=rows), None) if small else None
        values = [] if head is None else [column.to_pylist() for column in head.columns]
    return _typed_lines(title, schema.names, schema.types, values)


def _by_polars(file: BinaryIO, rows: int) -> list[str]:
    polars: Any = sys.modules["polars"]
    schema = polars.read_parquet_schema(file)
    file.seek(0)
    head = polars.read_parquet(file, n_rows=rows)
    values = [head[name].to_list() for name in head.columns]
    return _typed_lines(f"{len(schema):,} columns", list(schema), list(schema.values()), values)


def _typed_lines(title: str, names: Sequence[str], kinds: Sequence[Any], values: Sequence[Sequence[Any]]) -> list[str]:
    lines = [
        f"{_name_text(name)} | {kind}{' | ' + ', '.join(str(one)[:WIDTH] for one in values[at]) if values else ''}"
        for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    more = [f"… {len(lines) - COLUMNS:,} more columns"] if len(lines) > COLUMNS else []
    return [f"table: {title}", "column | type" + (" | first values" if values else ""), *lines[:COLUMNS], *more]
