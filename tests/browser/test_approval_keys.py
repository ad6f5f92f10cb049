"""Approvals by keyboard alone: from Shift-Enter to the card, through several cards, and back to where the user was."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.arming import READ
from tests.browser.lab import Lab
from tests.browser.ready import wait_until
from tests.tiers import further
from vibe_jupyter.testing import ScriptedModel, answer, call

pytestmark = pytest.mark.browser

LOAD, VIBE = 0, 1
FOCUSED = "() => document.activeElement?.shadowRoot?.activeElement?.closest('.vibe-card')?.dataset.vibeApproval ?? null"
PART = "() => document.activeElement?.shadowRoot?.activeElement?.dataset.part ?? null"
NOTIFY = """() => {
    window.shown = [];
    window.Notification = class extends EventTarget {
        static permission = "granted";
        constructor(title, { body }) { super(); window.shown.push([title, body]); }
        close() {}
    };
}"""
HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""

COLLAPSE_OUTPUT = "() => { window.jupyterapp.shell.currentWidget.content.widgets[1].outputHidden = true; }"
ADD_HEADING = """() => {
  const { content } = window.jupyterapp.shell.currentWidget;
  content.model.sharedModel.insertCell(0, { cell_type: "markdown", source: "# Part" });
}"""
HAS_HEADING = "() => window.jupyterapp.shell.currentWidget.content.widgets[0].headingInfo?.level === 1"
COLLAPSE_HEADINGS = "() => window.jupyterapp.commands.execute('notebook:collapse-all-headings')"
RENAME = "async title => { document.title = title; await null; return document.title; }"
"""Writes another title, as JupyterLab does when it saves a notebook; what it is as soon as all have heard of it."""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


def begin(lab: Lab, model: ScriptedModel) -> Locator:
    """Run the prompt with Shift-Enter; returns the view."""
    lab.open_again("%load_ext vibe_jupyter", f"%%vibe --model scripted@{model.url}\nCount.")
    lab.run(LOAD)
    lab.wait_for_count_above(LOAD, None)
    lab.cell(VIBE).locator(".cm-content").click()
    lab.page.keyboard.press("Shift+Enter")
    return lab.output(VIBE).locator(".vibe-run")


def press_when_ready(page: Page, card: Locator, key: str) -> None:
    card.evaluate(READ)
    expect(card).to_have_attribute("data-readiness", "armed")
    page.keyboard.press(key)


def test_two_cards_are_answered_by_keyboard_alone_and_the_focus_comes_back(lab: Lab, model: ScriptedModel) -> None:
    first, second = (call("run_code", code=f"x{number} = {number}") for number in (1, 2))
    model.will_reply(answer(calls=[first]), answer(calls=[second]), "Done.")
    view, page = begin(lab, model), lab.page
    chip = page.locator(".vibe-approval-chip")
    card = view.locator("[data-vibe-approval]:not([data-sent])")
    expect(chip).to_be_visible()
    tabs = page.locator(".vibe-tab-waiting")  # of the notebook, and of the side panel
    expect(tabs).to_have_count(2)
    assert page.evaluate(FOCUSED) is None

    page.keyboard.press("F8")
    assert page.evaluate(FOCUSED) == card.get_attribute("data-vibe-approval")
    press_when_ready(page, card, "Enter")
    expect(card.locator("code")).to_contain_text("x2 = 2")
    page.evaluate("() => document.activeElement.blur()")  # nothing has the focus, as after a click beside all cells
    page.keyboard.press("F8")
    assert page.evaluate(FOCUSED) == card.get_attribute("data-vibe-approval")
    page.keyboard.press("Escape")
    page.keyboard.type("enough")
    page.keyboard.press("Enter")

    lab.wait_for_count_above(VIBE, None)
    expect(chip).to_be_hidden()
    expect(tabs).to_have_count(0)
    assert page.evaluate("() => document.activeElement.closest('.jp-Notebook') !== null")
    assert "enough" in model.requests[2].tool_results[-1]


@pytest.mark.requirement("ui.approval.focus-stays")
@pytest.mark.parametrize("leaves", [False, further(True)])
def test_after_a_decision_by_key_the_focus_stays_with_the_run_until_the_next_card_or_escape(
    lab: Lab, model: ScriptedModel, leaves: bool
) -> None:
    go_on = threading.Event()
    first, second = (call("run_code", code=f"x{number} = {number}") for number in (1, 2))
    model.will_reply(answer(calls=[first]), answer("Next", hold=go_on, calls=[second]), "Done.")
    view, page = begin(lab, model), lab.page
    card = view.locator("[data-vibe-approval]:not([data-sent])")
    expect(card).to_be_visible()
    page.keyboard.press("F8")
    press_when_ready(page, card, "Enter")
    wait_until(page, f"() => ({PART})() === 'foot'")
    for key in ("Enter", "x", "d", "d"):
        page.keyboard.press(key)
    lab.pictures(lab.cell(VIBE), "u6-focus-stays")
    if leaves:
        page.keyboard.press("Escape")
        wait_until(page, "() => document.activeElement.closest('.jp-Notebook') !== null")
        assert page.evaluate(PART) is None
    go_on.set()
    expect(card.locator("code")).to_contain_text("x2 = 2")
    if leaves:
        assert page.evaluate(FOCUSED) is None
        page.keyboard.press("F8")
    wait_until(page, f"id => ({FOCUSED})() === id", arg=card.get_attribute("data-vibe-approval"))
    press_when_ready(page, card, "Enter")
    lab.wait_for_count_above(VIBE, None)
    wait_until(page, "() => document.activeElement.closest('.jp-Notebook') !== null")
    sources = page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.map(one => one.source)"
    )
    assert ["".join(source).splitlines()[-1:] for source in sources[VIBE:]] == [["Count."], []], "no key reached a cell"


def test_f8_and_shift_f8_go_round_all_cards_and_a_decision_leads_to_the_next(lab: Lab, model: ScriptedModel) -> None:
    calls = [call("task", agent="reviewer", task=f"look {number}") for number in (1, 2)]
    model.will_reply(answer(calls=calls), "Done.")
    view, page = begin(lab, model), lab.page
    cards = view.locator("[data-vibe-approval]")
    expect(cards).to_have_count(2)
    first, second = (cards.nth(number).get_attribute("data-vibe-approval") for number in (0, 1))

    seen: list[str | None] = []
    for key in ("F8", "F8", "F8", "Shift+F8"):
        page.keyboard.press(key)
        seen.append(page.evaluate(FOCUSED))
    assert seen == [first, second, first, second]
    page.keyboard.press("Shift+F8")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    assert page.evaluate(FOCUSED) == second
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    lab.wait_for_count_above(VIBE, None)


@pytest.mark.parametrize("hidden_by", ["its output", further("a heading")])
def test_the_mark_in_the_toolbar_shows_a_card_again_that_is_collapsed(
    lab: Lab, model: ScriptedModel, hidden_by: str
) -> None:
    model.will_reply(answer(calls=[call("run_code", code="x = 1", keep=True)]))
    view, page = begin(lab, model), lab.page
    card = page.locator("[data-vibe-approval]")
    expect(view.locator("[data-vibe-approval]")).to_be_visible()
    if hidden_by == "its output":
        page.evaluate(COLLAPSE_OUTPUT)
    else:
        page.evaluate(ADD_HEADING)
        wait_until(page, HAS_HEADING)
        page.evaluate(COLLAPSE_HEADINGS)
    expect(card.filter(visible=True)).to_have_count(0)
    expect(page.locator(".vibe-approval-chip")).to_have_text("Vibe needs your approvalF8")
    page.locator(".vibe-approval-chip").click()
    expect(card).to_be_visible()
    wait_until(page, f"() => ({FOCUSED})() !== null")
    lab.interrupt()
    lab.wait_until_idle()


@pytest.mark.matrix
def test_a_card_that_waits_while_the_page_is_hidden_is_notified_once(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(answer(calls=[call("run_code", code="x = 1")]), "Done.")
    view = begin(lab, model)
    expect(view.locator("[data-vibe-approval]")).to_be_visible()
    lab.page.evaluate(NOTIFY)
    lab.page.evaluate(HIDE, True)
    wait_until(lab.page, "() => window.shown.length === 1")
    ((title, body),) = lab.page.evaluate("() => window.shown")
    assert title == "Vibe needs your approval"
    assert body.startswith("Approval: Run code · ")
    lab.page.evaluate("() => { window.Notification.permission = 'denied'; }")
    lab.page.evaluate(HIDE, False)
    lab.page.evaluate(HIDE, True)
    assert lab.page.evaluate("() => document.title").startswith("● (1) ")
    assert lab.page.evaluate(RENAME, "saved.ipynb") == "● (1) saved.ipynb"
    lab.page.evaluate(HIDE, False)
    assert not lab.page.evaluate("() => document.title").startswith("●")
    lab.page.keyboard.press("F8")
    lab.page.keyboard.press("Escape")
    lab.page.keyboard.press("Enter")
    lab.wait_for_count_above(VIBE, None)
