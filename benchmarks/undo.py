"""What keeping variables for undo costs: code that changes a frame of 10,000,000 rows, with it and without, by turns.

CPU of one thread; the best of some rounds, since the machine is shared. Keeping is all that a run adds: what is
kept before its code, and what is compared at its end. It shares the columns, so that code which writes to one in place
copies that one first, as any undo must: ``copy`` is what copying one column takes by itself. The aim is for what is
more than that: 10 ms, or 5 % of code that takes longer. Run it with ``PYTHONPATH=. python benchmarks/undo.py``.
"""

import sys
import time
from typing import Final

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

from benchmarks.report import Row, report, size
from vibe_jupyter.variables.kept import KeptVariables

ROWS: Final = size(10_000_000, 10_000)
ROUNDS: Final = size(7, 1)
MOST_MS: Final = 10.0
"""Milliseconds of CPU that keeping may add."""
MOST_SHARE: Final = 0.05
"""Of the run's own time, where that is more."""
CODE: Final = {
    "frame['total'] = frame['a'] * frame['b']": 0,
    "frame = frame[frame['a'] > 0.5]": 0,
    "frame.loc[frame['a'] < 0.1, 'a'] = 0.1": 1,
    "frame['a'] = frame['a'].fillna(0.0)": 0,
    "frame = frame.sort_values('b')": 0,
}
"""Each with the columns that it writes to in place."""


def measure(code: str, *, keeps: bool) -> float:
    """Milliseconds of CPU of one run on a frame of its own."""
    numbers = np.random.default_rng(1)
    columns = {name: numbers.random(ROWS) for name in "abcde"}
    namespace: dict[str, object] = {"frame": pd.DataFrame(columns)}
    compiled = compile(code, "cell", "exec")
    began = time.thread_time()
    kept = KeptVariables(lambda: namespace, namespace)
    if keeps:
        kept.before_code(code)
    exec(compiled, namespace)
    if keeps:
        kept.end_run()
    return 1e3 * (time.thread_time() - began)


def measure_copy() -> float:
    """Milliseconds of CPU of copying one column."""
    column = np.random.default_rng(1).random(ROWS)
    began = time.thread_time()
    column.copy()
    return 1e3 * (time.thread_time() - began)


def main() -> int:
    print(f"{ROWS:,} rows of 5 columns; ms of CPU, best of {ROUNDS}")
    print(f"{'without':>9}{'with':>9}{'copy':>9}{'more':>8}{'share':>8}")
    rows: list[Row] = []
    for code, columns in CODE.items():
        rounds = [
            (measure(code, keeps=False), measure(code, keeps=True), columns * measure_copy()) for _ in range(ROUNDS)
        ]
        plain, kept, copied = (min(column) for column in zip(*rounds, strict=True))
        more = kept - plain - copied
        rows.append(Row(f"more: {code}", more, max(MOST_MS, MOST_SHARE * plain), "ms of CPU"))
        print(f"{plain:9.1f}{kept:9.1f}{copied:9.1f}{more:8.1f}{more / plain:8.1%}  {code}", flush=True)
    print(f"aim: at most {MOST_MS:g} ms more, or {MOST_SHARE:.0%} where that is more, beside the copy")
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
