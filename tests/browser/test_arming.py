"""A card is approved by a press that was meant for it, and by no other."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.arming import armed, press
from tests.browser.stage import Stage, messages
from tests.tiers import further
from tests.ui.runs import asked, resolved
from tests.ui.scenes import SCENES, begin, steps

pytestmark = pytest.mark.browser


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    """The page is left as it was: other tests go on in it."""
    yield stage
    stage.lab.page.evaluate("document.querySelectorAll('#cover, .hostile').forEach(one => one.remove())")


def centre(stage: Stage, page: Page) -> tuple[float, float]:
    box = stage.view.get_by_role("button", name="Allow once").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.attack("arming", always=True)
@pytest.mark.parametrize("gap", [120, further(250), further(500)])
@pytest.mark.parametrize("at_bottom", [True, further(False)])
def test_the_second_press_of_a_double_click_approves_nothing(stage: Stage, gap: int, at_bottom: bool) -> None:
    page = stage.lab.page
    before = begin(*steps(40 if at_bottom else 2))
    first = [*before, asked("first", approval_id="a1")]
    stage.show(first)
    if at_bottom:
        stage.view.locator(".vibe-foot").scroll_into_view_if_needed()
    armed(stage.view.locator(".vibe-card"))
    page.mouse.move(1, 1)
    page.mouse.move(*centre(stage, page))
    second = [*first, resolved("first", approval_id="a1"), asked("second", approval_id="a2")]
    stage.do(
        "def next_card(_view, content, _buffers):\n"
        f"    for message in json.loads({json.dumps(messages(second, each=10_000))!r}):\n"
        "        view.send({'type': 'snapshot', 'parts': []})\n"
        "        view.send(message)\n"
        "view.on_msg(next_card)"
    )
    page.mouse.down()
    page.mouse.up()
    page.wait_for_timeout(gap)
    page.mouse.down()
    page.mouse.up()
    assert [one["approval_id"] for one in stage.heard()] == ["a1"]


READY = "data-readiness"


@pytest.fixture
def card(stage: Stage) -> Locator:
    """A card in the open page, the pointer elsewhere."""
    stage.lab.page.mouse.move(1, 1)
    stage.show([*begin(), asked("print(1)", approval_id="a1")])
    return stage.view.locator(".vibe-card")


def decisions(stage: Stage) -> list[object]:
    return [one["type"] for one in stage.heard()]


@pytest.mark.attack("arming", always=True)
def test_a_key_held_down_since_before_the_card_was_ready_approves_nothing_and_a_new_press_does(
    stage: Stage, card: Locator
) -> None:
    keyboard = stage.lab.page.keyboard
    # Covered, so that it cannot get ready while the key goes down.
    cover(stage.lab.page, card)
    expect(card).to_have_attribute(READY, "hidden")
    card.focus()
    keyboard.down("Enter")
    uncover(stage.lab.page)
    expect(card).to_have_attribute(READY, "armed")
    for _ in range(3):
        keyboard.down("Enter")  # the same key again: auto-repeat
    keyboard.up("Enter")
    assert stage.heard() == []
    keyboard.press("Enter")
    assert decisions(stage) == ["approve"]


@pytest.mark.attack("arming", always=True)
def test_a_button_that_takes_the_key_is_held_to_the_same(stage: Stage, card: Locator) -> None:
    keyboard = stage.lab.page.keyboard
    cover(stage.lab.page, card)
    expect(card).to_have_attribute(READY, "hidden")
    card.get_by_role("button", name="Allow once").focus()
    keyboard.down("Space")
    uncover(stage.lab.page)
    expect(card).to_have_attribute(READY, "armed")
    keyboard.up("Space")  # a button is pressed when the key comes up
    assert stage.heard() == []
    keyboard.press("Space")
    assert decisions(stage) == ["approve"]


def test_the_keyboard_needs_no_pointer(stage: Stage, card: Locator) -> None:
    # The pointer lies where the next card comes, and stays there.
    stage.lab.page.mouse.move(*centre(stage, stage.lab.page))
    stage.show([*begin(), asked("print(2)", approval_id="a2")])
    expect(card).to_have_attribute("data-vibe-approval", "a2")
    expect(card).to_have_attribute(READY, "resting")
    stage.lab.page.keyboard.press("F8")
    expect(card).to_be_focused()
    stage.lab.page.keyboard.press("Enter")
    assert decisions(stage) == ["approve"]


def test_denying_never_waits(stage: Stage, card: Locator) -> None:
    cover(stage.lab.page, card)
    expect(card).to_have_attribute(READY, "hidden")
    card.focus()
    stage.lab.page.keyboard.press("Escape")
    stage.lab.page.keyboard.press("Enter")
    assert decisions(stage) == ["reject"]


@pytest.mark.attack("arming", always=True)
def test_long_code_is_approved_only_after_its_end_was_in_sight(stage: Stage) -> None:
    stage.show(SCENES["card-long"])
    card = stage.view.locator(".vibe-card")
    card.locator("footer").scroll_into_view_if_needed()
    expect(card).to_have_attribute(READY, "unread")
    expect(card.get_by_text("Scroll to the end to approve this.")).to_be_visible()
    card.focus()
    stage.lab.page.keyboard.press("Enter")
    assert stage.heard() == []
    card.locator(".vibe-code").focus()
    stage.lab.page.keyboard.press("Control+End")
    card.focus()
    expect(card).to_have_attribute(READY, "armed")
    stage.lab.page.keyboard.press("Enter")
    assert decisions(stage) == ["approve"]


HOSTILE = """
.vibe-line, .vibe-card pre, .vibe-card header { display: none !important; }
.vibe-card footer { position: fixed !important; top: 0 !important; left: 0 !important; }
.vibe-card button { opacity: 0 !important; font-size: 90px !important; }
.vibe-run, .vibe-run * { color: transparent !important; background: red !important; }
* { letter-spacing: 9px !important; text-indent: -999px !important; line-height: 0 !important; }
.vibe-run-host { visibility: hidden !important; opacity: 0 !important; transform: scale(0.1) !important;
    position: fixed !important; clip-path: circle(0) !important;
    pointer-events: none !important; zoom: 0.1 !important; }
