"""Cells that run behind a run in a real JupyterLab: their card, Continue, and a page that is closed meanwhile."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.arming import press
from tests.browser.lab import Lab
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.browser

VIBE, FIT = 1, 2
VIEW = "data-vibe-view"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def leave(lab: Lab, model: ScriptedModel, source: str) -> Locator:
    """A run that leaves a cell with this source in the background; the card in its output."""
    queue = call("run_cells", cells=["#3"], background="click")
    model.will_reply(call("read_notebook"), queue, say("It fits in the background."))
    lab.open("%load_ext vibe_jupyter", f"%%vibe --yes=run_cells --model scripted@{model.url}\nfit it", source)
    lab.run(0, VIBE)
    return lab.output(VIBE).locator(".vibe-run").get_by_role("group", name="Cell #3")


def test_a_card_below_the_output_says_when_the_cell_is_done_and_continue_goes_on_there(
    lab: Lab, model: ScriptedModel
) -> None:
    go_on = lab.server.folder / "go_on"
    wait = f"import os, time\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)\n"
    card = leave(lab, model, f"{wait}score = 0.93; print('fitted')")
    expect(lab.output(VIBE)).to_contain_text("It fits in the background.")
    expect(card).to_contain_text("is queued")
    expect(lab.output(VIBE)).to_contain_text("Runs in the background")
    go_on.touch()
    expect(lab.output(FIT)).to_contain_text("fitted")
    expect(card).to_contain_text(re.compile(r"finished after \d+ s"))
    lab.pictures(card, "background")

    model.will_reply(call("run_code", code="print(score)"), say("It scores 0.93."))
    press(card.get_by_role("button", name="Continue"))
    press(lab.output(VIBE).get_by_role("button", name="Allow once"))
    expect(lab.output(VIBE)).to_contain_text("It scores 0.93.")
    expect(lab.output(VIBE)).to_contain_text("It fits in the background.")
    expect(lab.output(VIBE).locator(".vibe-run")).to_have_count(0)
    assert VIEW not in json.dumps(lab.outputs(VIBE))
    assert "fitted" in str(model.requests[3].messages[-1])


@pytest.mark.matrix
def test_the_card_outlives_the_page(lab: Lab, model: ScriptedModel) -> None:
    card = leave(lab, model, "import time; time.sleep(1); print('fitted')")
    expect(card).to_be_visible()
    path = lab.save()
    lab.show(path)
    expect(card).to_contain_text("finished after 1 s")
    model.will_reply(say("It is done."))
    press(card.get_by_role("button", name="Continue"))
    expect(lab.output(VIBE)).to_contain_text("It is done.")
    expect(lab.output(VIBE)).to_contain_text("It fits in the background.")


@pytest.mark.matrix
def test_stop_ends_the_cell_that_runs_and_not_now_leaves_it(lab: Lab, model: ScriptedModel) -> None:
    card = leave(lab, model, "print('begun')\nwhile True: pass")
    expect(lab.output(FIT)).to_contain_text("begun")
    lab.output(VIBE).get_by_role("button", name="Stop").click()
    expect(lab.output(FIT)).to_contain_text("KeyboardInterrupt")
    expect(card).to_contain_text("was interrupted")
    press(card.get_by_role("button", name="Not now"))
    expect(lab.output(VIBE)).to_contain_text("Left as it is; the next prompt reports it.")
    assert len(model.requests) == 3
