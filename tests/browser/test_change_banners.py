"""A thin line over each cell that a run changed: keep it, undo it, go to the next."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.contrasts import CONTRASTS
from tests.browser.lab import Lab
from tests.browser.notebook_page import NotebookPage, open_prompt
from tests.browser.test_accessibility import MIN_CONTRAST, violations
from vibe_jupyter.testing import ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser

PROMPT, FIRST, SECOND, ADDED = 1, 2, 3, 4


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


def change_three_cells(book: NotebookPage, model: ScriptedModel) -> None:
    """A run that edits two cells and adds one below them."""
    first, second = book.ids[FIRST], book.ids[SECOND]
    model.will_reply(
        call("read_notebook"),
        answer(
            calls=[
                call("edit_cell", cell=first, source="a = 10\nprint(a)"),
                call("edit_cell", cell=second, source="b = 20"),
                call("insert_cell", after=second, source="c = 30"),
            ]
        ),
        say("All three are there."),
    )
    book.run(PROMPT)
    book.over(PROMPT)


def banner(book: NotebookPage, position: int) -> Locator:
    return book.cell(position).locator(".vibe-change")


def test_each_changed_cell_can_be_kept_undone_and_gone_to_until_the_next_prompt(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, "a = 1", "b = 2", options="--yes=edit_cell,insert_cell")
    book.run(0)
    book.over(0)
    change_three_cells(book, model)
    expect(banner(book, FIRST)).to_have_attribute("aria-label", "Changed by Vibe, 1 of 3")
    expect(banner(book, FIRST)).to_contain_text("+2 −1")
    expect(banner(book, ADDED)).to_contain_text("Added by Vibe")
    for theme in ("light", "dark"):
        lab.theme(theme)
        lab.picture(book.page.locator(".jp-Notebook"), f"change-banners-{theme}")
        assert violations(book.page, ".vibe-change") == {}
        contrasts: dict[str, float] = banner(book, FIRST).evaluate(CONTRASTS)
        assert min(contrasts.values()) >= MIN_CONTRAST
    lab.theme("light")

    banner(book, FIRST).get_by_role("button", name="Next change").press("Enter")
    next_of_second = banner(book, SECOND).get_by_role("button", name="Next change")
    expect(next_of_second).to_be_focused()
    banner(book, SECOND).get_by_role("button", name="Undo").click()
    expect(banner(book, SECOND)).to_be_hidden()
    assert book.sources()[SECOND] == "b = 2"
    assert book.sources()[FIRST] == "a = 10\nprint(a)"
    banner(book, ADDED).get_by_role("button", name="Remove").click()
    book.wait("panel => panel.content.widgets.length === 4")
    banner(book, FIRST).get_by_role("button", name="Keep").click()
    expect(book.page.locator(".vibe-change")).to_have_count(0)
    assert book.sources()[FIRST] == "a = 10\nprint(a)"

    lab.write(FIRST, "a = 1")
    lab.write(SECOND, "b = 2")
    change_three_cells(book, model)
    expect(book.page.locator(".vibe-change")).to_have_count(3)
    lab.write(SECOND, "b = 21")
    expect(book.page.locator(".vibe-change")).to_have_count(2)
    model.will_reply(say("Nothing to do."))
    book.run(PROMPT)
    expect(book.page.locator(".vibe-change")).to_have_count(0)
    book.over(PROMPT)


@pytest.mark.matrix
def test_a_changed_cell_shows_which_lines_are_new_and_which_are_gone(lab: Lab, model: ScriptedModel) -> None:
    before, after = "import numpy\na = 1\nprint(a)", "a = 10\nprint(a)\nb = 2"
    book = open_prompt(lab, model, before, options="--yes=edit_cell")
    book.run(0)
    book.over(0)
    model.will_reply(call("read_notebook"), call("edit_cell", cell=book.ids[FIRST], source=after), say("Done so."))
    book.run(PROMPT)
    book.over(PROMPT)
    cell = book.cell(FIRST)
    expect(cell.locator(".vibe-added-line")).to_have_text(["a = 10", "b = 2"])
    expect(cell.locator(".vibe-ghost-lines > div")).to_have_text(["import numpy", "a = 1"])
    expect(cell.get_by_role("note", name="removed: import numpy")).to_be_visible()
    for theme in ("light", "dark"):
        lab.theme(theme)
        lab.picture(cell, f"changed-lines-{theme}")
        assert violations(book.page, ".vibe-ghost-lines") == {}
        for lines in cell.locator(".vibe-ghost-lines").all():
            contrasts: dict[str, float] = lines.evaluate(CONTRASTS)
            assert min(contrasts.values()) >= MIN_CONTRAST
    lab.theme("light")
    assert book.sources()[FIRST] == after
    cell.get_by_role("button", name="Keep").click()
    expect(cell.locator(".vibe-added-line, .vibe-ghost-lines, .vibe-compared")).to_have_count(0)
    assert book.sources()[FIRST] == after


@pytest.mark.matrix
def test_the_marks_of_a_change_go_when_the_cell_is_edited_by_hand(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, "a = 1", "b = 2", options="--yes=edit_cell,insert_cell")
    book.run(0)
    book.over(0)
    change_three_cells(book, model)
    expect(book.cell(FIRST).locator(".vibe-ghost-lines")).to_have_count(1)
    book.cell(FIRST).locator(".cm-line").last.click()
    book.page.keyboard.type("  # mine")
    expect(book.cell(FIRST).locator(".vibe-added-line, .vibe-ghost-lines")).to_have_count(0)
    assert book.sources()[FIRST].endswith("  # mine")
    expect(book.cell(ADDED).locator(".vibe-added-line")).to_have_count(1)


@pytest.mark.matrix
def test_what_undo_takes_back_is_no_cell_of_the_agents_any_more(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, "a = 1", "b = 2", options="--yes=edit_cell,insert_cell")
    book.run(0)
    book.over(0)
    change_three_cells(book, model)

    def marks() -> list[str | None]:
        """Of each cell, by whose rule it was written."""
        marks = "panel => panel.content.widgets.map(one => one.model.getMetadata('vibe')?.approved.rule ?? null)"
        return book.call(marks)

    assert marks() == [None, None, "--yes", "--yes", "--yes"]
    expect(banner(book, FIRST)).to_be_visible()
    banner(book, FIRST).get_by_role("button", name="Undo").click()
    assert book.sources()[FIRST] == "a = 1"
    book.front(SECOND)
    book.page.keyboard.press("Enter")
    book.page.keyboard.press("Control+z")
    book.wait(f"panel => panel.content.widgets[{SECOND}].model.sharedModel.getSource() === 'b = 2'")
    assert marks() == [None, None, None, None, "--yes"]
    book.page.keyboard.press("Control+Shift+z")
    book.wait(f"panel => panel.content.widgets[{SECOND}].model.sharedModel.getSource() === 'b = 20'")
    assert marks() == [None, None, None, "--yes", "--yes"]
