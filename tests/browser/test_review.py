"""Several changes of one answer on one card: boxes, folded diffs, and only what is checked is done."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.arming import press
from tests.browser.lab import Lab
from tests.browser.notebook_page import NotebookPage
from vibe_jupyter.testing import ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser

LOAD, VIBE, UNDO = 0, 1, 2


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


def test_only_the_checked_changes_are_made_and_undo_takes_them_back(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(
        answer(
            calls=[
                call("insert_cell", source="rows = 344\nrows"),
                call("insert_cell", source="# What was measured", cell_type="markdown"),
                call("write_file", path="clean.csv", content="a,b\n1,2\n"),
            ]
        ),
        say("Both cells are there."),
    )
    path = lab.open_again("%load_ext vibe_jupyter", f"%%vibe --model scripted@{model.url}\nClean it", "%vibe undo")
    notebook = NotebookPage(lab, path.name)
    lab.run(LOAD, VIBE)
    card = lab.output(VIBE).get_by_role("group", name="Review 3 changes")
    card.wait_for()
    lab.pictures(card, "review")

    rows = card.locator("details")
    assert [one.split("\n") for one in rows.locator("summary").all_inner_texts()] == [
        ["Insert a new cell below", "rows = 344", "+2 −0"],
        ["Insert a new cell below", "# What was measured", "+1 −0"],
        ["Write clean.csv", "a,b", "+2 −0", "8 bytes"],
    ]
    expect(card.locator("header")).to_contain_text("Changes your notebook · writes a file")
    expect(rows.first.locator(".vibe-code")).to_be_hidden()
    card.locator("summary").first.locator("b").click()
    expect(rows.first.locator(".vibe-code")).to_be_visible()
    accept = card.get_by_role("button", name="Accept all").first
    expect(accept).to_be_visible()
    card.get_by_role("checkbox", name="Accept: Write clean.csv").uncheck()
    press(card.get_by_role("button", name="Accept selected (2)"))
    lab.wait_for_count_above(VIBE, None)

    sources = notebook.sources()
    assert "rows = 344\nrows" in sources
    assert "# What was measured" in sources
    assert not (path.parent / "clean.csv").exists()
    results = model.requests[1].tool_results
    assert "The user denied this call" in results[2]

    lab.run(len(sources) - 1)
    lab.wait_for_count_above(UNDO, None)
    assert len(notebook.sources()) == 3
