"""A script of the page moves the focus to a card, and the person presses a key that was meant for something else."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.arming import armed
from tests.browser.stage import KEPT_AT, Stage
from tests.tiers import further
from tests.ui.runs import asked
from tests.ui.scenes import begin

pytestmark = [pytest.mark.browser, pytest.mark.requirement("ui.approval.moved-focus")]

READY = "data-readiness"
SETTLE = 500
"""Milliseconds, as in arming.ts."""
TRIES = 8
"""How often the keys are pressed again on a new card, where the machine is too slow to press them within `SETTLE`."""
WATCH = """card => {
    window.stolen = window.pressed = null;
    window.hostile?.abort();
    window.hostile = new AbortController();
    const options = { capture: true, signal: window.hostile.signal };
    // When the event was made: the view hears it later than that, and before a listener of the card does.
    card.addEventListener("focusin", ({ timeStamp }) => { window.stolen = timeStamp; }, options);
    window.addEventListener("keydown", ({ key, timeStamp }) => {
        if (key === "Enter" || key === " ") window.pressed = timeStamp;
    }, options);
}"""
GAP = "() => window.stolen === null ? null : window.pressed - window.stolen"
FIELD = """card => {
    const field = document.createElement("input");
    field.className = "hostile";
    field.setAttribute("aria-label", "Page's own");
    field.setAttribute("data-lm-suppress-shortcuts", "true");
    card.getRootNode().host.before(field);
}"""
"""A text field of the page, right in front of the view."""


@dataclass
class Move:
    """How a script gets the focus to the card, and what the person types meanwhile."""

    name: str
    script: str
    keys: tuple[str, ...] = ("Enter",)
    begins: str = "a cell"
    """Where the person types: "a cell", "a field" of the page, or the card's line for "a denial"."""


ON_KEY = """card => window.addEventListener("keydown", event => {{
    if (event.isTrusted && event.key === "{key}") {{ {does} }}
}}, {{ capture: true, signal: window.hostile.signal }})"""
LATER = "setTimeout(() => card.focus())"
MOVES = [
    Move("the card", "card => card.focus()"),
    Move("its button", "card => card.querySelector('[data-vibe-action=approve]').focus()"),
    Move("its button, by Space", "card => card.querySelector('[data-vibe-action=approve]').focus()", ("Space",)),
    Move(
        "the button for the session",
        "card => { card.querySelector('.vibe-menu').open = true;"
        " card.querySelector('[data-vibe-action=approve-session]').focus(); }",
    ),
    Move("the code", "card => { const code = card.querySelector('pre'); code.tabIndex = 0; code.focus(); }"),
    Move("nothing, then the card", "card => { document.activeElement.blur(); card.focus(); }"),
    Move(
        "by the event of the extension",
        "card => card.getRootNode().host.dispatchEvent("
        "new CustomEvent('vibe-focus-card', { detail: card.dataset.vibeApproval }))",
    ),
    Move("by the command", "() => window.jupyterapp.commands.execute('vibe-jupyter:next-card')"),
    Move(
        "by F8 that a script makes",
        "card => { document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
        " { key: 'F8', keyCode: 119, bubbles: true, composed: true })); card.focus(); }",
    ),
    Move(
        "by Tab that a script makes",
        "card => { document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
        " { key: 'Tab', bubbles: true, composed: true })); card.focus(); }",
    ),
    Move(
        "a card that is for the moment none",
        "card => { const id = card.dataset.vibeApproval; card.removeAttribute('data-vibe-approval'); card.focus();"
        " card.dataset.vibeApproval = id; }",
    ),
    Move(
        "the card, taken out and put back", "card => { const at = card.parentElement; at.prepend(card); card.focus(); }"
    ),
    Move(
        "a field that is put into it",
        "card => { const field = document.createElement('div'); field.tabIndex = 0; card.prepend(field);"
        " field.focus(); }",
    ),
    Move(
        "a field in a tree of its own",
        "card => { const place = document.createElement('div'); card.prepend(place);"
        " place.attachShadow({ mode: 'open' }).innerHTML = '<div tabindex=0>x</div>';"
        " place.shadowRoot.firstChild.focus(); }",
    ),
    Move(
        "a field with autofocus",
        "card => { const field = document.createElement('input'); field.autofocus = true; card.prepend(field);"
        " field.focus(); }",
    ),
    Move(
        "the field that has it, moved in",
        "card => { const field = document.activeElement; window.stolen = performance.now();"
        " if (card.moveBefore) card.moveBefore(field, card.firstChild); else { card.prepend(field); field.focus(); } }",
        begins="a field",
    ),
    Move("with a letter", ON_KEY.format(key="a", does="card.focus()"), ("a", "Enter")),
    Move("after a letter", ON_KEY.format(key="a", does=LATER), ("a", "Enter")),
    Move("with Tab in a cell", ON_KEY.format(key="Tab", does="card.focus()"), ("Tab", "Enter")),
    Move("after Tab in a cell", ON_KEY.format(key="Tab", does=LATER), ("Tab", "Enter")),
    Move("with Tab in a field", ON_KEY.format(key="Tab", does="card.focus()"), ("Tab", "Enter"), "a field"),
    Move(
        "in place of Tab",
        ON_KEY.format(key="Tab", does=f"event.preventDefault(); {LATER}"),
        ("Tab", "Enter"),
        "a field",
    ),
    Move("after Tab in a field", ON_KEY.format(key="Tab", does=LATER), ("Tab", "Enter"), "a field"),
    Move(
        "to a place in front of it, before Tab",
        "card => { const one = document.createElement('div'); one.tabIndex = 0; one.className = 'hostile';"
        " card.before(one); one.focus(); }",
        ("Tab", "Enter"),
    ),
    Move("from the line for a denial", "card => card.focus()", begins="a denial"),
    Move(
        "from the line for a denial, with a letter",
        ON_KEY.format(key="a", does="card.focus()"),
        ("a", "Enter"),
        "a denial",
    ),
]
FEW = ("the card", "with a letter")
"""Of `make test`."""


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    """The page is left as it was: other tests go on in it."""
    yield stage
    stage.lab.page.evaluate(
        "window.hostile?.abort(); document.querySelectorAll('.hostile').forEach(one => one.remove())"
    )


