"""Rows that a step loses are told: to the model in its result, to the user in the step's line."""

import time
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.notebook.test_agent import ClickedPage
from vibe_jupyter.context.executions import RowChange, RowLedger
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

    def changes(self, code: str) -> list[tuple[str, str]]:
        self.shell.run_cell(code)
        return [(one.kind, one.words) for one in self.ledger.steps[-1].changes]


@pytest.fixture(scope="module")
def shell() -> Iterator[LedgerShell]:
    made = LedgerShell()
    yield made
    made.ledger.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("clean = sales.dropna()", [("lost", "clean (of sales): 100 → 75 rows (−25 %), dropna")]),
        ("a = sales[sales.amount > 49].drop_duplicates('shop')",
         [("lost", "a (of sales): 100 → 4 rows (−96 %), boolean filter, drop_duplicates")]),
        ("b = sales.copy()\nb = b.query('amount < 99')\nb = b.dropna()",
         [("lost", "b (of sales): 100 → 75 rows (−25 %), query, dropna")]),
        ("c = sales.merge(shops, on='shop')", [("lost", "c (of sales): 100 → 75 rows (−25 %), merge (inner)")]),
        ("d = pd.merge(sales, shops, on='shop', how='left')",
         [("added", "d (of sales): 100 → 125 rows (+25 %), merge (left), keys match several rows")]),
        ("e = sales.head(5)", [("taken", "e (of sales): 100 → 5 rows (−95 %), head")]),
        ("f = sales.groupby('shop').amount.sum().reset_index()",
         [("reshaped", "f (of sales): 100 → 3 rows (−97 %), groupby, sum")]),
        ("g = pd.concat([sales, shops])", [("same", "g (of sales): 103 → 103 rows (+0.0 %), concat")]),
        ("h = sales[['shop']]\nh['twice'] = 2", [("same", "h (of sales): 100 → 100 rows (+0.0 %)")]),
        ("i = sales.iloc[10:20]", [("taken", "i (of sales): 100 → 10 rows (−90 %), slice")]),
        ("def two(all):\n    return all[:2]\nj = two(sales)", [("taken", "j (of sales): 100 → 2 rows (−98 %), two")]),
        ("k = 1 + 1\nfor one in [sales]:\n    pass", []),
        ("%%time\nl = sales.dropna()", [("lost", "l (of sales): 100 → 75 rows (−25 %), dropna")]),
        ("m = sales.dropna(\n", []),
    ],
)  # fmt: skip
def test_what_became_of_the_rows_of_each_frame_is_told_by_the_operations_that_did_it(
    shell: LedgerShell, code: str, expected: list[tuple[str, str]]
) -> None:
    assert shell.changes(code) == expected


def test_a_frame_that_is_cut_in_place_or_bound_again_lost_rows(shell: LedgerShell) -> None:
    shell.changes("import warnings\nwarnings.filterwarnings('ignore')\nn = sales.copy()\no = sales.copy()")
    assert shell.changes("n = n.loc[n.shop == 1]") == [("lost", "n: 100 → 25 rows (−75 %), boolean filter")]
    assert shell.changes("if True:\n    o.drop(index=[0], inplace=True)") == [("lost", "o: 100 → 99 rows (−1 %), drop")]


def test_frames_of_polars_are_counted_too(shell: LedgerShell) -> None:
    shell.changes("import polars as pl\np = pl.DataFrame({'x': [1, None, 3]})")
    assert shell.changes("q = p.filter(pl.col('x') > 1)") == [("lost", "q (of p): 3 → 1 rows (−67 %), filter")]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "(12333, 8)",
            "12,333 rows",
            "12333",
            "[12333 rows x 8 columns]",
            "count  12333.000000  12333.0",
            "12_333 left",
        ),
        *(
            "I dropped 11 rows.",
            "11",
            "x\n 11 \ny",
            "removed: 11",
            "There were 11 records without a price",
            "12344 - 11",
        ),
        *("Es fehlen 11 Zeilen", "after dropna 12333", "{'n': 12333, 'mean': 3.5}", "12,344 to 11 fewer", "mean 12333"),
    ],
)
def test_a_text_tells_a_loss_by_the_rows_that_are_left_or_those_that_are_gone(text: str) -> None:
    assert RowChange("clean", "sales", 12_344, 12_333, ("dropna",)).is_told(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "cleaned it",
            "11 columns left",
            "dropped the 11 columns",
            "11 % of the rows",
            "11.5 rows a day",
            "2026-01-11",
        ),
        *(
            "rows of 11:30",
            "mean 11",
            "price 11, city 4",
            "    11  A  2.5",
            "version 3.11",
            "row_11 was kept",
            "x11 rows",
        ),
        *("took 11 s after all", "rows 11,5", "rows -11", "12,344 rows", "1,112 rows", "12333.5 rows", "112333 rows"),
    ],
)
def test_a_number_that_counts_something_else_tells_no_loss(text: str) -> None:
    assert not RowChange("clean", "sales", 12_344, 12_333, ("dropna",)).is_told(text)


def test_few_rows_that_are_left_are_told_in_a_shape_a_table_or_words() -> None:
    lost = RowChange("clean", "sales", 40, 7, ("query",))
    texts = (
        "(7, 3)",
        "[7 rows x 3 columns]",
        "40 -> 7",
        "40 7",
        "7 observations remain",
        "7 shops",
        "(2, 7)",
        "week 7: 33 sold",
    )
    assert [lost.is_told(text) for text in texts] == [*[True] * 5, *[False] * 3]


def test_looking_costs_no_walk_through_the_data(shell: LedgerShell) -> None:
    shell.changes("import numpy as np\nbig = pd.DataFrame({'x': np.zeros(20_000_000)})\nhalf = big.head(10_000_000)")
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
    assert "rows changed: joined (of clean): 75 → 75" not in both
