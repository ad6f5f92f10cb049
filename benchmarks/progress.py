"""CPU per piece that running code prints, with 40 and with 4,000 variables that are looked through for secrets.

    PYTHONPATH=. python benchmarks/progress.py

The pieces come as fast as they are taken, from a thread of their own, as those of a kernel do.
"""

import asyncio
import statistics
import sys
import time

from benchmarks.report import Row, report, size
from vibe_jupyter.agent.call_context import ProgressStreams
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.permissions.secret_shapes import holds_secret, is_secret_name
from vibe_jupyter.protocol import ToolProgress
from vibe_jupyter.variables.secret_values import SecretValues

PIECES = size(20_000, 200)
ROUNDS = size(5, 1)
FEW, MANY = 40, 4_000
"""Variables."""
MOST_GROWTH = 1.25
"""Times the cost with a hundred times the variables."""


def main() -> int:
    """Print the table; 1 if the aim is missed."""
    costs: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(ROUNDS):
        for count, found in costs.items():
            found.append(asyncio.run(measured(count)) / PIECES * 1e6)
    few, many = (statistics.median(costs[count]) for count in (FEW, MANY))
    return report(
        [
            Row(f"a piece with {FEW} variables", few, unit="µs of CPU"),
            Row(f"a piece with {MANY:,} variables", many, unit="µs of CPU"),
            Row("growth with a hundred times the variables", many / few, MOST_GROWTH, "x"),
        ]
    )


async def measured(variables: int) -> float:
    """Seconds of CPU."""
    namespace: dict[str, object] = {f"value_{number}": [f"text {number}"] for number in range(variables // 2)}
    found = SecretValues(lambda: dict(namespace), names_secret=is_secret_name, holds_secret=holds_secret)
    streams = ProgressStreams(Redactor(found=found), lambda progress: None)

    def code() -> None:
        for number in range(PIECES):
            streams.take(ToolProgress(call_id="1", text=f"Epoch {number}, loss 0.{number}\n"))

    began = time.process_time()
    await asyncio.to_thread(code)
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
