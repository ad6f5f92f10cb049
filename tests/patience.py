"""How long tests wait: a busy or slow machine is no failure."""

import os
import time
from typing import Final

_STEPS: Final = 1_000_000
_USUAL: Final = 0.06
"""Seconds of CPU that so many steps take on the machine for which the waits of tests were chosen."""


def _slowness() -> float:
    begin, total = time.process_time(), 0
    for step in range(_STEPS):
        total += step
    return (time.process_time() - begin) / _USUAL


_PROCESSES: Final = max(os.getloadavg()[0], int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
"""That want a processor: now, or once all tests run."""
LOAD: Final = max(1.0, _PROCESSES / (os.cpu_count() or 1), _slowness())
"""Times as long as elsewhere: by the processes for each processor, or by how slow one is."""


def patient(seconds: float) -> float:
    """Return so many seconds, or more on a machine that is busy or slow."""
    return seconds * LOAD
