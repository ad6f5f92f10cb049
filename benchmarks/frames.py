"""What looking at variables costs: ratios within one run, never absolute times.

F1  one frame of 20 columns, against the library's own `repr`
F2  the same frame at 10^6 rows against 10^4 (10^7 with --rows 10000000)
F3  200 columns against 20
F4  30 variables of which 5 frames, as before every prompt, in milliseconds
F5  one frame's line, in milliseconds

Run it with ``PYTHONPATH=. python benchmarks/frames.py``.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]
import polars as pl

from benchmarks.report import Row, report, size
from vibe_jupyter.variables.describe import describe_value, summary_line, value_fingerprint

SMALL_ROWS: Final = size(10_000, 100)
LARGE_ROWS: Final = size(1_000_000, 1_000)
COLUMNS: Final = 20
WIDE_COLUMNS: Final = 200
REPEATS: Final = size(25, 1)
LARGE_SUMMARY: Final[Mapping[str, float]] = {"pandas": 4.0, "polars": 1.0}  # milliseconds
# What polars' own repr shows is so little that a ratio to it has no goal.
REPR: Final[Mapping[str, float | None]] = {"pandas": 2.5, "polars": None}
LIBRARIES: Final[Mapping[str, Any]] = {"pandas": pd, "polars": pl}


def main() -> int:
    """Print the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description="What looking at variables costs.")
    parser.add_argument("--rows", type=int, default=LARGE_ROWS, help="rows of the large frames")
    rows = parser.parse_args().rows
    table = [row for library in LIBRARIES for row in _frame_rows(library, rows)]
    table += _namespace_rows()
    return report(table)


def _frame_rows(library: str, rows: int) -> list[Row]:
    small, wide = _frame(library, SMALL_ROWS, COLUMNS), _frame(library, SMALL_ROWS, WIDE_COLUMNS)
    large = _frame(library, rows, COLUMNS)
    small_ms, wide_ms, large_ms, repr_ms, line_ms, large_line_ms = _milliseconds(
        lambda: describe_value(small),
        lambda: describe_value(wide),
        lambda: describe_value(large),
        lambda: repr(small),
        lambda: summary_line("frame", small),
        lambda: summary_line("frame", large),
    )
    goal, at = LARGE_SUMMARY[library], f"{rows:,} rows"
    return [
        Row(f"F1 {library}: summary of one frame / repr, {SMALL_ROWS:,} rows", small_ms / repr_ms, REPR[library], "x"),
        Row(f"F1 {library}: summary of one frame, {SMALL_ROWS:,} rows", small_ms, goal, "ms of CPU"),
        Row(f"F1 {library}: summary of one frame, {at}", large_ms, goal, "ms of CPU"),
        Row(f"F2 {library}: summary at {at} / at {SMALL_ROWS:,}", large_ms / small_ms, 1.3, "x"),
        Row(f"F3 {library}: summary at {WIDE_COLUMNS} columns / at {COLUMNS}", wide_ms / small_ms, 2.0, "x"),
        Row(f"F5 {library}: one line of a frame", line_ms, 1.0, "ms of CPU"),
        Row(f"F5 {library}: one line of a frame of {at}", large_line_ms, 1.0, "ms of CPU"),
    ]


def _namespace_rows() -> list[Row]:
    namespace: dict[str, object] = {f"frame_{number}": _frame("pandas", LARGE_ROWS, COLUMNS) for number in range(4)}
    namespace |= {"polars_frame": _frame("polars", LARGE_ROWS, COLUMNS), "array": np.zeros((1_000, 1_000))}
    namespace |= {f"value_{number}": [number] * 100 for number in range(24)}

    def before_a_prompt() -> None:
        for name, value in namespace.items():
            value_fingerprint(value)
            summary_line(name, value)

    (value,) = _milliseconds(before_a_prompt)
    return [Row("F4 30 variables of which 5 frames, compared and in a line", value, 25, "ms of CPU")]


def _frame(library: str, rows: int, columns: int) -> Any:
    """Half numbers with some missing, the rest whole numbers, texts, truth values and times, over and over."""
    chance = np.random.default_rng(7)
    texts = np.array(["Adelie", "Gentoo", "Chinstrap"], dtype=object)
    makers: list[Callable[[], Any]] = [
        *[lambda: np.where(chance.random(rows) < 0.01, np.nan, chance.random(rows))] * 11,
        *[lambda: chance.integers(0, 1_000, rows)] * 4,
        *[lambda: texts[chance.integers(0, 3, rows)]] * 3,
        lambda: chance.random(rows) < 0.5,
        lambda: np.datetime64("2024-01-01", "us") + np.arange(rows).astype("m8[us]"),
    ]
    data = {f"c{number}": makers[number % len(makers)]() for number in range(columns)}
    if library == "polars":
        data = {name: list(column) if column.dtype == object else column for name, column in data.items()}
    return LIBRARIES[library].DataFrame(data)


def _milliseconds(*works: Callable[[], object]) -> list[float]:
    """The best of some rounds in which they take turns: the least disturbed by whatever else the machine does."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS + 1):
        for work, taken in zip(works, times, strict=True):
            started = time.process_time()
            work()
            taken.append(1_000 * (time.process_time() - started))
    return [min(taken[1:]) for taken in times]


if __name__ == "__main__":
    sys.exit(main())
