"""Questions of the agent, answered in the page while the cell runs."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.arming import armed, press
from tests.browser.lab import Lab
from vibe_jupyter.testing import ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser

LOAD, VIBE = 0, 1
COLOUR: dict[str, object] = {
    "question": "Which colour shall the bars have?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "As in the paper"}, {"label": "Blue", "description": "For the web"}],
}
SIZES: dict[str, object] = {
    "question": "Which sizes do you need?",
    "header": "Sizes",
    "options": [{"label": "Small"}, {"label": "Medium"}, {"label": "Large"}],
    "multi_select": True,
}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that asks, then says what it was told."""
    with ScriptedModel() as scripted:
        yield scripted


def ask(lab: Lab, model: ScriptedModel, *questions: dict[str, object]) -> Locator:
    """Open a notebook whose agent asks these; returns the card."""
    model.will_reply(answer(calls=[call("ask_user_question", questions=list(questions))]), say("Thank you."))
    lab.open_again("%load_ext vibe_jupyter", f"%%vibe --model scripted@{model.url}\nPlot it")
    lab.run(LOAD, VIBE)
    card = lab.output(VIBE).get_by_role("group", name="Question")
    card.wait_for()
    return card


def told(lab: Lab, model: ScriptedModel) -> str:
    """What the model got to know."""
    lab.wait_for_count_above(VIBE, None)
    return str(model.requests[1].messages[-1]["content"])


@pytest.mark.requirement("ui.question.card", "tools.ask_user_question.args.other")
def test_several_questions_are_answered_behind_tabs(lab: Lab, model: ScriptedModel) -> None:
    card = ask(lab, model, COLOUR, SIZES)
    lab.pictures(card, "questions")
    expect(card.get_by_role("tab", name="Colour")).to_have_attribute("aria-selected", "true")
    expect(card.get_by_text("Which sizes do you need?")).to_be_hidden()
    card.get_by_role("radio", name="Blue").check()
    card.get_by_role("button", name="Next question").click()
    card.get_by_role("checkbox", name="Small").check()
    card.get_by_role("checkbox", name="Large").check()
    card.get_by_role("textbox").last.fill("and $XXL$")
    card.get_by_role("tab", name="Colour").click()
    expect(card.get_by_role("radio", name="Blue")).to_be_checked()
    card.get_by_role("tab", name="Sizes").click()
    press(card.get_by_role("button", name="Answer"))
    assert told(lab, model) == (
        "cancelled: false\nWhich colour shall the bars have? Blue\nWhich sizes do you need? Small, Large, and $XXL$"
    )
    (output,) = [output for output in lab.outputs(VIBE) if "text/html" in output.get("data", {})]
    kept = "".join(output["data"]["text/html"])
    assert "Which colour shall the bars have?" in kept
    assert "<input" not in kept


@pytest.mark.matrix
def test_own_words_take_the_place_of_a_choice(lab: Lab, model: ScriptedModel) -> None:
    card = ask(lab, model, COLOUR)
    expect(card.get_by_role("tab")).to_have_count(0)
    card.get_by_role("radio", name="Red").check()
    words = card.get_by_role("textbox")
    words.fill("Teal")
    expect(card.get_by_role("radio", name="Red")).not_to_be_checked()
    armed(card)
    words.press("Enter")
    assert told(lab, model) == "cancelled: false\nWhich colour shall the bars have? Teal"


@pytest.mark.matrix
def test_there_is_nothing_to_send_before_a_choice_or_words(lab: Lab, model: ScriptedModel) -> None:
    card = ask(lab, model, COLOUR)
    send, words = card.get_by_role("button", name="Answer"), card.get_by_role("textbox")
    expect(send).to_be_disabled()
    words.fill("Teal")
    expect(send).to_be_enabled()
    words.fill("  ")
    expect(send).to_be_disabled()
    card.get_by_role("radio", name="Red").check()
    press(send)
    assert told(lab, model) == "cancelled: false\nWhich colour shall the bars have? Red"


def test_the_keyboard_alone_answers_and_shortcuts_of_the_page_rest(lab: Lab, model: ScriptedModel) -> None:
    card = ask(lab, model, COLOUR, SIZES)
    card.get_by_role("tab", name="Colour").focus()
    page = lab.page
    page.keyboard.press("ArrowRight")
    expect(card.get_by_role("tab", name="Sizes")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("2")
    expect(card.get_by_role("radio", name="Blue")).to_be_checked()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(card.get_by_role("checkbox", name="Small")).to_be_focused()
    page.keyboard.press("1")
    page.keyboard.press("4")
    expect(card.get_by_role("textbox").last).to_be_focused()
    cells = lab.page.locator(".jp-Notebook .jp-Cell").count()
    card.get_by_role("textbox").last.press_sequentially("dd aa 3b")
    armed(card)
    page.keyboard.press("Enter")
    assert told(lab, model).endswith("? Red\nWhich sizes do you need? Small, dd aa 3b")
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells


@pytest.mark.matrix
def test_a_question_can_be_skipped(lab: Lab, model: ScriptedModel) -> None:
    ask(lab, model, COLOUR).get_by_role("radio", name="Red").press("Escape")
    assert told(lab, model) == "cancelled: true"


@pytest.mark.matrix
def test_an_interrupt_takes_the_question_away(lab: Lab, model: ScriptedModel) -> None:
    card = ask(lab, model, COLOUR)
    lab.output(VIBE).get_by_role("button", name="Stop").click()
    expect(card).to_be_hidden()
    lab.wait_for_count_above(VIBE, None)
    assert len(model.requests) == 1
