"""What code of the agent shows stands in the step that ran it, while the run goes on and in what is left of it."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import VIEWPORT
from tests.browser.lab import Lab
from tests.browser.notebook_page import PROMPT, NotebookPage, open_prompt
from tests.browser.ready import wait_until
from tests.browser.test_connect_form import NOTE_QUESTIONS
from vibe_jupyter.testing import ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser

FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"
PICTURE = 'img:not([width="16"])'
"""What a cell shows; icons of steps are 16 pixels wide."""
SLIDER = "import ipywidgets\nipywidgets.IntSlider(value=3)"
BAR = "import ipywidgets\nipywidgets.IntProgress(value=3, max=10)"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def top(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["y"]


def stand_in_this_order(*places: Locator) -> None:
    for place in places:
        expect(place).to_be_visible()
    tops = [top(place) for place in places]
    assert tops == sorted(tops)


def kinds_of(book: NotebookPage) -> list[str]:
    """What the document has, in its order."""
    return [
        "picture" if "image/png" in data else "widget" if "application/vnd.jupyter.widget-view+json" in data else "run"
        for data in (output["data"] for output in book.outputs(PROMPT))
    ]


def test_a_figure_and_a_widget_stand_in_their_steps_live_and_kept(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    book = open_prompt(lab, model, options="--yes=run_code")
    model.will_reply(
        call("run_code", code=FIGURE, keep=True, reason="the figure"),
        call("run_code", code="print('no output but text')", keep=True, reason="some text"),
        call("run_code", code=SLIDER, keep=True, reason="the slider"),
        call("run_code", code=BAR, keep=True, reason="the bar"),
        answer("All of it stands", [], hold=go_on),
    )
    book.run(0, PROMPT)
    view, output = book.view, book.output(PROMPT)
    expect(view).to_contain_text("All of it stands")
    figure, slider = output.locator(PICTURE), output.get_by_role("slider")
    live = [
        view.get_by_text("the figure"),
        figure,
        view.get_by_text("some text"),
        view.get_by_text("the slider"),
        slider,
        view.get_by_text("the bar"),
        output.locator(".widget-hprogress"),
        view.get_by_text("All of it stands"),
        view.locator(".vibe-foot"),
    ]
    stand_in_this_order(*live)
    slider.focus()
    lab.page.keyboard.press("ArrowRight")
    expect(output.locator(".widget-readout")).to_have_text("4")
    lab.pictures(output, "step-outputs-live")
    go_on.set()
    book.over()
    expect(view).to_have_count(0)
    lab.pictures(output, "step-outputs-kept")
    assert kinds_of(book) == ["run", "picture", "run", "widget", "run", "widget", "run"]
    assert {output["output_type"] for output in book.outputs(PROMPT)} == {"display_data"}
    stand_in_this_order(
        output.get_by_text("the figure"),
        figure,
        output.get_by_text("some text"),
        output.get_by_text("the slider"),
        slider,
        output.get_by_text("the bar"),
        output.locator(".widget-hprogress"),
        output.get_by_text("All of it stands"),
        output.get_by_text("Done"),
    )


def test_the_box_of_an_input_opens_in_its_step_and_what_was_drawn_in_a_copy_stands_there_too(
    lab: Lab, model: ScriptedModel
) -> None:
    go_on = threading.Event()
    book = open_prompt(lab, model, options="--yes=run_code")
    model.will_reply(
        call("run_code", code=FIGURE, reason="a look"),
        call("run_code", code="input('Keep this row? ')", keep=True, reason="a question"),
        answer("You said so", [], hold=go_on),
    )
    book.run(0, PROMPT)
    output = book.output(PROMPT)
    box = output.locator("input.jp-Stdin-input")
    expect(box).to_be_visible()
    places = [book.view.get_by_text("a look"), output.locator(PICTURE), book.view.get_by_text("a question")]
    stand_in_this_order(*places, box, book.view.locator(".vibe-foot"))
    expect(book.view.locator(".vibe-foot")).to_contain_text("Waiting for you")
    box.fill("yes")
    box.press("Enter")
    expect(book.view).to_contain_text("You said so")
    stand_in_this_order(*places, book.view.get_by_text("You said so"), book.view.locator(".vibe-foot"))
    go_on.set()
    book.over()
    expect(book.view).to_have_count(0)
    stand_in_this_order(
        output.get_by_text("a look"),
        output.locator(PICTURE),
        output.get_by_text("a question"),
        output.get_by_text("You said so"),
    )


@pytest.mark.matrix
def test_a_page_that_is_reloaded_in_mid_run_keeps_all_that_was_said(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    book = open_prompt(lab, model, options="--yes=run_code")
    model.will_reply(
        call("run_code", code=FIGURE, keep=True, reason="before the reload"),
        answer("One moment", [call("run_code", code=BAR, keep=True, reason="after it")], hold=go_on),
        say("All of it stands"),
    )
    book.run(0, PROMPT)
    expect(book.view).to_contain_text("One moment")
    lab.show(lab.save(), runs=True)
    again = NotebookPage(lab, book.path)
    expect(again.view).to_contain_text("One moment")
    # What shows now is of the saved document. Outputs are heard once the page knows that the cell runs.
    expect(again.cell(PROMPT).locator(".jp-InputPrompt").first).to_have_text("[*]:")
    go_on.set()
    again.over()
    expect(again.view).to_have_count(0)
    output = again.output(PROMPT)
    stand_in_this_order(
        output.get_by_text("One moment"),
        output.get_by_text("after it"),
        output.locator(".widget-hprogress"),
        output.get_by_text("All of it stands"),
    )
    expect(output.get_by_text("Done")).to_have_count(1)
    expect(output.get_by_text("Not finished")).to_have_count(0)


@pytest.mark.matrix
def test_a_page_that_is_reloaded_while_the_agent_runs_a_cell_holds_what_was_said(
    lab: Lab, model: ScriptedModel
) -> None:
    book = open_prompt(lab, model, "print('begun')\nwhile True: pass", options="--yes=run_cells")
    model.will_reply(answer("Now I run it.", [call("run_cells", cells=[book.ids[2]])]))
    book.run(0, PROMPT)
    book.wait_for_text(2, "begun\n")
    lab.show(lab.save(), runs=True)
    again = NotebookPage(lab, book.path)
    # At once it shows what was saved. The kernel then has it shown again, and saved it would be lost without the words.
    expect(again.cell(PROMPT).locator(".jp-InputPrompt").first).to_have_text("[*]:")
    expect(again.output(PROMPT).get_by_text("Not finished", exact=True)).to_be_visible()
    saved = lab.save().read_text(encoding="utf-8")
    assert "Now I run it." in saved
    lab.interrupt()
    again.over()
    lab.complaints[:] = [words for words in lab.complaints if "Comm not found" not in words]


def test_a_cell_of_the_agent_that_runs_while_the_page_is_reloaded_shows_all_that_it_put_out(
    lab: Lab, model: ScriptedModel
) -> None:
    gates = [lab.server.folder / name for name in ("reload-gate-1", "reload-gate-2")]
    waits = "while not os.path.exists({!r}):\n    time.sleep(0.02)\n"
    source = (
        "import os, time\nshown = display('at first', display_id=True)\nprint('begun')\n"
        f"{waits.format(gates[0].name)}print('not saved')\n"
        f"{waits.format(gates[1].name)}shown.update('at last')\n'the end'"
    )
    book = open_prompt(lab, model, source, "'next'", options="--yes=run_cells")
    model.will_reply(answer("Now I run them.", [call("run_cells", cells=book.ids[2:])]), say("Both ran."))
    book.run(0, PROMPT)
    book.wait_for_text(2, "begun\n")
    path = lab.save()
    gates[0].touch()
    book.wait_for_text(2, "begun\nnot saved\n")
    lab.show(path, runs=True)
    again = NotebookPage(lab, book.path)
    expect(again.cell(2).locator(".jp-InputPrompt").first).to_have_text("[*]:")
    again.wait_for_text(2, "begun\nnot saved\n")
    gates[1].touch()
    again.over()
    first, printed, result = again.outputs(2)
    assert (first["data"], printed["text"], result["data"]) == (
        {"text/plain": "'at last'"},
        "begun\nnot saved\n",
        {"text/plain": "'the end'"},
    )
    assert again.counts()[2:] == [result["execution_count"], result["execution_count"] + 1]
    assert [cell["state"] for cell in again.cells()] == ["idle"] * 4
    lab.complaints[:] = [words for words in lab.complaints if "Comm not found" not in words]


@pytest.mark.matrix  # on a busy machine the second window may answer alone in time, and counts as the first
def test_a_second_window_of_the_notebook_leaves_the_figures_of_a_run_in_their_steps(
    lab: Lab, browser: Browser, model: ScriptedModel
) -> None:
    go_on = threading.Event()
    book = open_prompt(lab, model, options="--yes=run_code")
    model.will_reply(
        call("run_code", code=FIGURE, keep=True, reason="the figure"),
        call("run_code", code=BAR, keep=True, reason="the bar"),
        answer("All of it stands", [], hold=go_on),
    )
    book.run(0, PROMPT)
    expect(book.view).to_contain_text("All of it stands")
    lab.page.evaluate(NOTE_QUESTIONS)
    context = browser.new_context(viewport=VIEWPORT)
    second = Lab(context.new_page(), lab.server)
    second.show(lab.save(), runs=True)
    expect(NotebookPage(second, book.path).view).to_contain_text("All of it stands")
    wait_until(lab.page, "() => window.asked")  # the kernel has heard that the page is there
    go_on.set()
    book.over()
    context.close()
    expect(book.view).to_have_count(0)
    assert kinds_of(book) == ["run", "picture", "run", "widget", "run"]
    output = book.output(PROMPT)
    stand_in_this_order(
        output.get_by_text("the figure"),
        output.locator(PICTURE),
        output.get_by_text("the bar"),
        output.locator(".widget-hprogress"),
        output.get_by_text("All of it stands"),
    )
