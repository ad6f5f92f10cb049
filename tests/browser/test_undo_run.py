"""What a run changed, below its answer: links to the cells, and one button that takes all of it back."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.contrasts import CONTRASTS
from tests.browser.lab import Lab
from tests.browser.notebook_page import NotebookPage, open_prompt
from tests.browser.test_accessibility import MIN_CONTRAST, violations
from tests.browser.test_change_banners import change_three_cells
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.browser

PROMPT, FIRST, SECOND = 1, 2, 3


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture
def book(lab: Lab, model: ScriptedModel) -> NotebookPage:
    """A notebook in which a run has edited two cells and added one below them."""
    book = open_prompt(lab, model, "a = 1", "b = 2", options="--yes=edit_cell,insert_cell")
    book.run(0)
    book.over(0)
    change_three_cells(book, model)
    return book


def test_all_that_a_run_changed_is_undone_at_once_after_what_would_be_lost_was_named(book: NotebookPage) -> None:
    lab, page = book.lab, book.page
    undo = book.cell(PROMPT).get_by_role("button", name="Undo all…")
    changed = book.sources()
    book.lab.write(SECOND, "b = 21")
    for theme in ("light", "dark"):
        lab.theme(theme)
        lab.picture(book.cell(PROMPT), f"undo-run-{theme}")
        assert violations(page, ":is(.vibe-under-output, .vibe-run-line)") == {}
        undo.click()
        dialog = page.locator(".vibe-undo-plan")
        expect(dialog).to_have_text(
            "Changed since the run; these changes would be lostcell 4Will restorecell 5 (removed)cell 3cell 4"
        )
        lab.picture(page.locator(".jp-Dialog-content"), f"undo-run-plan-{theme}")
        contrasts: dict[str, float] = dialog.evaluate(CONTRASTS)
        assert min(contrasts.values()) >= MIN_CONTRAST
        page.get_by_role("button", name="Cancel").click()
        expect(dialog).to_be_hidden()
    lab.theme("light")
    assert book.sources() == [*changed[:SECOND], "b = 21", *changed[SECOND + 1 :]]

    undo.click()
    page.get_by_role("dialog").get_by_role("button", name="Undo all").click()
    expect(book.cell(PROMPT).get_by_role("status")).to_contain_text("Undone: cell 5 (removed), cell 3, cell 4.")
    expect(undo).to_be_hidden()
    assert book.sources()[FIRST:] == ["a = 1", "b = 2"]


@pytest.mark.matrix
def test_what_undo_said_and_a_prompt_that_is_typed_stay_when_no_change_is_left(lab: Lab, model: ScriptedModel) -> None:
    book = open_prompt(lab, model, "a = 1", options="--yes=insert_cell")
    model.will_reply(call("insert_cell", source="b = 2"), say("Added."))
    book.run(0, PROMPT)
    book.over()
    line = book.cell(PROMPT)
    line.get_by_role("textbox").last.fill("and then")
    line.get_by_role("button", name="Undo all…").click()
    book.page.get_by_role("dialog").get_by_role("button", name="Undo all").click()
    expect(book.page.locator(".vibe-change")).to_have_count(0)
    expect(line.get_by_role("status")).to_contain_text("Undone: cell 3 (removed).")
    expect(line.get_by_role("button", name="Undo all…")).to_be_hidden()
    expect(line.get_by_role("button", name="Review")).to_be_hidden()
    expect(line.get_by_role("textbox").last).to_have_value("and then")


@pytest.mark.matrix
def test_review_goes_to_the_first_changed_cell_as_long_as_there_is_one_to_decide_on(book: NotebookPage) -> None:
    review = book.cell(PROMPT).get_by_role("button", name="Review")
    review.click()
    book.wait(f"panel => panel.content.activeCellIndex === {FIRST}")
    first = book.cell(FIRST).locator(".vibe-change")
    expect(first.get_by_role("button", name="Next change")).to_be_focused()
    for position in (FIRST, SECOND):
        book.cell(position).locator(".vibe-change").get_by_role("button", name="Keep").click()
    review.press("Enter")
    expect(book.cell(SECOND + 1).locator(".vibe-change").get_by_role("button", name="Keep")).to_be_focused()
    book.page.keyboard.press("Enter")
    expect(review).to_be_hidden()
    expect(book.cell(PROMPT).get_by_role("button", name="Undo all…")).to_be_visible()


@pytest.mark.matrix
def test_a_run_of_another_conversation_is_not_undone_and_says_how_it_can_be(book: NotebookPage) -> None:
    book.lab.write(0, "%vibe reset")
    book.run(0)
    book.over(0)
    changed = book.sources()
    undo = book.cell(PROMPT).get_by_role("button", name="Undo all…")
    undo.click()
    expect(book.cell(PROMPT).get_by_role("status")).to_contain_text("another conversation. %vibe resume")
    assert book.sources() == changed


@pytest.mark.matrix
def test_the_links_to_changed_cells_go_there_and_have_the_names_the_cells_have_now(book: NotebookPage) -> None:
    page = book.page
    links = book.output(PROMPT).locator("a")
    expect(links).to_have_text(["cell 3", "cell 4", "cell 5"])
    links.nth(1).click()
    book.wait(f"panel => panel.content.activeCellIndex === {SECOND}")
    expect(book.cell(SECOND)).to_be_in_viewport()
    book.front(0)
    book.command("notebook:insert-cell-above")
    links = book.output(PROMPT + 1).locator("a")
    expect(links).to_have_text(["cell 4", "cell 5", "cell 6"])
    book.run(FIRST + 1)
    expect(links.first).to_have_text("[3]")
    assert "#cell-id=" not in page.url
