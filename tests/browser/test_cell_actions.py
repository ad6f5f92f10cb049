"""The agent where the work is: below errors and answers, over a cell, in the menus of cells."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.notebook_page import PROMPT, open_prompt
from tests.browser.test_accessibility import violations
from vibe_jupyter.protocol import CellOrigin, source_hash
from vibe_jupyter.testing import ScriptedModel, answer, call, say, status

pytestmark = pytest.mark.browser

SET_UP, FAILS = 0, 1
ERROR = "rows = {'a': 1}\nrows['b']"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def open_with_error(lab: Lab, model: ScriptedModel) -> None:
    """A notebook whose second cell failed, in a kernel that has no `%vibe` yet."""
    lab.open(f"import os\nos.environ['VIBE_ACTIVE_MODEL'] = 'scripted@{model.url}'", ERROR)
    lab.run(SET_UP, FAILS)
    lab.wait_for_count_above(FAILS, None)


def action(lab: Lab, position: int, name: str) -> Locator:
    """A button around a cell."""
    return lab.cell(position).get_by_role("button", name=name)


def prompt(model: ScriptedModel) -> str:
    """The last prompt that the model got."""
    return model.requests[-1].last_user_text


def answered(lab: Lab, position: int, text: str) -> None:
    """Wait for the end of the run of a cell: until then a live view may stand beside the kept one."""
    lab.wait_for_count_above(position, None)
    expect(lab.output(position).get_by_text(text)).to_be_visible()


def test_an_error_is_fixed_with_one_click_and_the_conversation_goes_on_below_it(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(say("It is called a."), say("Because it was renamed."), status(400), say("Here again."))
    open_with_error(lab, model)
    action(lab, FAILS, "Fix with Vibe").click()
    answered(lab, 2, "It is called a.")
    assert prompt(model).endswith("Fix @[2], the cell above: find out why it fails, change it there, and run it again.")
    box = lab.cell(2).get_by_role("textbox", name="Ask a follow-up…")
    action(lab, 2, "Copy answer").click()
    expect(action(lab, 2, "Copied")).to_be_visible()
    box.press("ControlOrMeta+v")
    expect(box).to_have_value("It is called a.")
    box.fill("Why?")
    box.press("Enter")
    box.type("In one sentence.")
    box.press("Shift+Enter")
    answered(lab, 3, "Because it was renamed.")
    assert prompt(model).endswith("Why?\nIn one sentence.")
    expect(box).to_be_hidden()
    expect(action(lab, 2, "More")).to_be_hidden()
    action(lab, 3, "More").click()
    lab.page.get_by_role("menuitem", name="Show What Was Sent").click()
    expect(lab.output(4)).to_contain_text("tokens")
    lab.cell(3).get_by_role("textbox", name="Ask a follow-up…").fill("More")
    action(lab, 3, "Send").click()
    action(lab, 4, "Try again").click()
    answered(lab, 4, "Here again.")
    expect(action(lab, 4, "Try again")).to_be_hidden()


@pytest.mark.matrix
def test_a_cell_is_asked_about_from_its_menus_and_its_shortcut(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(say("Edited."), say("Explained."))
    open_with_error(lab, model)
    lab.cell(FAILS).locator(".cm-content").click()
    lab.page.keyboard.press("ControlOrMeta+k")
    line = lab.cell(FAILS).get_by_role("textbox", name="What should change?")
    expect(line).to_have_value("Fix this error")
    line.press("Escape")
    expect(line).to_be_hidden()
    lab.page.keyboard.press("ControlOrMeta+k")
    line.fill("use get")
    line.press("Enter")
    answered(lab, 2, "Edited.")
    assert prompt(model).endswith("Edit @[2], the cell above: use get")

    lab.cell(FAILS).locator(".jp-InputPrompt").click(button="right")
    entries = lab.page.locator(".lm-Menu-itemLabel")
    for name in ("Fix with Vibe", "Edit Cell with Vibe…", "Add Tests with Vibe", "Document Cell with Vibe"):
        expect(entries.get_by_text(name, exact=True)).to_be_visible()
    entries.get_by_text("Ask Vibe About This Output…").click()
    expect(lab.cell(2).locator(".cm-content")).to_contain_text("About the output of @[2]")
    expect(lab.cell(2).locator(".cm-content")).to_be_focused()

    lab.cell(FAILS).locator(".jp-InputPrompt").click()
    lab.cell(FAILS).locator("[data-command='vibe-jupyter:cell-menu']").click()
    entries.get_by_text("Explain Cell").click()
    answered(lab, 2, "Explained.")
    assert prompt(model).endswith("Explain @[2], the cell above.")


def test_code_that_ran_becomes_a_cell_while_the_run_goes_on_and_when_it_is_over(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    book = open_prompt(lab, model, "below = 1", options="--yes=run_code")
    model.will_reply(
        call("run_code", code="total = 0\nfor n in range(3):\n    total += n", keep=True, reason="the sum"),
        call("run_code", code="print('\u202e')", keep=True, reason="a hidden mark"),
        answer("It is 3", [], hold=go_on),
    )
    book.run(0, PROMPT)
    expect(book.view).to_contain_text("It is 3")
    keep = book.cell(PROMPT).get_by_role("button", name="Keep this code as a cell")
    kept = book.cell(PROMPT).get_by_role("button", name="Kept as a cell below")
    expect(keep).to_have_count(0)
    book.view.get_by_text("the sum").click()
    book.view.get_by_text("a hidden mark").click()
    expect(keep).to_have_count(1)
    pictures(lab, book.output(PROMPT), "keep-code-live", ".vibe-run-host")
    keep.press("Enter")
    expect(kept).to_be_disabled()
    code = "total = 0\nfor n in range(3):\n    total += n"
    assert book.sources()[PROMPT + 1 :] == [code, "below = 1"]
    assert book.counts()[PROMPT + 1] is None

    go_on.set()
    book.over()
    book.output(PROMPT).get_by_text("2 steps").click()
    for reason in ("the sum", "a hidden mark"):
        book.output(PROMPT).get_by_text(reason).click()
    expect(keep).to_have_count(1)
    pictures(lab, book.output(PROMPT), "keep-code-kept", ":is(.jp-Cell-outputWrapper, .vibe-under-output):has(button)")
    keep.click()
    expect(kept).to_be_disabled()
    assert book.sources()[PROMPT + 1 :] == [code, code, "below = 1"]
    marks = [book.call(f"panel => panel.content.model.cells.get({PROMPT + n}).getMetadata('vibe')") for n in (1, 2)]
    for mark in marks:  # of the one that was kept in mid-run as well
        origin = CellOrigin.model_validate(mark)
        assert origin.model == f"scripted@{model.url.split('/')[2]}"
        assert (origin.run, origin.prompt) == (1, book.ids[PROMPT])
        assert (origin.approved.by, origin.source) == ("user", source_hash(code))
    book.wait(f"panel => panel.content.activeCellIndex === {PROMPT + 1}")


def pictures(lab: Lab, place: Locator, name: str, looked_at: str) -> None:
    """Light and dark, without any finding of axe."""
    for theme in ("light", "dark"):
        lab.theme(theme)
        lab.picture(place, f"{name}-{theme}")
        assert violations(lab.page, looked_at) == {}
    lab.theme("light")
