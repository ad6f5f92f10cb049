"""Rows of the benchmarks' tables and their verdict, the same for all of them.

A table ends with `report`, whose result is the exit code: 1 where a row is above its aim. Aims are on CPU time, counts,
bytes, or ratios to a floor that was measured in the same run, since the clock says little on a busy machine.

    BENCH_SMOKE=1   tiny sizes: each table runs to its end and prints its rows; no verdict on the figures
    BENCH_AIMS=0    all aims times this factor, judged at any size: 0 makes every row a miss
"""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

SMOKE: Final = os.environ.get("BENCH_SMOKE") == "1"
_FACTOR: Final = os.environ.get("BENCH_AIMS", "")


class Row(NamedTuple):
    """A figure, and the aim that it must not exceed."""

    measure: str
    value: float
    aim: float | None = None
    unit: str = ""

    @property
    def is_missed(self) -> bool:
        """True where the aim is exceeded, or the figure is none."""
        return self.aim is not None and not self.value <= self.aim * float(_FACTOR or 1)

    def line(self) -> str:
        """Return the row as a line of the table."""
        aim = "" if self.aim is None else f"{self.aim:,.2f}"
        verdict = "  MISSED" if self.is_missed and _is_judged() else ""
        return f"{self.measure:<62}{self.value:>12,.2f}{aim:>12} {self.unit}{verdict}"


def size(usual: T, smoke: T) -> T:
    """Return how much is measured: the usual amount, or a tiny one in a smoke run."""
    return smoke if SMOKE else usual


def report(rows: Sequence[Row]) -> int:
    """Print the rows with their aims, and return the exit code: 1 where one is missed, or where there are none."""
    print(f"\n{'':<62}{'measured':>12}{'at most':>12}")
    for row in rows:
        print(row.line())
    missed = sum(row.is_missed for row in rows)
    judged = any(row.aim is not None for row in rows)
    if not _is_judged():
        print("smoke run: no verdict")
        return int(not judged)
    print(f"{missed} of {len(rows)} missed" if missed else "all within their aims", flush=True)
    return int(missed > 0 or not judged)


def _is_judged() -> bool:
    return not SMOKE or bool(_FACTOR)
