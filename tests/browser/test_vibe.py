"""The main path as a user walks it: a prompt in a cell, a card in its output, a click while the cell runs."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.arming import armed, longer, press
from tests.browser.lab import Lab
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.app.kept_answers import SAID
from vibe_jupyter.testing import ScriptedAnswer, ScriptedModel, answer, call, hold, say
from vibe_jupyter.ui.widget import ALIVE_GRACE

pytestmark = pytest.mark.browser

LOAD, VIBE, NEXT = 0, 1, 2
PROMPT_BACK = patient(10.0)
"""Seconds, far fewer than what is interrupted would take, and enough for any machine."""
PAGE_LAG = patient(10.0)
"""Seconds a loaded test machine may add to what the page shows."""
SLOW = "import time\nfor second in range(60):\n    print(second, flush=True)\n    time.sleep(1)"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def ask(lab: Lab, model: ScriptedModel, prompt: str, *, after: str = "print('next:', 6 * 7)") -> Locator:
    """Open a notebook, run the prompt with a cell queued behind it; returns the live view."""
    lab.open_again("%load_ext vibe_jupyter\npenguins = 344", f"%%vibe --model scripted@{model.url}\n{prompt}", after)
    lab.run(LOAD, VIBE, NEXT)
    return lab.output(VIBE).locator(".vibe-run")


def run_code(code: str, **rest: Any) -> ScriptedAnswer:
    """The model asks to run code."""
    return answer(calls=[call("run_code", code=code, **rest)])


def card(view: Locator) -> Locator:
    """The one card."""
    return view.get_by_role("group", name="Approval: Run code")


def kept(lab: Lab) -> str:
    """The HTML the run left in the notebook, once it is over and the queued cell has run."""
    lab.wait_for_count_above(NEXT, None)
    return left(lab)


def stopped(lab: Lab) -> str:
    """The HTML that a stopped run left in the notebook; the queued cell has not run, and runs when it is run again."""
    lab.wait_for_count_above(VIBE, None)
    lab.wait_until_idle()
    assert lab.count(NEXT) is None
    lab.run(NEXT)
    lab.wait_for_count_above(NEXT, None)
    return left(lab)


def left(lab: Lab) -> str:
    """The HTML the run left in the notebook."""
    (output,) = [output for output in lab.outputs(VIBE) if "text/html" in output.get("data", {})]
    assert "application/vnd.jupyter.widget-view+json" not in output["data"]
    return "".join(output["data"]["text/html"])


def after(lab: Lab) -> str:
    """What the queued cell printed."""
    return lab.output(NEXT).inner_text().strip()


@pytest.mark.requirement("project.kernel.hosted", "ui.stream.text", "ui.static.kept", "ui.footer.usage")
def test_an_answer_streams_into_the_output_and_stays_there(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    model.will_reply(hold(go_on, "There are **344**", " penguins.\n\n- Adelie\n- Gentoo"))
    view = ask(lab, model, "How many?\nSay it in words.")
    expect(view.get_by_text("There are 344")).to_be_visible()
    expect(view.locator("strong")).to_have_text("344")
    expect(view.get_by_text("Working")).to_be_visible()
    go_on.set()
    html = kept(lab)
    assert "<strong>344</strong>" in html
    assert "<li>Gentoo</li>" in html
    assert "scripted" in html
    assert "<script" not in html
    assert "<button" not in html
    assert model.requests[0].last_user_text.endswith("How many?\nSay it in words.")
    assert after(lab) == "next: 42"


@pytest.mark.requirement(
    "project.approval.inline", "project.kernel.shared-namespace", "permission.approve.once", "ui.stream.tool-cards"
)
def test_a_click_while_the_cell_runs_lets_the_code_run(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code("double = penguins * 2\ndouble", keep=True, reason="double it"), "It is 688.")
    view = ask(lab, model, "Double the penguins.", after="print('next:', double)")
    expect(card(view)).to_contain_text("double it")
    lab.pictures(lab.cell(VIBE), "vibe-approval")
    press(card(view).get_by_role("button", name="Allow once"))
    html = kept(lab)
    assert "688" in model.requests[1].tool_results[0]
    assert "It is 688." in html
    expect(lab.cell(VIBE)).to_be_focused()
    expect(lab.output(VIBE)).to_contain_text("double = penguins * 2")
    assert after(lab) == "next: 688"
    lab.pictures(lab.cell(VIBE), "vibe-done")


@pytest.mark.requirement("ui.approval.choices", "permission.approve.deny")
def test_a_denial_tells_the_model_why_and_the_run_goes_on(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code("import shutil"), "As you wish.")
    view = ask(lab, model, "Tidy up.", after="print('shutil' in dir())")
    card(view).get_by_role("button", name="Deny…").click()
    lab.page.keyboard.type("use the median")
    lab.page.keyboard.press("Enter")
    assert "As you wish." in kept(lab)
    (result,) = model.requests[1].tool_results
    assert "use the median" in result
    assert after(lab) == "False"


@pytest.mark.requirement("notebook.run_code.approval", "ui.approval.whole")
def test_the_edited_code_is_what_runs(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code("answer = 1", keep=True), "Done.")
    view = ask(lab, model, "Set it.", after="print(answer)")
    card(view).get_by_role("button", name="Edit").click()
    lab.page.keyboard.press("ControlOrMeta+A")
    lab.page.keyboard.type("answer = 41 + 1")
    press(card(view).get_by_role("button", name="Allow once (edited)"))
    kept(lab)
    expect(lab.output(VIBE)).to_contain_text("answer = 41 + 1")
    assert after(lab) == "42"


@pytest.mark.requirement("permission.approve.session", "ui.approval.choices")
def test_allowing_for_the_session_asks_no_more(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code("a = 1", keep=True), run_code("b = a + 1", keep=True), "Two.")
    view = ask(lab, model, "Count.", after="print(b)")
    press(longer(card(view)))
    assert "Two." in kept(lab)
    assert after(lab) == "2"


@pytest.mark.requirement("ui.approval.focus")
def test_someone_typing_elsewhere_approves_nothing(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code("ran = True", keep=True), "Done.")
    view = ask(lab, model, "Do it.", after="print(ran)")
    editor = lab.cell(NEXT).locator(".cm-content")
    editor.click()
    lab.page.keyboard.type("# a")
    card(view).wait_for()
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.press("e")
    expect(editor).to_be_focused()
    assert len(model.requests) == 1
    armed(card(view))
    lab.page.keyboard.press("F8")
    lab.page.keyboard.press("Enter")
    assert "Done." in kept(lab)


@pytest.mark.requirement("ui.stop.button", "magics.interrupt.prompt-back")
def test_stop_ends_a_run_while_the_model_speaks(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(hold(threading.Event(), "Let me think about it"))
    view = ask(lab, model, "Think.")
    expect(view.get_by_text("Let me think about it")).to_be_visible()
    pressed = time.monotonic()
    view.get_by_role("button", name="Stop").click()
    html = stopped(lab)
    assert time.monotonic() - pressed < PROMPT_BACK + PAGE_LAG
    assert "Let me think about it" in html
    assert after(lab) == "next: 42"


@pytest.mark.matrix
def test_running_the_cell_again_ends_the_run_whose_card_is_gone(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    model.will_reply(run_code("1 + 1"), hold(go_on, "The second time."))
    view = ask(lab, model, "Count.")
    card(view).wait_for()
    lab.run(VIBE)
    expect(lab.output(VIBE).locator(".vibe-run").get_by_text("The second time.")).to_be_visible()
    go_on.set()
    expect(lab.output(VIBE).get_by_text("Done", exact=True)).to_be_visible()
    assert "interrupted before this call started" in str(model.requests[1].messages)


def test_a_prompt_run_twice_at_once_leaves_its_answer_and_nothing_else(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(say("Once."), say("Twice."))
    lab.open_again("%load_ext vibe_jupyter", f"%%vibe --model scripted@{model.url}\nCount.", "print('after')")
    lab.run(LOAD)
    lab.wait_for_count_above(LOAD, None)
    lab.run(VIBE, VIBE, NEXT)
    lab.wait_for_count_above(NEXT, None)
    assert [list(output.get("data", output)) for output in lab.outputs(VIBE)] == [["text/html", "text/plain"]]
    assert [output["text"] for output in lab.outputs(NEXT)] == ["after\n"]


@pytest.mark.matrix
@pytest.mark.requirement("ui.stop.button")
def test_stop_ends_a_run_that_waits_for_an_approval(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code("ran = True", keep=True))
    view = ask(lab, model, "Do it.", after="print('ran' in dir())")
    card(view).wait_for()
    view.get_by_role("button", name="Stop").click()
    stopped(lab)
    assert after(lab) == "False"
    assert len(model.requests) == 1


@pytest.mark.requirement("magics.interrupt.prompt-back")
@pytest.mark.parametrize("moment", ["code", further("streaming"), further("approval")])
def test_the_interrupt_button_ends_a_run(lab: Lab, model: ScriptedModel, moment: str) -> None:
    model.will_reply(hold(threading.Event(), "Thinking") if moment == "streaming" else run_code(SLOW))
    view = ask(lab, model, "Take your time.")
    if moment == "streaming":
        expect(view.get_by_text("Thinking")).to_be_visible()
    else:
        card(view).wait_for()
    if moment == "code":
        press(card(view).get_by_role("button", name="Allow once"))
        expect(view.locator('.vibe-step[data-outcome="running"]')).to_be_visible()
    pressed = time.monotonic()
    lab.interrupt()
    stopped(lab)
    assert time.monotonic() - pressed < PROMPT_BACK + PAGE_LAG
    assert after(lab) == "next: 42"


@pytest.mark.matrix
@pytest.mark.requirement("ui.stop.button")
def test_stop_interrupts_code_that_blocks_the_kernel(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code(SLOW))
    view = ask(lab, model, "Take your time.")
    press(card(view).get_by_role("button", name="Allow once"))
    expect(view.locator('.vibe-step[data-outcome="running"]')).to_be_visible()
    view.get_by_role("button", name="Stop").click()
    stopped(lab)
    assert after(lab) == "next: 42"


@pytest.mark.matrix
def test_a_kernel_that_is_restarted_ends_the_view(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    model.will_reply(hold(go_on, "Thinking aloud"))
    view = ask(lab, model, "Think.")
    expect(view.get_by_text("Thinking aloud")).to_be_visible()
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(view.get_by_text("Kernel restarted · Run cells above and continue")).to_be_visible()
    expect(view.get_by_role("button", name="Stop")).to_have_count(0)
    go_on.set()
    lab.wait_for_kernel()
    # JupyterLab says so of every widget whose kernel is gone.
    lab.complaints[:] = [words for words in lab.complaints if "Comm not found" not in words]


@pytest.mark.matrix
def test_an_unchanged_prompt_shows_its_kept_answer_until_its_output_is_cleared(lab: Lab, model: ScriptedModel) -> None:
    lab.open_again("%load_ext vibe_jupyter", f"%%vibe --keep --model scripted@{model.url}\nCount.")
    model.will_reply(say("It is **two**."))
    lab.run(LOAD, VIBE)
    lab.wait_for_count_above(VIBE, None)
    answer = left(lab)
    # No click and no save in between: the page knows what the cell showed.
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    lab.wait_for_kernel()
    lab.run(LOAD, VIBE)
    expect(lab.output(VIBE)).to_contain_text(SAID)
    assert left(lab) == answer
    assert len(model.requests) == 1

    lab.page.evaluate("window.jupyterapp.commands.execute('notebook:clear-cell-output')")
    expect(lab.output(VIBE)).not_to_contain_text("two")
    model.will_reply(say("It is **three**."))
    lab.run(VIBE)
    expect(lab.output(VIBE).get_by_text("three")).to_be_visible()
    lab.wait_until_idle()
    assert len(model.requests) == 2


@pytest.mark.requirement("ui.static.kept")
def test_what_is_kept_is_there_after_opening_the_notebook_again(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(run_code("1 + 1"), say("It is **two**."))
    view = ask(lab, model, "Count.")
    press(card(view).get_by_role("button", name="Allow once"))
    kept(lab)
    path = lab.save()
    lab.close()
    lab.open_file(path)
    output = lab.output(VIBE)
    expect(output.get_by_text("two")).to_be_visible()
    assert "<button" not in path.read_text(encoding="utf-8")
    for name in ("Copy answer", "More"):  # of the page alone
        expect(output.get_by_role("button", name=name)).to_be_visible()
    expect(output.get_by_role("button")).to_have_count(2)
    output.locator("summary").first.click()
    expect(output.get_by_text("1 + 1").first).to_be_visible()


@pytest.mark.matrix
def test_a_kernel_busy_with_code_from_the_start_is_no_silent_page(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    model.will_reply(run_code(f"import time\ntime.sleep({ALIVE_GRACE + 1})"), hold(go_on, "Slept"))
    lab.open_again("%load_ext vibe_jupyter", f"%%vibe --yes=run_code --model scripted@{model.url}\nSleep.", "print(1)")
    lab.run(LOAD, VIBE, NEXT)
    expect(lab.output(VIBE).locator(".vibe-run").get_by_text("Slept")).to_be_visible()
    go_on.set()
    assert "live view" not in kept(lab)


@pytest.mark.matrix
@pytest.mark.requirement("magics.headless.no-widget")
def test_where_no_page_draws_the_view_a_text_prompt_asks(lab_without_widget: Lab, model: ScriptedModel) -> None:
    lab = lab_without_widget
    model.will_reply(run_code("double = penguins * 2\ndouble", keep=True), "It is 688.")
    ask(lab, model, "Double the penguins.", after="print('next:', double)")
    model.wait_for_request(1)
    asked = time.monotonic()
    box = lab.output(VIBE).locator("input.jp-Stdin-input")
    box.wait_for()
    assert time.monotonic() - asked < ALIVE_GRACE + PAGE_LAG
    expect(lab.output(VIBE)).to_contain_text("double = penguins * 2")
    lab.picture(lab.cell(VIBE), "vibe-text-prompt")
    box.fill("a")
    box.press("Enter")
    lab.wait_for_count_above(NEXT, None)
    assert after(lab) == "next: 688"
    expect(lab.output(VIBE)).to_contain_text("It is 688.")
    expect(lab.output(VIBE)).to_contain_text("The live view needs the package anywidget")
    lab.picture(lab.cell(VIBE), "vibe-text-prompt-done")
