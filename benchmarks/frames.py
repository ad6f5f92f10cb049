"""What looking at variables costs: ratios within one run, never absolute times.

F1  one frame of 20 columns, against the library's own `repr`
F2  the same frame at 10^6 rows against 10^4 (10^7 with --rows 10000000)
F3  200 columns against 20
F4  30 variables of which 5 frames, as before every prompt, in milliseconds
F5  one frame's line, in milliseconds

Run it with ``python benchmarks/frames.py``.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]
import polars as pl

from vibe_jupyter.variables.describe import describe_value, summary_line, value_fingerprint

SMALL_ROWS: Final = 10_000
LARGE_ROWS: Final = 1_000_000
COLUMNS: Final = 20
WIDE_COLUMNS: Final = 200
REPEATS: Final = 25
LARGE_SUMMARY: Final[Mapping[str, float]] = {"pandas": 4.0, "polars": 1.0}  # milliseconds
# What polars' own repr shows is so little that a ratio to it has no goal.
REPR: Final[Mapping[str, float]] = {"pandas": 2.5, "polars": float("inf")}
LIBRARIES: Final[Mapping[str, Any]] = {"pandas": pd, "polars": pl}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    goal: str
    measure: str
    value: float
    limit: float
    unit: str

    @property
    def passed(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.limit


def main() -> int:
    """Measure and print. A missed goal is named; times of a busy machine are no failure."""
    parser = argparse.ArgumentParser(description="What looking at variables costs.")
    parser.add_argument("--rows", type=int, default=LARGE_ROWS, help="rows of the large frames")
    rows = parser.parse_args().rows
    table = [row for library in LIBRARIES for row in _frame_rows(library, rows)]
    table += _namespace_rows()
    print(f"{'goal':5}{'measure':58}{'value':>9}{'limit':>9}")
    for row in table:
        mark = "" if row.passed else "  missed"
        limit = "" if row.limit == float("inf") else f"{row.limit:.2f}"
        print(f"{row.goal:5}{row.measure:58}{row.value:9.2f}{limit:>9} {row.unit}{mark}")
    return 0


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
        Row(
            "F1", f"{library}: summary of one frame / repr, {SMALL_ROWS:,} rows", small_ms / repr_ms, REPR[library], "x"
        ),
        Row("F1", f"{library}: summary of one frame, {SMALL_ROWS:,} rows", small_ms, goal, "ms"),
        Row("F1", f"{library}: summary of one frame, {at}", large_ms, goal, "ms"),
        Row("F2", f"{library}: summary at {at} / at {SMALL_ROWS:,}", large_ms / small_ms, 1.3, "x"),
        Row("F3", f"{library}: summary at {WIDE_COLUMNS} columns / at {COLUMNS}", wide_ms / small_ms, 2.0, "x"),
        Row("F5", f"{library}: one line of a frame", line_ms, 1.0, "ms"),
        Row("F5", f"{library}: one line of a frame of {at}", large_line_ms, 1.0, "ms"),
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
    return [Row("F4", "30 variables of which 5 frames, compared and in a line", value, 25, "ms")]


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
            started = time.perf_counter()
            work()
            taken.append(1_000 * (time.perf_counter() - started))
    return [min(taken[1:]) for taken in times]


if __name__ == "__main__":
    sys.exit(main())
