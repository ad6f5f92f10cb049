"""The agent works in the open notebook: real pages, real kernels, a user who clicks and types."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.arming import press
from tests.browser.lab import Lab
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.browser

PANEL = '[...window.jupyterapp.shell.widgets("main")].find(widget => widget.content?.model?.cells)'
CELLS = f"""() => [...{PANEL}.content.model.cells].map(cell => ({{
    id: cell.id,
    source: cell.sharedModel.getSource(),
    count: cell.executionCount ?? null,
    text: (cell.outputs?.toJSON() ?? []).map(output =>
        [output.text ?? output.data?.["text/plain"] ?? output.evalue ?? ""].flat().join("")).join(""),
    types: (cell.outputs?.toJSON() ?? []).map(output => output.output_type),
}}))"""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def show(lab: Lab, model: ScriptedModel, *sources: str, options: str = "") -> list[str]:
    """A notebook with the prompt in its second cell, not yet run; the ids of its cells."""
    lab.open_again("%load_ext vibe_jupyter", f"%%vibe {options} --model scripted@{model.url}\ngo on", *sources)
    return [cell["id"] for cell in cells(lab)]


def start(lab: Lab) -> Locator:
    """Run the prompt; its live view."""
    lab.run(0, 1)
    return lab.output(1).locator(".vibe-run")


def cells(lab: Lab) -> list[dict[str, Any]]:
    return lab.page.evaluate(CELLS)


def allow(view: Locator, name: str | re.Pattern[str]) -> None:
    card = view.get_by_role("group", name=name)
    expect(card).to_be_visible()
    press(card.get_by_role("button", name="Allow once"))


def over(lab: Lab, position: int = 1) -> None:
    """The run is over and the kernel idle."""
    lab.wait_for_count_above(position, None)
    lab.wait_until_idle()


@pytest.mark.requirement(
    "notebook.insert_cell.place", "notebook.edit_cell.replace", "notebook.run_cell.counts", "notebook.run_cell.final"
)
def test_it_mends_a_cell_and_adds_one_with_a_click_for_each(lab: Lab, model: ScriptedModel) -> None:
    broken = show(lab, model, "bill = {'mm': 39.1}['bill_len']\nbill")[2]
    model.will_reply(
        call("read_notebook"),
        call("edit_cell", cell=broken, old_string="'bill_len'", new_string="'mm'", run=True),
        call("insert_cell", source="print('longest', bill)", run=True),
        say("It runs now."),
    )
    view = start(lab)
    allow(view, re.compile(r"Edit and run cell #3"))
    lab.picture(lab.cell(1), "vibe-live-notebook")
    allow(view, re.compile(r"Insert and run a new cell below"))
    over(lab)
    done = cells(lab)
    assert [cell["source"].split("\n")[-1] for cell in done[2:]] == ["print('longest', bill)", "bill"]
    assert done[3]["source"] == "bill = {'mm': 39.1}['mm']\nbill"
    assert (done[3]["text"], done[2]["text"]) == ("39.1", "longest 39.1\n")
    counts = [cell["count"] for cell in done]
    assert len(set(counts)) == len(counts)
    assert "] ok in " in model.requests[2].tool_results[-1]


ALL = "--yes=run_cells,insert_cell,edit_cell"
NATIVE = """\
from IPython.display import display
import asyncio, matplotlib.pyplot as plt
shown = display("first", display_id=True)
name = input("Who? ")
await asyncio.sleep(0.01)
shown.update("hello " + name)
plt.plot([1, 2]);"""


@pytest.mark.matrix
def test_what_a_cell_does_by_hand_it_does_when_the_agent_runs_it(lab: Lab, model: ScriptedModel) -> None:
    native = show(lab, model, NATIVE, "1 / 0", options=ALL)[2]
    broken = cells(lab)[3]["id"]
    model.will_reply(
        call("read_notebook"), call("run_cells", cells=[native, broken], stop_on_error=False), say("That is all.")
    )
    start(lab)
    box = lab.output(2).locator("input.jp-Stdin-input")
    box.fill("Ada")
    box.press("Enter")
    over(lab)
    expect(lab.output(2).locator("img")).to_be_visible()
    assert "'hello Ada'" in cells(lab)[2]["text"]
    assert cells(lab)[3]["types"] == ["error"]
    assert "ran 2 of 2 cells, 1 ok" in model.requests[2].tool_results[-1]
    assert "[image/png shown to the user" in model.requests[2].tool_results[-1]


@pytest.mark.matrix
def test_the_stop_button_ends_the_cell_and_the_run_and_later_cells_run(lab: Lab, model: ScriptedModel) -> None:
    slow = show(lab, model, "print('under way', flush=True)\nimport time; time.sleep(60)", "6 * 7", options=ALL)[2]
    model.will_reply(call("read_notebook"), call("run_cells", cells=[slow]), say("Never said."))
    start(lab)
    expect(lab.output(2)).to_contain_text("under way")
    lab.interrupt()
    lab.wait_for_count_above(1, None)
    lab.wait_until_idle()
    lab.run(3)
    lab.wait_for_count_above(3, None)
    done = cells(lab)
    assert "KeyboardInterrupt" in done[2]["text"] or done[2]["types"][-1] == "error"
    assert done[3]["text"] == "42"
    assert "Never said" not in lab.output(1).inner_text()
    counts = [cell["count"] for cell in done]
    assert len(set(counts)) == len(counts)


@pytest.mark.matrix
def test_what_the_person_types_meanwhile_stays_and_the_agent_hears_of_it(lab: Lab, model: ScriptedModel) -> None:
    theirs = show(lab, model, "theirs = 1")[2]
    model.will_reply(
        call("read_notebook"), call("edit_cell", cell=theirs, source="agents = 1"), say("I leave it to you.")
    )
    view = start(lab)
    card = view.get_by_role("group", name=re.compile("Edit cell"))
    expect(card).to_be_visible()
    lab.cell(2).locator(".cm-content").click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.type("2 + 3")
    over(lab)  # the card is gone: it would have replaced what the agent has not read
    assert cells(lab)[2]["source"] == "theirs = 12 + 3"
    assert "theirs = 12 + 3" in model.requests[2].tool_results[-1]


def test_a_card_shows_the_new_difference_when_its_cell_is_changed_meanwhile(lab: Lab, model: ScriptedModel) -> None:
    target = show(lab, model, "a = 1\nb = 2")[2]
    model.will_reply(
        call("read_notebook"), call("edit_cell", cell=target, old_string="b = 2", new_string="b = 3"), say("Done.")
    )
    view = start(lab)
    card = view.get_by_role("group", name=re.compile("^Approval: Edit cell"))
    first = card.get_attribute("data-vibe-approval")
    meant = lab.page.locator("[data-vibe-proposed]")
    expect(meant).to_have_count(1)
    expect(meant).to_contain_text("a = 1")
    label = meant.locator(".jp-Cell-inputWrapper").evaluate("node => getComputedStyle(node, '::after').content")
    assert label == '"Change waits for your approval"'
    lab.picture(lab.cell(2), "proposed")
    card.get_by_role("button", name="Edit").click()
    card.locator("textarea").fill("b = 30")
    lab.cell(2).locator(".cm-line").first.click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.type(" # mine")
    expect(card).to_contain_text("changed meanwhile")
    lab.page.keyboard.type("!")  # the focus stays where it is
    expect(card.locator("textarea")).to_have_value("b = 30")
    card.get_by_role("button", name="Discard edit").click()
    expect(card.locator(".vibe-diff")).to_contain_text("a = 1 # mine!")
    lab.pictures(card, "changed-meanwhile")
    assert card.get_attribute("data-vibe-approval") != first
    allow(view, re.compile("^Approval: Edit cell"))
    over(lab)
    expect(meant).to_have_count(0)
    assert cells(lab)[2]["source"] == "a = 1 # mine!\nb = 3"
    assert len(model.requests) == 3
    assert "changed" not in model.requests[2].tool_results[-1].split("\n")[0]
