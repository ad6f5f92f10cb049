"""How it looks and moves: nothing jumps, nothing is cut off, nothing moves by itself, and long runs stay light."""

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.cut import CUT
from tests.browser.lab import Lab
from tests.browser.ready import wait_until
from tests.browser.stage import LIVE, Stage, everything, messages
from tests.ui.runs import planned, resolved, said
from tests.ui.scenes import ANSWER, ENDS, SCENES, begin, steps
from vibe_jupyter.protocol import Event, TextDelta, TurnStarted

pytestmark = pytest.mark.browser

MAX_NODES = 40
"""Elements that one step may cost the page."""

WIDTHS = (360, 700, 1600)
"""Pixels."""
MOTIONS: tuple[Literal["reduce", "no-preference"], ...] = ("reduce", "no-preference")
NEXT_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
SCROLLER = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer"


@pytest.fixture
def window(lab: Lab) -> Iterator[Page]:
    """The page, which gets its size and its media back."""
    before = lab.page.viewport_size
    assert before is not None
    yield lab.page
    lab.page.set_viewport_size(before)
    lab.page.emulate_media(reduced_motion="no-preference", forced_colors="none", media="screen")


def a_run() -> list[Event]:
    """Steps, a card that is answered, a long answer with a picture in pieces."""
    words: list[Event] = [TextDelta(piece) for piece in re.findall(r"\S+\s*", ANSWER)]
    card = [*SCENES["card-diff"][-1:], resolved(), *ENDS["edited"][-5:-3]]
    return [*begin(), *steps(12), *card, TurnStarted(turn=2), *words, said(ANSWER)]


def scroller(page: Page) -> dict[str, float]:
    return page.locator(SCROLLER).evaluate("one => ({ top: one.scrollTop, height: one.clientHeight })")


# Places in the view from frame to frame. Chromium's own list of shifts leaves out what is in a shadow root.
SHIFTS = """root => {
    window.moved = [];
    window.footMoves = 0;
    const places = new Map();
    const look = () => {
        const origin = root.getBoundingClientRect();
        for (const one of root.querySelectorAll("[data-part], [data-part] > *")) {
            const { x, y } = one.getBoundingClientRect();
            const [left, top] = [x - origin.x, y - origin.y];
            const from = places.get(one) ?? [left, top];
            places.set(one, [left, top]);
            if (Math.hypot(from[0] - left, from[1] - top) <= 1) continue;
            if (one.closest("[data-part=foot]")) window.footMoves += 1;
            else window.moved.push(`${from} to ${left},${top}: ${one.outerHTML.slice(0, 100)}`);
        }
        window.nextLook = requestAnimationFrame(look);
    };
    look();
}"""


def test_in_a_whole_run_nothing_moves_that_was_shown_but_the_foot(stage: Stage) -> None:
    page = stage.lab.page
    stage.send({"type": "snapshot", "parts": []})
    stage.view.evaluate(SHIFTS)
    for message in messages(a_run(), each=3):
        stage.send(message)
    page.evaluate(NEXT_FRAMES)
    count: int = page.evaluate("() => { cancelAnimationFrame(nextLook); return footMoves; }")
    assert count, "the foot moves down as the run grows: the page did not look"
    assert page.evaluate("() => moved") == []


@pytest.mark.matrix
def test_the_check_would_notice_a_part_that_moves(stage: Stage) -> None:
    stage.show(SCENES["card-code"])
    stage.view.evaluate(SHIFTS)
    stage.view.evaluate("root => { root.querySelector('[data-kind=step]').style.marginTop = '40px'; }")
    wait_until(stage.lab.page, "() => moved.length > 0")


def test_who_watches_the_end_keeps_seeing_it(stage: Stage, window: Page) -> None:
    window.set_viewport_size({"width": 1000, "height": 600})
    stage.send({"type": "snapshot", "parts": []})
    for message in messages(begin(*steps(40)), each=8):
        stage.send(message)
    window.evaluate(NEXT_FRAMES)
    assert scroller(window)["top"] > 300
    expect(stage.view.locator(".vibe-foot")).to_be_in_viewport(ratio=1)