"""
"""What a trusted output may say of all of the page."""
LOOK = """card => [...card.querySelectorAll("*"), card].map(one => {
    const { left, top, width, height } = one.getBoundingClientRect();
    const { color, backgroundColor, visibility, opacity } = getComputedStyle(one);
    return [one.className, left, top, width, height, color, backgroundColor, visibility, opacity];
})"""


@pytest.mark.attack("arming", always=True)
def test_the_styles_of_the_page_change_nothing_of_a_card(stage: Stage, card: Locator) -> None:
    armed(card)
    before = card.evaluate(LOOK)
    # Only the view's own words are looked for, so the page's own layout may not move it.
    restyle(stage.lab.page, HOSTILE.replace("\n* {", "\n.vibe-run-host, .vibe-run-host * {"))
    assert card.evaluate(LOOK) == before
    press(card.get_by_role("button", name="Allow once"))
    assert decisions(stage) == ["approve"]


@pytest.mark.attack("arming", always=True)
def test_a_card_that_something_covers_cannot_be_approved_and_says_so(stage: Stage, card: Locator) -> None:
    armed(card)
    cover(stage.lab.page, card)
    expect(card).to_have_attribute(READY, "hidden")
    card.focus()
    stage.lab.page.keyboard.press("Enter")
    assert stage.heard() == []
    assert "covered or out of view" in stage.lab.page.locator("#vibe-announcer").inner_text()


@pytest.mark.parametrize(
    "style",
    [
        "html { filter: invert(1); }",
        further("html { opacity: 0.8; }"),
        further(".jp-Notebook { transform: rotate(1deg); }"),
        further("body::after { content: ''; position: fixed; inset: 0; background: #f004; pointer-events: none; }"),
    ],
)
def test_a_page_that_changes_the_look_of_everything_locks_nobody_out(stage: Stage, card: Locator, style: str) -> None:
    restyle(stage.lab.page, style)
    expect(card).to_have_attribute(READY, "doubtful")
    expect(card.get_by_text("Look closely; ready in 3 seconds.")).to_be_visible()
    warning = card.locator(".vibe-readiness").bounding_box()
    assert warning is not None
    assert warning["height"] > 10, "it is for the eyes too"
    press(card.get_by_role("button", name="Allow once"))
    assert decisions(stage) == ["approve"]


@pytest.mark.matrix
def test_who_waits_at_the_card_hears_once_that_it_is_ready(stage: Stage, card: Locator) -> None:
    cover(stage.lab.page, card)
    expect(card).to_have_attribute(READY, "hidden")
    card.focus()
    spoken = stage.lab.page.locator("#vibe-announcer")
    expect(spoken).not_to_have_text("Ready to be approved")
    stage.lab.page.evaluate(SPOKEN)
    uncover(stage.lab.page)
    expect(spoken).to_have_text("Ready to be approved")
    cover(stage.lab.page, card)
    expect(card).to_have_attribute(READY, "hidden")
    uncover(stage.lab.page)
    expect(card).to_have_attribute(READY, "armed")
    assert stage.lab.page.evaluate("() => window.spoken") == ["Ready to be approved"]


SPOKEN = """() => {
    window.spoken = [];
    const region = document.getElementById("vibe-announcer");
    const note = () => { if (region.textContent) window.spoken.push(region.textContent); };
    window.listener?.disconnect();
    window.listener = new MutationObserver(note);
    window.listener.observe(region, { childList: true, characterData: true, subtree: true });
}"""
"""What a screen reader announces from here on."""
COVER = """([left, top, width, height]) => {
    const cover = document.createElement("div");
    cover.id = "cover";
    cover.style.cssText = `position:fixed;background:#fff;z-index:99999;left:${left}px;top:${top}px;`
        + `width:${width}px;height:${height}px`;
    document.body.append(cover);
}"""


def cover(page: Page, card: Locator) -> None:
    """Something of the page over all of a card."""
    box = card.bounding_box()
    assert box is not None
    page.evaluate(COVER, [box["x"], box["y"], box["width"], box["height"]])


def uncover(page: Page) -> None:
    page.evaluate("document.getElementById('cover').remove()")


def restyle(page: Page, style: str) -> None:
    """What an output may bring along."""
    page.add_style_tag(content=style).evaluate("node => { node.className = 'hostile'; }")
