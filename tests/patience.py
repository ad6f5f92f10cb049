"""How long tests wait: a busy machine is no failure."""

import os
from typing import Final

LOAD: Final = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
"""Processes for each processor as the tests begin; 1 where there are fewer."""


def patient(seconds: float) -> float:
    """So many seconds on a machine that does nothing else, more where it does."""
    return seconds * LOAD
