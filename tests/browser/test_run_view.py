"""The page's half alone: what it is sent it shows, what the user does it says."""

import json
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.arming import armed, press
from tests.browser.contrasts import CONTRASTS
from tests.browser.lab import Lab
from tests.browser.sample import GROWING, PARTS, TABLE, foot, step
from tests.browser.slow_page import slow_page
from vibe_jupyter.ui import status_line

pytestmark = pytest.mark.browser


KERNEL = f"""
import json
from IPython.display import display
from vibe_jupyter.ui import page as run_view
heard = []
parts = json.loads({json.dumps(PARTS)!r})
view = run_view.make_view()
def hear(_view, content, _buffers):
    heard.append(content)
    if content["type"] == "alive":
        view.send({{"type": "snapshot", "parts": parts}})
def patch(*patches):
    view.send({{"type": "patches", "seq": 1, "patches": patches}})
view.on_msg(hear)
bundle, metadata = run_view.bundle_of(view)
display(bundle, metadata=metadata, raw=True)
"""

LOOKS = 20
"""How often a test looks for a command of the page before it counts as not sent."""

HEARD = """() => {
    window.spoken = [];
    const region = document.getElementById("vibe-announcer");
    const note = () => { if (region.textContent) window.spoken.push(region.textContent); };
    window.listener?.disconnect();
    window.listener = new MutationObserver(note);
    window.listener.observe(region, { childList: true, characterData: true, subtree: true });
}"""
"""What a screen reader announces from here on."""
FOCUSED = """() => {
    const one = document.activeElement.shadowRoot?.activeElement ?? document.activeElement;
    return one.textContent || one.className;
}"""


@pytest.fixture
def view(lab: Lab) -> Locator:
    """The view of `PARTS`, in the output of cell 0; cells 1 and 2 are free."""
    lab.open_again(KERNEL, "print(json.dumps(heard))", "")
    lab.run(0)
    root = lab.output(0).locator(".vibe-run")
    root.locator(".vibe-foot").wait_for()
    lab.wait_until_idle()
    return root


@pytest.mark.requirement("ui.stream.slow-page")
def test_a_view_whose_script_takes_long_to_load_hears_the_kernel_and_is_heard(lab: Lab) -> None:
    lab.open_again(KERNEL, "print(json.dumps(heard))", "")
    root = lab.output(0).locator(".vibe-run")
    with slow_page(lab):
        lab.run(0)
        root.locator(".vibe-foot").wait_for()
    root.get_by_role("button", name="Stop").click()
    assert [one["type"] for one in heard(lab)] == ["interrupt"]


def heard(lab: Lab, at_least: int = 1) -> list[dict[str, object]]:
    """What the page said so far, the signs of life left out.

    JupyterLab sends the view's messages to a subshell of the kernel, which a cell may overtake: so this looks again
    until as many commands as expected are there.
    """
    commands: list[dict[str, object]] = []
    for _ in range(LOOKS):
        before = lab.count(1)
        lab.run(1)
        lab.wait_for_count_above(1, before)
        (output,) = lab.outputs(1)
        said = json.loads("".join(output["text"]))
        commands = [message["command"] for message in said if message["type"] == "command"]
        if len(commands) >= at_least:
            break
    return commands


def say(lab: Lab, *patches: dict[str, object]) -> None:
    """Let the kernel send patches."""
    before = lab.count(2)
    lab.write(2, f"patch(*json.loads({json.dumps(patches)!r}))")
    lab.run(2)
    lab.wait_for_count_above(2, before)


def card(view: Locator) -> Locator:
    """The card that asks to run code."""
    return view.get_by_role("group", name="Approval: Run code")