def test_who_has_scrolled_away_is_left_alone_when_a_card_comes(stage: Stage, window: Page) -> None:
    window.set_viewport_size({"width": 1000, "height": 600})
    stage.show(begin(*steps(40)))
    window.locator(SCROLLER).evaluate("one => { one.scrollTop = 0; }")
    window.evaluate(NEXT_FRAMES)
    stage.send(*messages(begin(*steps(40), *SCENES["card-code"][-1:]), each=1_000))
    expect(stage.view.get_by_role("button", name="Allow once")).to_be_attached()
    window.evaluate(NEXT_FRAMES)
    assert scroller(window)["top"] == 0
    assert stage.view.evaluate("root => root.getRootNode().activeElement") is None


@pytest.mark.matrix
def test_a_card_that_comes_is_brought_into_sight_for_who_watches(stage: Stage, window: Page) -> None:
    window.set_viewport_size({"width": 1000, "height": 600})
    stage.show(begin(*steps(40)))
    window.locator(SCROLLER).evaluate("one => { one.scrollTop = one.scrollHeight; }")
    stage.view.locator(".vibe-foot").scroll_into_view_if_needed()
    stage.send(*messages(begin(*steps(40), *SCENES["card-code"][-1:]), each=1_000))
    expect(stage.view.get_by_role("button", name="Allow once")).to_be_attached()
    window.evaluate(NEXT_FRAMES)
    expect(stage.view.get_by_role("button", name="Allow once")).to_be_in_viewport(ratio=1)
    expect(stage.view.locator(".vibe-card > header")).to_be_in_viewport(ratio=1)
    assert stage.view.evaluate("root => root.getRootNode().activeElement") is None


@pytest.mark.requirement("ui.todo.view")
def test_the_plan_is_seen_and_changes_as_the_model_writes_it(stage: Stage) -> None:
    stage.send({"type": "snapshot", "parts": []})
    first = begin(*planned("p1", Look="in progress", Plot="to do"), *steps(3))
    for message in messages(first, each=3):
        stage.send(message)
    plan = stage.view.get_by_role("region", name="Plan")
    expect(plan.get_by_role("listitem")).to_have_text([re.compile("in progress: Look"), re.compile("to do: Plot")])
    place = plan.bounding_box()
    now = messages([*first, *planned("p2", Look="done", Plot="in progress")], each=1_000)
    stage.send(*now)
    expect(plan.get_by_role("listitem")).to_have_text([re.compile("done: Look"), re.compile("in progress: Plot")])
    expect(plan).to_contain_text("1 of 2 done")
    assert plan.bounding_box() == place


