"""What an adapter is, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HEAD_ROWS = 5
"""Rows of a frame shown where nothing else is asked."""


@dataclass(frozen=True)
class View:
    """How much of a value is wanted."""

    columns: tuple[str, ...] | None = None
    """Labels of a frame's columns; None for all."""
    rows: int = HEAD_ROWS
    """First rows of a frame to show."""
    stats: bool = True
    """Whether to count nulls and give ranges, from at most 1,000 rows."""


@dataclass(frozen=True)
class Rows:
    """A small table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Description:
    """A value in words."""

    headline: str
    """Kind and extent, such as ``pandas DataFrame 344 × 8``."""
    body: str = ""
    """More lines for the model; may be empty."""
    summary: str = ""
    """A few words for the person; empty when the headline says all."""
    table: Rows | None = None
    """Columns of a frame for the person; None for everything else."""


@dataclass(frozen=True)
class Adapter:
    """Three readings of a value of one kind. None of them runs the value's own code or a lazy computation."""

    line: Callable[[Any], str]
    """Kind and extent in one line and in well under a millisecond."""
    describe: Callable[[Any, View], Description]
    fingerprint: Callable[[Any], object]
    """Equal as long as the value looks unchanged; holds no reference to it."""


def line_adapter(line: Callable[[Any], str], fingerprint: Callable[[Any], object] = id) -> Adapter:
    """An adapter for values of which one line says all."""

    def describe(value: Any, view: View) -> Description:
        return Description(headline=line(value))

    return Adapter(line=line, describe=describe, fingerprint=fingerprint)