def shown(stage: Stage, approval_id: str = "a1") -> Locator:
    """A card in the open page, in sight for long, and the person at work in the first cell."""
    stage.lab.page.mouse.move(1, 1)
    stage.show([*begin(), asked("print(1)", approval_id=approval_id)])
    card = armed(stage.view.locator(f"[data-vibe-approval={approval_id}]"))
    stage.lab.cell(KEPT_AT).locator(".cm-content").click()
    return card


def sit(stage: Stage, card: Locator, place: str) -> None:
    """Put the person where they type, by a click."""
    if place == "a field":
        card.evaluate(FIELD)
        stage.lab.page.get_by_label("Page's own").last.click()
        armed(card)  # the field moved it
    elif place == "a denial":
        card.get_by_role("button", name="Deny…").click()
        expect(card.get_by_label("Tell the agent why (optional)")).to_be_focused()
        # The buttons are away while it is open; a script shows them.
        card.evaluate("card => card.querySelector('footer').removeAttribute('hidden')")
        armed(card)


def approvals(stage: Stage) -> list[object]:
    return [one["approval_id"] for one in stage.heard() if one["type"] == "approve"]


@pytest.mark.attack("arming", always=True)
@pytest.mark.parametrize(
    "move", [(one if one.name in FEW else further(one)) for one in MOVES], ids=[one.name for one in MOVES]
)
def test_a_key_after_a_focus_that_a_script_moved_approves_nothing(stage: Stage, move: Move) -> None:
    page = stage.lab.page
    for number in range(TRIES):
        card = shown(stage, f"a{number}")
        sit(stage, card, move.begins)
        card.evaluate(WATCH)
        card.evaluate(move.script)
        for key in move.keys:
            page.keyboard.press(key)
        gap = page.evaluate(GAP)
        assert gap is not None, "the focus never came to the card"
        if gap < SETTLE:
            assert f"a{number}" not in approvals(stage)
            return
    pytest.fail(f"the keys took longer than {SETTLE} ms each time")


@pytest.mark.attack("arming")
@pytest.mark.matrix
def test_a_key_held_since_before_the_focus_was_moved_approves_nothing(stage: Stage) -> None:
    card, keyboard = shown(stage), stage.lab.page.keyboard
    keyboard.down("Enter")
    button = card.get_by_role("button", name="Allow once")
    button.evaluate("button => { button.focus(); window.dispatchEvent(new KeyboardEvent('keyup', { key: 'Enter' })); }")
    expect(card).to_have_attribute(READY, "armed")
    for _ in range(3):
        keyboard.down("Enter")
    keyboard.up("Enter")
    assert stage.heard() == []
    keyboard.press("Enter")
    assert approvals(stage) == ["a1"]


@pytest.mark.matrix
def test_nobody_is_locked_out_who_stays_on_the_card(stage: Stage) -> None:
    card = shown(stage)
    card.focus()
    expect(card).to_have_attribute(READY, "settling")
    expect(card).to_have_attribute(READY, "armed")
    stage.lab.page.keyboard.press("Enter")
    assert approvals(stage) == ["a1"]


WAYS = ["Tab", further("F8"), further("a click"), further("Tab inside")]


@pytest.mark.parametrize("way", WAYS)
def test_a_press_of_the_person_leads_to_a_card_that_takes_the_next_key(stage: Stage, way: str) -> None:
    card, page = shown(stage), stage.lab.page
    if way == "Tab":
        sit(stage, card, "a field")
        page.get_by_label("Page's own").click()
        page.wait_for_function("() => document.activeElement.className === 'hostile'")
    watch_settling(card)
    {"Tab": tab_to, "F8": f8, "a click": click, "Tab inside": tab_inside}[way](card)
    assert card.evaluate("() => window.settled") == []
    page.keyboard.press("Enter")
    assert approvals(stage) == ["a1"]


def watch_settling(card: Locator) -> None:
    """Note from here on each time that it is not ready."""
    card.evaluate("""card => {
        window.settled = [];
        const note = () => { if (card.dataset.readiness !== "armed") window.settled.push(card.dataset.readiness); };
        new MutationObserver(note).observe(card, { attributeFilter: ["data-readiness"] });
    }""")


def tab_to(card: Locator) -> None:
    for _ in range(5):
        card.page.keyboard.press("Tab")
        if card.evaluate("card => card.getRootNode().activeElement === card"):
            return
    pytest.fail("Tab does not lead to the card")


def f8(card: Locator) -> None:
    card.page.keyboard.press("F8")
    expect(card).to_be_focused()


def click(card: Locator) -> None:
    card.locator("header").click()
    expect(card).to_be_focused()


def tab_inside(card: Locator) -> None:
    click(card)
    card.page.keyboard.press("Tab")
    expect(card.get_by_role("button", name="Allow once")).to_be_focused()
