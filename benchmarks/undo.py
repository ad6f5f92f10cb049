"""What keeping variables for undo costs: code that changes a frame of 10,000,000 rows, with it and without, by turns.

CPU of one thread; the best of some rounds, since the machine is shared. Keeping is all that a run adds: what is
kept before its code, and what is compared at its end. Run it with ``PYTHONPATH=. python benchmarks/undo.py``.
"""

import sys
import time
from typing import Final

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

from vibe_jupyter.variables.kept import KeptVariables

ROWS: Final = 10_000_000
ROUNDS: Final = 7
MOST_SHARE: Final = 0.05
"""Of the run's own time."""
MOST_MS: Final = 10.0
"""Milliseconds of CPU."""
CODE: Final = (
    "frame['total'] = frame['a'] * frame['b']",
    "frame = frame[frame['a'] > 0.5]",
    "frame.loc[frame['a'] < 0.1, 'a'] = 0.1",
    "frame['a'] = frame['a'].fillna(0.0)",
    "frame = frame.sort_values('b')",
)


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


def main() -> int:
    print(f"{ROWS:,} rows of 5 columns; ms of CPU, best of {ROUNDS}")
    print(f"{'without':>9}{'with':>9}{'more':>8}{'share':>8}")
    failed = False
    for code in CODE:
        rounds = [(measure(code, keeps=False), measure(code, keeps=True)) for _ in range(ROUNDS)]
        plain, kept = (min(column) for column in zip(*rounds, strict=True))
        more, share = kept - plain, kept / plain - 1
        failed = failed or more > MOST_MS or share > MOST_SHARE
        print(f"{plain:9.1f}{kept:9.1f}{more:8.1f}{share:8.1%}  {code}", flush=True)
    print(f"aim: at most {MOST_MS:g} ms and {MOST_SHARE:.0%}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
