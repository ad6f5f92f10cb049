"""What it costs to tell how 1,000 cells stand to each other.

S1  one cell was run since the last time: what a listing, or the report before a prompt, pays
S2  the first time in a kernel that rested, the extension being loaded before or after the cells ran
S3  a notebook that was opened, and of which this kernel ran nothing
S4  the longest that a kernel at rest is held at a time by reading what ran
S5  the reading itself, of all cells: what a prompt pays that comes in the same moment as the extension
S6  what CPython's parser alone takes of it
S7  what one run of a cell pays, so that changes in place are seen

S1 to S6 for cells of an analysis with pandas as people write them, which ran once each, and for dense ones that ran
twice. CPU time. Run it with ``PYTHONPATH=. python benchmarks/staleness.py``.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell

from benchmarks.report import Row, report, size
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.context.read_ahead import SLICE
from vibe_jupyter.notebook.cell_names import cell_names, code_shape, parse_quietly, python_of
from vibe_jupyter.notebook.replay import Execution, Replay
from vibe_jupyter.notebook.staleness import cell_standings
from vibe_jupyter.protocol import Cell

CELLS: Final = size(1_000, 40)
ROUNDS: Final = size(9, 1)
AIM: Final = 0.05
"""Seconds for a look, the first one included."""
PANDAS: Final = (
    "import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt\n%matplotlib inline",
    "df_{n} = pd.read_csv('data/part_{n}.csv', parse_dates=['day'])\ndf_{n}.head()",
    "df_{n}.info()",
    "df_{n}.describe()",
    "df_{n} = df_{n}.dropna(subset=['price', 'size'])\n"
    "df_{n}['ratio'] = df_{n}['price'] / df_{n}['size']\ndf_{n}.shape",
    "by_month_{n} = (\n    df_{n}.assign(month=df_{n}['day'].dt.to_period('M'))\n    .groupby('month')\n"
    "    .agg(mean=('price', 'mean'), n=('price', 'size'))\n    .reset_index()\n)\nby_month_{n}",
    "fig, ax = plt.subplots(figsize=(10, 4))\nax.plot(by_month_{n}['month'].astype(str), by_month_{n}['mean'])\n"
    "ax.set_title('Price by month')\nax.set_ylabel('EUR')\nplt.xticks(rotation=45)\nplt.show()",
    "def clean_{n}(frame, limit=10):\n    frame = frame[frame['price'] > limit].copy()\n"
    "    frame['log_price'] = np.log(frame['price'])\n    return frame",
    "kept_{n} = clean_{n}(df_{n})\nprint(len(kept_{n}), 'of', len(df_{n}))",
    "df_{n}['kind'].value_counts()",
    "cheap_{n} = df_{n}[(df_{n}['price'] < 20) & (df_{n}['size'] > 3)]\ncheap_{n}.sort_values('price').head(10)",
    "for column in ['price', 'size', 'ratio']:\n    print(column, df_{n}[column].isna().sum())",
    "X_{n} = df_{n}[['size', 'rooms', 'age']]\ny_{n} = df_{n}['price']\nX_{n}.shape, y_{n}.shape",
    "from sklearn.linear_model import LinearRegression\nmodel_{n} = LinearRegression()\n"
    "model_{n}.fit(X_{n}, y_{n})\nmodel_{n}.score(X_{n}, y_{n})",
    "df_{n}.loc[df_{n}['age'] > 100, 'age'] = np.nan",
    "merged_{n} = df_{n}.merge(by_month_{n}, on='month', how='left')\nmerged_{n}.head()",
    "len(df_{n})",
    "!ls data",
    "plt.hist(df_{n}['price'], bins=50)\nplt.show()",
    "means_{n} = {{kind: part['price'].mean() for kind, part in df_{n}.groupby('kind')}}\nmeans_{n}",
)


def pandas_cells() -> list[str]:
    """Fifty parts of an analysis, of twenty cells each."""
    return [PANDAS[place % len(PANDAS)].format(n=place // len(PANDAS)) for place in range(CELLS)]


def dense_cells() -> list[str]:
    """Each with a function, a comprehension, and what others bind."""
    return [
        f"frame_{place} = frame_{max(0, place - 3)}.copy()\n"
        f"frame_{place}['ratio'] = frame_{place}['a'] / limit_{place % 7}\n"
        f"def scaled_{place}(value):\n    return value * limit_{place % 5}\n"
        f"rows_{place} = [scaled_{place}(one) for one in frame_{place}['ratio'] if one > {place}]\n"
        f"print(len(rows_{place}), frame_{place}.shape)"
        for place in range(CELLS)
    ]


class Notebook:
    """Cells, and their runs in this order, as often as said."""

    def __init__(self, sources: list[str], times: int) -> None:
        self.runs = [
            Execution(source, number=again * CELLS + place, cell=f"cell-{place}")
            for again in range(times)
            for place, source in enumerate(sources, start=1)
        ]
        self.cells = [
            Cell(
                id=f"cell-{place}",
                number=place,
                kind="code",
                source=source,
                execution_count=(times - 1) * CELLS + place,
                state="fresh",
            )
            for place, source in enumerate(sources, start=1)
        ]

    def seconds_after_one_run(self) -> float:
        replay = Replay(self.runs)
        times: list[float] = []
        for number in range(ROUNDS):
            changed = self.runs[3]._replace(number=3 * CELLS + number, source=f"limit_3 = {number}")
            times.append(_cpu(lambda changed=changed: (replay.add(changed), cell_standings(self.cells, replay))))
        return min(times)

    def seconds_at_first(self) -> float:
        replay = Replay(self.runs)
        replay.read()
        return _best(lambda: cell_standings(self.cells, replay))

    def seconds_never_run(self) -> float:
        return _best(lambda: cell_standings(self.cells, Replay()), _forget)

    def seconds_held(self) -> float:
        held: list[float] = []
        for _ in range(ROUNDS):
            _forget()
            replay, times = Replay(self.runs), list[float]()
            while not replay.read(0):
                times.append(_cpu(lambda replay=replay: replay.read(SLICE)))
            held.append(max(times))
        return min(held)

    def seconds_of_reading(self) -> float:
        return _best(lambda: Replay(self.runs).read(), _forget)

    def seconds_of_the_parser(self) -> float:
        codes = [python_of(cell.source)[0] for cell in self.cells]

        def parse() -> None:
            for code in codes:
                parse_quietly(code)

        return _best(parse)


def seconds_of_a_run() -> float:
    """What is added to a cell that mentions five of 300 variables."""
    shell: Any = InteractiveShell()
    shell.run_cell("\n".join(f"name_{number} = list(range({number}))" for number in range(300)))
    code = "name_1.append(len(name_2) + len(name_3) + len(name_4) + len(name_5))"

    def run() -> float:
        return _cpu(lambda: shell.run_cell(code, store_history=True))

    plain = min(run() for _ in range(50))

    def namespace() -> dict[str, object]:
        return {name: value for name, value in shell.user_ns.items() if name.startswith("name")}

    log = ExecutionLog(shell, namespace)
    looked = min(run() for _ in range(50))
    log.close()
    return max(0.0, looked - plain)


def _forget() -> None:
    cell_names.cache_clear()
    code_shape.cache_clear()


def _best(do: Callable[[], object], before: Callable[[], None] = lambda: None) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        before()
        times.append(_cpu(do))
    return min(times)


def _cpu(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def main() -> int:
    """Print the table; 1 when an aim is missed."""
    pandas, dense = Notebook(pandas_cells(), 1), Notebook(dense_cells(), 2)
    rows = (
        ("S1 one run since the last look", Notebook.seconds_after_one_run, True),
        ("S2 first look, the kernel rested before", Notebook.seconds_at_first, True),
        ("S3 opened, nothing of it run", Notebook.seconds_never_run, True),
        ("S4 reading while it rests, the longest slice", Notebook.seconds_held, True),
        ("S5 reading, all of it", Notebook.seconds_of_reading, False),
        ("S6 CPython's parser alone", Notebook.seconds_of_the_parser, False),
    )
    found: list[Row] = []
    print(f"{CELLS:,} cells: with pandas, run once / dense, run twice; CPU")
    for name, measure, has_aim in rows:
        times = [measure(pandas), measure(dense)]
        found.append(Row(f"{name}, the worse", max(times) * 1_000, AIM * 1_000 if has_aim else None, "ms of CPU"))
        print(f"{name:48} {' / '.join(f'{one * 1_000:5.1f}' for one in times)} ms")
    print(f"{'S7 added to one run of a cell':48} {seconds_of_a_run() * 1_000:5.2f} ms")
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
