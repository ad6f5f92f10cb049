"""Rows that a step loses are told: to the model in its result, to the user in the step's line."""

import time
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.notebook.test_agent import ClickedPage
from vibe_jupyter.context.executions import RowLedger
from vibe_jupyter.testing import answer, call, say

SALES = """import pandas as pd
sales = pd.DataFrame({'shop': [1, 2, 3, None] * 25, 'amount': range(100)})
shops = pd.DataFrame({'shop': [1, 2, 2], 'town': ['Ulm', 'Bonn', 'Köln']})
"""


class LedgerShell:
    """IPython without a kernel, and what the ledger says of code that runs there."""

    def __init__(self) -> None:
        self.shell = InteractiveShell()
        self.ledger = RowLedger(self.shell, lambda: self.shell.user_ns)
        self.shell.run_cell(SALES)

    def losses(self, code: str) -> list[str]:
        self.shell.run_cell(code)
        return [one.words for one in self.ledger.steps[-1].losses]


@pytest.fixture(scope="module")
def shell() -> Iterator[LedgerShell]:
    made = LedgerShell()
    yield made
    made.ledger.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("clean = sales.dropna()", ["clean (of sales): 100 → 75 rows (−25 %), dropna"]),
        ("a = sales[sales.amount > 49].drop_duplicates('shop')",
         ["a (of sales): 100 → 4 rows (−96 %), boolean filter, drop_duplicates"]),
        ("b = sales.copy()\nb = b.query('amount < 99')\nb = b.dropna()",
         ["b (of sales): 100 → 75 rows (−25 %), query, dropna"]),
        ("c = sales.merge(shops, on='shop')", ["c (of sales): 100 → 75 rows (−25 %), merge (inner)"]),
        ("d = pd.concat([sales, shops]).dropna(subset=['shop'])",
         ["d (of sales): 103 → 78 rows (−24 %), concat, dropna"]),
        ("towns = shops.head(1)\nj = sales.merge(towns, on='shop')",
         ["j (of sales): 100 → 25 rows (−75 %), merge (inner)"]),
        ("%%time\nl = sales.dropna()", ["l (of sales): 100 → 75 rows (−25 %), dropna"]),
    ],
)  # fmt: skip
def test_a_join_and_a_cleaning_that_leave_out_rows_are_told_with_the_operations(
    shell: LedgerShell, code: str, expected: list[str]
) -> None:
    assert shell.losses(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        "few = sales.head(10)\nclean = few.dropna()",
        "few = sales.head(10)\nboth = few.merge(sales, on='amount')",
        "few = sales.head(10)\nboth = pd.concat([sales, few]).dropna()",
        "1 / 0\nclean = sales.dropna()",
        "if not len(sales):\n    clean = sales.dropna()",
    ],
)
def test_a_frame_left_by_an_earlier_cell_is_not_taken_for_one_of_this_cell(shell: LedgerShell, code: str) -> None:
    shell.losses("few = sales.copy()\nclean = sales.dropna()\nboth = sales.copy()")
    assert shell.losses(code) == []


@pytest.mark.parametrize(
    "code",
    [
        "pd.merge(sales, shops, on='shop', how='left')",
        "sales.head(5)",
        "sales[sales.amount > 49]",
        "sales.query('amount > 49')",
        "sales.iloc[10:20]",
        "sales.groupby('shop').amount.sum().reset_index()",
        "sales.dropna().groupby('shop').sum()",
        "pd.concat([sales, shops])",
        "sales[['shop']]",
        "(lambda all: all[:2])(sales)",
        "pd.DataFrame({'x': [1]})",
        "1 + 1\nfor one in [sales]:\n    pass",
        "sales.dropna(\n",
    ],
)
def test_a_part_under_a_new_name_and_what_loses_nothing_are_not_told(shell: LedgerShell, code: str) -> None:
    assert shell.losses(f"m = {code}") == []


def test_a_frame_that_is_cut_in_place_or_bound_again_lost_rows(shell: LedgerShell) -> None:
    shell.losses("import warnings\nwarnings.filterwarnings('ignore')\nn = sales.copy()\no = sales.copy()")
    assert shell.losses("n = n.loc[n.shop == 1]") == ["n: 100 → 25 rows (−75 %), boolean filter"]
    assert shell.losses("n = n.head(5)") == ["n: 25 → 5 rows (−80 %), head"]
    assert shell.losses("if True:\n    o.drop(index=[0], inplace=True)") == ["o: 100 → 99 rows (−1 %), drop"]


def test_frames_of_polars_are_counted_too(shell: LedgerShell) -> None:
    shell.losses("import polars as pl\np = pl.DataFrame({'x': [1, None, 3]})")
    assert shell.losses("q = p.drop_nulls()") == ["q (of p): 3 → 2 rows (−33 %), drop_nulls"]


def test_looking_costs_no_walk_through_the_data(shell: LedgerShell) -> None:
    shell.losses("import numpy as np\nbig = pd.DataFrame({'x': np.zeros(20_000_000)})\nhalf = big.head(10_000_000)")
    began = time.thread_time()
    for _ in range(20):
        shell.ledger._before(type("Info", (), {"raw_cell": "half = big[:10_000_000]"}))
    assert (time.thread_time() - began) / 20 < 0.005


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("rows")) as session:
        session.wire.run(SALES)
        yield session


@pytest.mark.xdist_group("rows")
def test_the_model_reads_in_the_result_which_rows_a_step_lost_and_the_user_in_its_line(shared_session: Session) -> None:
    page, model = ClickedPage(shared_session.wire), shared_session.model
    code = "kept = sales.dropna()"
    model.will_reply(
        call("insert_cell", source="clean = sales.dropna()", run=True),
        call("insert_cell", source="joined = clean.merge(shops, on='shop')"),
        call("run_code", code=code),
        call("run_code", code=code, keep=True),
        say("Clean."),
    )
    cell = page.run("%%vibe --yes=insert_cell,run_cells,run_code\nclean")
    assert cell.status == "ok"
    inserted, _, copied, kept = model.requests[-1].tool_results
    line = "rows lost: {} (of sales): 100 → 75 rows (−25 %), dropna"
    assert line.format("clean") in inserted
    assert line.format("kept") in copied
    assert line.format("kept") in kept
    (shown,) = (output["data"]["text/html"] for output in cell.outputs if "data" in output)
    assert "no output, rows lost: clean (of sales): 100 → 75 rows" in shown
    model.will_reply(
        call("read_notebook"),
        answer(calls=[call("run_cells", cells=[one.id for one in page.cells if one.source.startswith(("cl", "jo"))])]),
        say("Again."),
    )
    page.run("%%vibe --yes=run_cells\nagain")
    (both,) = model.requests[-1].tool_results[-1:]
    assert both.count("rows lost: ") == 1
