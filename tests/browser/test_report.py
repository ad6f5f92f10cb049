"""`%vibe report`: a methods section of an analysis, in a Markdown cell with links to its cells."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.notebook_page import NotebookPage, open_prompt
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.browser

PROMPT, READ = 1, 2
MAKE = """# Load the sales of the year
from pathlib import Path
import pandas as pd
Path("sales.csv").write_text("shop,amount\\n" + "\\n".join(f"{n % 7},{n if n % 30 else ''}" for n in range(344)))
sales = pd.read_csv("sales.csv")"""
STEPS = (
    "# Drop sales without an amount\nclean = sales.dropna()",
    "large = clean[clean.amount > 100]\nprint(len(large), 'rows of large sales')",
    "shops = pd.DataFrame({'shop': [0, 1, 2, 3, 4], 'town': ['Ulm', 'Bonn', 'Jena', 'Kiel', 'Trier']})",
    "joined = large.merge(shops, on='shop')",
    "# Sales by town\ntotals = joined.groupby('town').amount.sum().reset_index()\ntotals",
)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


def analysis(lab: Lab, model: ScriptedModel) -> NotebookPage:
    """A cell of the user's that reads a file, and five of an agent's."""
    book = open_prompt(lab, model, MAKE, options="--yes=insert_cell,run_cells")
    book.run(0)
    book.over(0)
    model.will_reply(
        call("insert_cell", source=STEPS[0], after="end", run=True),
        *(call("insert_cell", source=step, after="end", run=True) for step in STEPS[1:]),
        say("The totals by town are in the last cell."),
    )
    book.run(READ)
    book.over(READ)
    book.run(PROMPT)
    book.over(PROMPT)
    return book


@pytest.mark.matrix
def test_a_report_is_a_markdown_cell_that_a_reviewer_can_follow(lab: Lab, model: ScriptedModel) -> None:
    book = analysis(lab, model)
    last = len(book.cells()) - 1
    lab.write(last - 1, "joined = large.merge(shops, on='shop', how='inner')")
    book.front(last)
    book.command("notebook:insert-cell-below")
    lab.write(last + 1, "%vibe report")
    book.ids = [cell["id"] for cell in book.cells()]
    book.run(last + 1)
    book.over(last + 1)
    book.wait(f"panel => panel.content.widgets.length === {last + 3}")
    report = book.cell(last + 2)
    expect(report.get_by_role("heading", name="Methods")).to_be_visible()
    lab.pictures(report, "report")
    text = book.sources()[last + 2]
    assert re.search(r"- `sales.csv` \([\d.]+ kB, SHA-256 `[0-9a-f]{16}…`\), read in \[", text)
    assert re.search(r"\| `clean` of `sales` \| 344 \| 332 \| dropna \| \*\*not reported\*\* \|", text)
    assert re.search(r"\| `large` of `clean` \| 332 \| \d+ \| boolean filter \| reported \|", text)
    assert "5 of 6 code cells were written or changed by an agent" in text
    assert re.search(r"scripted at 127\.0\.0\.1:\d+, on [\d-]+, allowed in advance \(`--yes`\)", text)
    assert "Changed by hand after the agent: [" in text

    report.get_by_role("link").first.click()
    book.wait(f"panel => panel.content.activeCellIndex === {READ}")
    book.run(last + 1)
    book.over(last + 1)
    assert len(book.cells()) == last + 3
