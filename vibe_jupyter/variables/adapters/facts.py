"""Adapters built from two functions: a headline and optional detail lines."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from vibe_jupyter.variables.adapters import (
    LABELS_COMPARED,
    SampleTable,
    VariableAdapter,
    VariableDescription,
    VariableView,
    is_of_package,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.frames import COLUMNS_LIMIT, LABEL_WIDTH, LINE_COLUMNS
from vibe_jupyter.variables.plain_values import plain_cell_text, plain_line

LINES_LIMIT: Final = 60  # lines per value
LINE_WIDTH: Final = 400  # characters per line
NAMES_SHOWN: Final = 12  # names per list
_ANY: Final = ("",)


def no_lines(value: Any) -> Iterable[str]:
    """Return no lines: the default for values that fit in one line."""
    return ()


def facts_adapter(
    kind: str,
    headline: Callable[[Any], str],
    lines: Callable[[Any], Iterable[str]] = no_lines,
    *,
    packages: tuple[str, ...] = _ANY,
) -> VariableAdapter:
    """Create an adapter for values of one kind.

    Args:
        kind: Name of the kind, such as ``networkx Graph``.
        headline: Returns the text after the kind.
        lines: Returns further lines for the model.
        packages: Packages whose code may run. Values of other classes are only named. If omitted, both functions must
            read only what is stored on the value.
    """

    def is_known(value: Any) -> bool:
        return packages is _ANY or any(is_of_package(type_of(value), package) for package in packages)

    def line(value: Any) -> str:
        if not is_known(value):
            return f"{type_name(value)} ({kind})"
        return cut_line(f"{kind} {headline(value)}".rstrip())

    def describe(value: Any, view: VariableView) -> VariableDescription:
        shown = islice(lines(value), LINES_LIMIT) if is_known(value) else ()
        return VariableDescription(headline=line(value), body="\n".join(cut_line(text) for text in shown if text))

    def fingerprint(value: Any) -> object:
        return id(value), line(value)

    return VariableAdapter(line=line, describe=describe, fingerprint=fingerprint)


def schema_adapter(
    kind: str,
    columns_of: Callable[[Any], Iterable[tuple[object, str]] | None],
    note: str = "Nothing was computed.",
    *,
    rows_of: Callable[[Any], int | None] = lambda value: None,
) -> VariableAdapter:
    """Create an adapter for tables with a schema only. `columns_of` returns None for columns not known yet."""

    def line(value: Any) -> str:
        columns = columns_of(value)
        if columns is None:
            return f"{kind}, columns not known yet"
        known = _column_texts(columns)
        shown = ", ".join(f"{name} {dtype}" for name, dtype in known[:LINE_COLUMNS])
        rows = rows_of(value)
        extent = f"{rows:,} × {len(known):,}" if rows is not None else f"{plural(len(known), 'column')}"
        return f"{kind} {extent} ({shown}{', …' if len(known) > LINE_COLUMNS else ''})"

    def describe(value: Any, view: VariableView) -> VariableDescription:
        columns = columns_of(value)
        headline = line(value).partition(" (")[0]
        if columns is None:
            return VariableDescription(headline=headline, body=note, summary=headline)
        known = _column_texts(columns)
        wanted = [pair for pair in known if view.columns is None or pair[0] in view.columns][:COLUMNS_LIMIT]
        lines = ["column | type", *(f"{name} | {dtype}" for name, dtype in wanted)]
        if view.columns is None and len(known) > COLUMNS_LIMIT:
            lines.append(f"… {len(known) - COLUMNS_LIMIT:,} more columns; name them in `columns` to see them")
        table = SampleTable(("column", "type"), tuple(wanted))
        summary = headline.removeprefix(f"{kind} ")
        return VariableDescription(headline, "\n".join([*lines, note]), summary, table, schema=table)

    def labels(value: Any) -> list[str]:
        return [name for name, _ in _column_texts(islice(columns_of(value) or (), LABELS_COMPARED))]

    return VariableAdapter(line=line, describe=describe, fingerprint=id, labels=labels)


def _column_texts(columns: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    return [(plain_cell_text(name, LABEL_WIDTH), dtype) for name, dtype in columns]


def cut_line(text: str) -> str:
    """Join lines and cut the result to `LINE_WIDTH`."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"


def names_text(names: Iterable[object], limit: int = NAMES_SHOWN) -> str:
    """Join the first names and report how many more there are."""
    known = list(names)
    shown = ", ".join(plain_cell_text(name) for name in known[:limit])
    return f"{shown}, … {len(known) - limit:,} more" if len(known) > limit else shown


def named_line(title: str, names: Iterable[object], limit: int = NAMES_SHOWN) -> str:
    """Return ``title: a, b``, or "" without names."""
    text = names_text(names, limit)
    return f"{title}: {text}" if text else ""


def pairs_text(pairs: Iterable[tuple[object, object]], limit: int = NAMES_SHOWN) -> str:
    """Return ``a=1, b='x'``."""
    known = list(islice(pairs, limit + 1))
    shown = ", ".join(
        f"{plain_cell_text(name)}={plain_line(value, depth=1, width=40)}" for name, value in known[:limit]
    )
    return f"{shown}, …" if len(known) > limit else shown


def plural(number: int, word: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def extent_of(shape: Iterable[object]) -> str:
    """Return ``3 × 4``, with a question mark for sides of unknown length."""
    sides = [f"{side:,}" if type(side) is int else "?" for side in shape]
    return " × ".join(sides) or "scalar"
