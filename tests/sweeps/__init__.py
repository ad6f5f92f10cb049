"""Sweeps: the same behaviour tried with many seeds, moments and races.

A sweep is a module of this folder that is named in `SWEEPS`. It has `COUNT` (tries of the whole sweep) and
`sweep(count, seed)`, which yields one line for each try that failed. `make sweeps` runs them whole; `make test` runs a
hundredth of each (`test_samples.py`).
"""

import importlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

SWEEPS: tuple[str, ...] = (
    "agent_commands",
    "copies",
    "fresh_runs",
    "gateway_kills",
    "held",
    "interrupt_lines",
    "interrupts",
    "kills",
    "kills_resumed",
    "places",
    "places_with_card",
    "shell_commands",
    "trial_runs",
    "undo",
    "withheld_values",
)
"""Names of the modules, in the order in which they run."""
SAMPLE = 100
"""`make test` runs one try in this many."""
SHOWN = 20
"""Failures that are printed; the rest are counted."""

Sweep = Callable[[int, int], Iterator[str]]
"""Takes the number of tries and a seed; yields a line for each try that failed."""


def load(name: str) -> tuple[Sweep, int]:
    """The sweep of that name, and how many tries it has."""
    module: Any = importlib.import_module(f"tests.sweeps.{name}")
    return module.sweep, module.COUNT


def run(names: list[str], *, count: int | None, seed: int | None) -> int:
    """Run whole sweeps one after the other; the last line of each says what came of it. Returns an exit code."""
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    failed = 0
    for name in names:
        sweep, whole = load(name)
        tries, began, failures = count or whole, time.monotonic(), 0
        for failure in sweep(tries, seed):
            failures += 1
            if failures <= SHOWN:
                print(f"  {name}: {failure}", flush=True)
        failed += failures
        print(f"{name}: {tries} tries, {failures} failed, seed {seed}, {time.monotonic() - began:.0f} s", flush=True)
    print(f"sweeps: {len(names)} run, {failed} tries failed", flush=True)
    return 1 if failed else 0


def sample_of(count: int) -> int:
    """How many tries of a sweep `make test` runs."""
    return max(1, count // SAMPLE)
