"""CPU of a second look at each object of the tests' corpus: its line and its description, as an inspection needs them.

Run it with ``PYTHONPATH=. python benchmarks/objects.py``.
"""

import sys
import time
from typing import Final

from benchmarks.report import SMOKE, Row, report, size
from tests.charts.recipes import large_charts
from tests.variables.corpus import FAMILIES
from vibe_jupyter.variables.describe import describe_value, value_line

GOAL: Final = 5.0  # ms
SHOWN: Final = 6
REPEATS: Final = size(3, 1)


def main() -> int:
    """Print the slowest."""
    times: dict[str, float] = {}
    families = size(FAMILIES, FAMILIES[:1])
    entries = [(name, value) for family in families for name, value, _ in family()]
    for name, value in (*entries, *(large_charts().items() if not SMOKE else ())):
        describe_value(value)
        looks: list[float] = []
        for _ in range(REPEATS):
            start = time.process_time()
            value_line(value)
            describe_value(value)
            looks.append(1000 * (time.process_time() - start))
        times[name] = min(looks)
    slowest = sorted(times.items(), key=lambda one: -one[1])
    over = [name for name, taken in slowest if taken > GOAL]
    print(f"{len(times)} objects, {len(over)} over {GOAL:g} ms; the slowest:")
    return report([Row(name, taken, GOAL, "ms of CPU") for name, taken in slowest[:SHOWN]])


if __name__ == "__main__":
    sys.exit(main())