@pytest.mark.requirement("ui.theme.light-dark")
def test_it_takes_the_colours_of_the_front_end_and_they_are_readable(lab: Lab, view: Locator) -> None:
    for theme in ("light", "dark"):
        lab.theme(theme)
        lab.picture(view, f"run-view-{theme}")
        ratios: dict[str, float] = view.evaluate(CONTRASTS)
        assert len(ratios) > 15
        assert {place: ratio for place, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.matrix
def test_on_a_narrow_page_nothing_is_cut_off(lab: Lab, view: Locator) -> None:
    view.evaluate("root => root.getRootNode().host.parentElement.style.width = '340px'")
    lab.picture(view, "run-view-narrow")
    assert view.evaluate("root => root.scrollWidth <= root.clientWidth")


@pytest.mark.requirement("ui.approval.choices")
def test_a_click_decides_once(lab: Lab, view: Locator) -> None:
    press(card(view).get_by_role("button", name="Allow for this session"))
    expect(card(view).get_by_role("button", name="Sent…")).to_be_disabled()
    for button in card(view).get_by_role("button").all():
        expect(button).to_be_disabled()
    press(view.get_by_role("group", name="Approval: Edit cell").get_by_role("button", name="Allow once"))
    assert heard(lab, at_least=2) == [
        {"type": "approve", "approval_id": "a1", "remember": "session", "edited": None},
        {"type": "approve", "approval_id": "a2", "remember": "once", "edited": None},
    ]


@pytest.mark.requirement("ui.approval.choices")
def test_denying_asks_for_a_message_and_can_be_called_off(lab: Lab, view: Locator) -> None:
    message = card(view).get_by_label("Tell the agent why (optional)")
    card(view).get_by_role("button", name="Deny…").click()
    expect(message).to_be_focused()
    lab.page.keyboard.press("Escape")
    expect(message).to_be_hidden()
    expect(card(view)).to_be_focused()
    lab.page.keyboard.press("Escape")
    lab.page.keyboard.type("use the median")
    lab.page.keyboard.press("Enter")
    assert heard(lab) == [{"type": "reject", "approval_id": "a1", "message": "use the median"}]


@pytest.mark.requirement("ui.approval.focus")
def test_keys_decide_only_while_the_card_has_the_focus(lab: Lab, view: Locator) -> None:
    assert view.evaluate("root => root.getRootNode().activeElement") is None
    lab.cell(2).locator(".cm-content").click()
    lab.page.keyboard.type("e")
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.press("Escape")
    assert heard(lab, at_least=0) == []
    armed(card(view)).locator("header").click()
    expect(card(view)).to_be_focused()
    lab.page.keyboard.press("Enter")
    expect(card(view)).not_to_be_focused()
    assert heard(lab) == [{"type": "approve", "approval_id": "a1", "remember": "once", "edited": None}]


def test_clicks_and_keys_that_a_script_makes_decide_nothing(lab: Lab, view: Locator) -> None:
    card(view).get_by_role("button", name="Allow once").dispatch_event("click")
    for key in ("Enter", "Escape", "e"):
        card(view).dispatch_event("keydown", {"key": key})
    expect(card(view).get_by_label("Edit the code before it runs")).to_be_hidden()
    expect(card(view).get_by_label("Tell the agent why (optional)")).to_be_hidden()
    assert heard(lab, at_least=0) == []
    press(card(view).get_by_role("button", name="Allow once"))
    assert [one["type"] for one in heard(lab)] == ["approve"]


@pytest.mark.requirement("ui.approval.focus")
def test_the_card_is_reached_by_tab_in_reading_order(lab: Lab, view: Locator) -> None:
    card(view).focus()
    names: list[str] = []
    for _ in range(5):
        lab.page.keyboard.press("Tab")
        names.append(lab.page.evaluate(FOCUSED))
    assert names[:4] == ["Allow once⏎", "Allow for this session", "EditE", "Deny…Esc"]
    card(view).get_by_role("button", name="Edit").focus()
    lab.page.keyboard.press("Enter")
    expect(card(view).get_by_label("Edit the code before it runs")).to_be_focused()
    assert heard(lab, at_least=0) == []


def test_what_is_visible_is_what_would_run(lab: Lab, view: Locator) -> None:
    editor = card(view).get_by_label("Edit the code before it runs")
    card(view).locator("header").click()
    lab.page.keyboard.press("e")
    expect(editor).to_be_focused()
    expect(card(view).locator(".vibe-code")).to_be_hidden()
    lab.page.keyboard.press("ControlOrMeta+A")
    lab.page.keyboard.type("dd = 1")
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.type("bbe")
    lab.picture(card(view), "run-view-editing")
    lab.page.keyboard.press("Escape")
    lab.page.keyboard.press("e")
    expect(editor).to_have_value("dd = 1\nbbe")
    card(view).get_by_role("button", name="Discard edit").click()
    expect(card(view).locator(".vibe-code")).to_be_visible()
    lab.page.keyboard.press("e")
    lab.page.keyboard.type("# ")
    press(card(view).get_by_role("button", name="Allow once (edited)"))
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 3, "no key reached the notebook"
    (command,) = heard(lab)
    assert str(command["edited"]).startswith("# from scipy") or str(command["edited"]).endswith("# ")


@pytest.mark.matrix
def test_a_second_view_is_whole_and_patches_reach_both(lab: Lab, view: Locator) -> None:
    view.locator("summary", has_text="Inspected").click()
    lab.page.evaluate("window.jupyterapp.commands.execute('notebook:create-output-view')")
    views = lab.page.locator(".vibe-run")
    expect(views).to_have_count(2)
    expect(views.last.locator(".vibe-foot")).to_be_visible()
    say(
        lab,
        {"id": "t2", "kind": "tail", "html": "2</p></div>", "keep": len(GROWING) - len("</p></div>")},
        {"id": "s1", "remove": True},
    )
    for one in views.all():
        expect(one.locator("[data-part=t2]")).to_have_text("The slope is 42")
        expect(one.get_by_text("Listed")).to_have_count(0)


def test_patches_put_replace_and_remove_and_what_was_opened_stays_open(lab: Lab, view: Locator) -> None:
    inspected = view.locator("details", has_text="Inspected")
    inspected.locator("summary").click()
    again = step("inspect", "<b>Inspected</b> <code>penguins</code>", "350 × 8", detail=TABLE)
    say(
        lab,
        {"id": "s2", "kind": "step", "html": again},
        {"id": "s9", "kind": "step", "html": step("read", "<b>Read</b> a file", "9 lines"), "before": "s2"},
        {"id": "t3", "kind": "tail", "html": '<div class="vibe-prose"></div>'},
        {"id": "t3", "kind": "tail", "html": "<b>bold</b></div>", "keep": len('<div class="vibe-prose">')},
        {"id": "e1", "remove": True},
        {"id": "foot", "kind": "foot", "html": foot("working", "Working")},
    )
    expect(inspected.locator(".vibe-came")).to_have_text("350 × 8")
    expect(inspected).to_have_attribute("open", "")
    order = view.evaluate("root => Array.from(root.children, child => child.dataset.part)")
    assert order == ["t1", "s1", "s9", "s2", "s3", "n1", "a2", "a1", "t2", "t3", "foot"]
    expect(view.locator("[data-part=t3] b")).to_have_text("bold")
    expect(view.get_by_text("Working")).to_be_visible()


@pytest.mark.requirement("ui.stop.button")
def test_stop_is_said_once_and_names_the_other_button_when_nothing_happens(lab: Lab, view: Locator) -> None:
    say(
        lab,
        {"id": "s9", "kind": "step", "html": step("run", "<b>Running</b> code", "", outcome="running")},
        {"id": "foot", "kind": "foot", "html": foot("working", "Working")},
    )
    # As where the extension is not installed: nobody takes what the view says last.
    view.evaluate("node => node.addEventListener('vibe-stop', event => event.stopPropagation())")
    view.get_by_role("button", name="Stop").click()
    expect(view.get_by_role("button", name="Stopping…")).to_be_disabled()
    expect(view.get_by_text("Code is running: press ■ in the toolbar to interrupt it")).to_be_visible()
    say(lab, {"id": "foot", "kind": "foot", "html": foot("stopped", "Stopped", stop=False)})
    assert heard(lab) == [{"type": "interrupt"}]


@pytest.mark.matrix
def test_the_clock_goes_on_between_two_words_of_the_kernel(lab: Lab, view: Locator) -> None:
    running = step("run", "<b>Running</b> code", "", outcome="running").replace(
        '"vibe-time">0.1 s', '"vibe-time" data-vibe-running="4.2">'
    )
    say(lab, {"id": "s9", "kind": "step", "html": running})
    time = view.locator("[data-part=s9] .vibe-time")
    expect(time).to_have_text(re.compile(r"^([5-9]|\d\d) s$"))
    assert not time.evaluate("node => node.closest('[aria-live], [role=status], [role=alert], [role=log]')")
    view.page.emulate_media(reduced_motion="reduce")
    expect(time).to_have_text("")
    view.page.emulate_media(reduced_motion="no-preference")
    expect(view.locator(".vibe-clock")).not_to_have_text("9 s")
    say(lab, {"id": "foot", "kind": "foot", "html": foot("done", "Done", stop=False)})
    expect(view.locator(".vibe-clock")).to_have_text("9 s")


@pytest.mark.matrix
def test_line_numbers_are_not_part_of_the_code(lab: Lab, view: Locator) -> None:
    code = card(view).locator(".vibe-code")
    selected: str = code.evaluate("node => { getSelection().selectAllChildren(node); return String(getSelection()) }")
    assert selected.splitlines()[0] == "from scipy.stats import linregress"


def test_the_saved_state_of_the_widget_holds_nothing_of_the_run(lab: Lab, view: Locator) -> None:
    lab.write(2, "print(json.dumps(view.get_state(), default=str))")
    lab.run(2)
    lab.wait_for_count_above(2, None)
    text = lab.output(2).inner_text()
    assert "scipy" not in text
    assert "penguins" not in text


@pytest.mark.matrix
def test_a_wait_is_counted_down_and_announced_once(lab: Lab, view: Locator) -> None:
    notice = status_line.notice_html("info", "Retrying at 14:03:22.", 40.0)
    view.page.evaluate(HEARD)
    say(lab, {"id": "w1", "kind": "notice", "html": notice})
    left = view.locator("[data-part=w1] .vibe-countdown")
    expect(left).to_have_text(re.compile(r"3[0-8] s left"))
    say(lab, {"id": "w1", "kind": "notice", "html": status_line.notice_html("info", "Retrying at 14:03:22.", 1.0)})
    expect(left).to_have_text("")
    assert view.page.evaluate("() => window.spoken") == ["Retrying at 14:03:22. 40 s left"]
    assert not left.evaluate("node => node.closest('[aria-live], [role=status], [role=alert], [role=log]')")
