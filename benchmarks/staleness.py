"""What it costs to tell how 1,000 cells stand to each other.

S1  one cell was run since the last time: what a listing, or the report before a prompt, pays
S2  the first time in a kernel: every cell is parsed
S3  what one run of a cell pays, so that changes in place are seen

Run it with ``python benchmarks/staleness.py``.
"""

import time
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.notebook.cell_names import cell_names, code_shape
from vibe_jupyter.notebook.staleness import Execution, Replay, cell_standings
from vibe_jupyter.protocol import Cell

CELLS = 1_000
ROUNDS = 7


def notebook() -> tuple[list[Cell], list[Execution]]:
    """Cells of analysis, each of which reads what others bind, run twice."""
    cells = [
        Cell(
            id=f"cell-{place}",
            number=place + 1,
            kind="code",
            source=f"frame_{place} = frame_{max(0, place - 3)}.copy()\n"
            f"frame_{place}['ratio'] = frame_{place}['a'] / limit_{place % 7}\n"
            f"def scaled_{place}(value):\n    return value * limit_{place % 5}\n"
            f"rows_{place} = [scaled_{place}(one) for one in frame_{place}['ratio'] if one > {place}]\n"
            f"print(len(rows_{place}), frame_{place}.shape)",
            execution_count=CELLS + place + 1,
            state="fresh",
        )
        for place in range(CELLS)
    ]
    runs = [
        Execution(cell.source, number=again * CELLS + cell.number, cell=cell.id) for again in (0, 1) for cell in cells
    ]
    return cells, runs


def best(times: list[float]) -> str:
    return f"{min(times) * 1_000:.1f} ms"


def seconds_after_one_run() -> list[float]:
    cells, runs = notebook()
    replay = Replay(runs)
    times: list[float] = []
    for number in range(ROUNDS):
        changed = runs[3]._replace(number=3 * CELLS + number, source=f"limit_3 = {number}")
        began = time.perf_counter()
        replay.add(changed)
        cell_standings(cells, replay)
        times.append(time.perf_counter() - began)
    return times


def seconds_at_first() -> list[float]:
    cells, runs = notebook()
    times: list[float] = []
    for _ in range(ROUNDS):
        cell_names.cache_clear()
        code_shape.cache_clear()
        began = time.perf_counter()
        cell_standings(cells, Replay(runs))
        times.append(time.perf_counter() - began)
    return times


def seconds_of_a_run() -> list[float]:
    """What is added to a cell that mentions five of 300 variables."""
    shell: Any = InteractiveShell()
    shell.run_cell("\n".join(f"name_{number} = list(range({number}))" for number in range(300)))
    code = "name_1.append(len(name_2) + len(name_3) + len(name_4) + len(name_5))"
    plain = [_seconds(shell, code) for _ in range(50)]

    def namespace() -> dict[str, object]:
        return {name: value for name, value in shell.user_ns.items() if name.startswith("name")}

    log = ExecutionLog(shell, namespace)
    looked = [_seconds(shell, code) for _ in range(50)]
    log.close()
    return [max(0.0, min(looked) - min(plain))]


def _seconds(shell: Any, code: str) -> float:
    began = time.perf_counter()
    shell.run_cell(code, store_history=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(f"S1 {CELLS:,} cells, one run since: {best(seconds_after_one_run())}")
    print(f"S2 {CELLS:,} cells, the first time: {best(seconds_at_first())}")
    print(f"S3 added to one run of a cell: {best(seconds_of_a_run())}")