def bottom(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


@pytest.mark.matrix
def test_when_a_run_ends_its_last_line_stays_where_it_was(stage: Stage, window: Page) -> None:
    window.set_viewport_size({"width": 1000, "height": 600})
    stage.keep(ENDS["long-answer"])
    stage.show(SCENES["steps-200"])
    stage.view.locator(".vibe-foot").scroll_into_view_if_needed()
    before = bottom(stage.lab.output(LIVE))
    stage.end(ENDS["steps-200"])
    expect(stage.lab.output(LIVE).get_by_text("All done.")).to_be_in_viewport(ratio=1)
    window.evaluate(NEXT_FRAMES)
    assert abs(bottom(stage.lab.output(LIVE)) - before) < 3


SCROLL_AND_GROW = """async scroller => {
    const frames = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    await frames();
    scroller.scrollTop -= 100;
    const place = scroller.scrollTop;
    await frames();
    scroller.querySelector(".jp-Cell:last-child .jp-RenderedHTML").style.paddingBottom = "300px";
    await frames();
    return [place, scroller.scrollTop];
}"""
"""Scrolls away, as a command of JupyterLab does, and lets the output grow; the places before it grows and after."""


@pytest.mark.matrix
def test_who_scrolls_away_while_the_end_of_a_run_is_drawn_is_left_there(stage: Stage, window: Page) -> None:
    window.set_viewport_size({"width": 1000, "height": 600})
    stage.keep(ENDS["long-answer"])
    stage.show(SCENES["steps-200"])
    stage.view.locator(".vibe-foot").scroll_into_view_if_needed()
    stage.end(ENDS["steps-200"])
    before, after = window.locator(SCROLLER).evaluate(SCROLL_AND_GROW)
    assert after == before


def test_who_reads_elsewhere_when_a_run_ends_is_left_there(stage: Stage, window: Page) -> None:
    window.set_viewport_size({"width": 1000, "height": 600})
    stage.show(SCENES["steps-200"])
    window.evaluate(NEXT_FRAMES)  # the view follows its own growth with the next frame
    window.locator(SCROLLER).evaluate("one => { one.scrollTop = 100; }")
    window.evaluate(NEXT_FRAMES)
    assert scroller(window)["top"] == 100
    stage.end(ENDS["finished"])
    window.evaluate(NEXT_FRAMES)
    assert scroller(window)["top"] == 100


@pytest.mark.matrix
def test_two_hundred_steps_stay_light(stage: Stage) -> None:
    told = messages(SCENES["steps-200"], each=20)
    assert len(told) <= 40
    assert sum(len(str(one)) for one in told) < 250_000
    stage.show(SCENES["steps-200"])
    assert stage.view.locator("[data-kind=step]").count() >= 50
    assert stage.view.evaluate("root => root.querySelectorAll('*').length") <= 200 * MAX_NODES
    expect(stage.view.get_by_role("button", name="Allow once")).to_be_attached()


def test_nothing_is_cut_off_at_any_width(stage: Stage) -> None:
    stage.show_parts(everything({name: events for name, events in SCENES.items() if name != "steps-200"}))
    for width in WIDTHS:
        stage.view.evaluate(
            "(root, width) => { root.getRootNode().host.parentElement.style.width = `${width}px`; }", width
        )
        stage.lab.page.evaluate(NEXT_FRAMES)
        assert stage.view.evaluate(CUT) == [], width
        assert stage.view.evaluate("root => root.scrollWidth <= root.clientWidth"), width


def test_what_is_kept_is_not_cut_off_either(stage: Stage) -> None:
    stage.keep(*(events for name, events in ENDS.items() if name != "steps-200"))
    for width in WIDTHS:
        stage.kept.evaluate(
            """(root, width) => {
                root.parentElement.style.width = `${width}px`;
                root.querySelectorAll("details").forEach(one => { one.open = true; });
            }""",
            width,
        )
        stage.lab.page.evaluate(NEXT_FRAMES)
        assert stage.kept.evaluate(CUT) == [], width


def test_at_twice_the_size_the_card_can_be_read_and_answered(stage: Stage, window: Page) -> None:
    # Zoom of 200 % is a window of half the size in twice the pixels.
    window.set_viewport_size({"width": 640, "height": 500})
    stage.show(SCENES["card-long"])
    assert stage.view.evaluate(CUT) == []
    for name in ("Allow once", "Edit", "Deny…", "Stop"):
        button = stage.view.get_by_role("button", name=name)
        button.scroll_into_view_if_needed()
        expect(button).to_be_in_viewport(ratio=0.98)  # pages scroll by whole pixels


MOVING = """root => root.getRootNode().getAnimations().filter(one => root.contains(one.effect?.target)).length"""


def test_nothing_moves_by_itself(stage: Stage, window: Page) -> None:
    for scene in ("running", "reasoning", "card-code", "steps-200"):
        stage.show(SCENES[scene])
        for motion in MOTIONS:
            window.emulate_media(reduced_motion=motion)
            window.evaluate(NEXT_FRAMES)
            assert stage.view.evaluate(MOVING) == 0, (scene, motion)


COLOURS = """one => ["false", "true"].map(waits => {
    one.setAttribute("aria-disabled", waits);
    return getComputedStyle(one).color;
})"""
"""Of a button, and of the same while a press of it does nothing."""


def edge(button: Locator) -> float:
    """Px of its border."""
    return button.evaluate("one => parseFloat(getComputedStyle(one).borderTopWidth)")


def test_with_the_colours_of_the_system_edges_and_signs_carry_everything(stage: Stage, window: Page) -> None:
    window.emulate_media(forced_colors="active")
    stage.show(SCENES["card-diff"])
    for change, sign in (("add", "+"), ("del", "−")):
        line = stage.view.locator(f".vibe-line[data-change={change}]").first
        assert sign in line.evaluate("one => getComputedStyle(one, '::after').content")
        assert line.evaluate("one => getComputedStyle(one).borderLeftStyle") != "none"
    for button in stage.view.get_by_role("button").all():
        assert edge(button) >= 1
    stage.show(SCENES["card-high"])
    assert stage.view.locator(".vibe-card").evaluate("one => getComputedStyle(one).borderLeftStyle") == "double"
    assert edge(stage.view.get_by_role("button", name="Deny…")) > edge(stage.view.get_by_role("button", name="Edit"))
    ready, waits = stage.view.get_by_role("button", name="Delete 226 files").evaluate(COLOURS)
    assert ready != waits
