"""An external client works in a real JupyterLab: its card stands in a cell that is over, and a click there counts."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.arming import press
from tests.browser.lab import Lab
from tests.mcp_server.outsider import WAIT, Outsider, over_stdio, text

pytestmark = pytest.mark.browser

LOAD, SERVE, FIRST = 0, 1, 2


@pytest.fixture
def notebook(lab: Lab, tmp_path: Path) -> Path:
    """Served, on the page; the external client and the kernel look into the same runtime folder."""
    load = f"import os\nos.environ['JUPYTER_RUNTIME_DIR'] = {str(tmp_path)!r}\n%load_ext vibe_jupyter"
    path = lab.open(load, "%vibe mcp serve", "first = 40")
    lab.run(LOAD, SERVE)
    lab.wait_for_count_above(SERVE, None)
    return path


@pytest.fixture
def outsider(notebook: Path, tmp_path: Path) -> Iterator[Outsider]:
    """Started as such an agent starts it, for the notebook that this page shows."""
    program = str(Path(sys.executable).with_name("vibe-jupyter"))
    env = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    outsider = Outsider(over_stdio(program, "mcp", "--notebook", str(notebook), env=env))
    yield outsider
    outsider.close()


@pytest.mark.matrix
def test_a_click_between_cells_lets_an_agent_outside_edit_and_run_a_cell_and_the_view_outlives_the_page(
    lab: Lab, notebook: Path, outsider: Outsider
) -> None:
    listed = text(outsider.call("read_notebook"))
    assert "first = 40" in listed
    cell = json.loads(notebook.read_text(encoding="utf-8"))["cells"][FIRST]["id"]
    call = outsider.start("edit_cell", cell=cell, source="first = 41\nfirst + 1", run=True)
    view = lab.output(SERVE).locator(".vibe-run")
    card = view.get_by_role("group").filter(has_text="requested by an external client")
    expect(card).to_be_visible()
    press(card.get_by_role("button", name="Allow once"))
    result = call.result(WAIT)
    assert not result.is_error, text(result)
    expect(lab.output(FIRST)).to_contain_text("42")
    lab.save()
    lab.show(notebook)
    expect(view.get_by_text("Serving")).to_be_visible()
    view.get_by_role("button", name="Stop").click()
    expect(lab.output(SERVE)).to_contain_text("Stopped")
    saved = json.loads(lab.save().read_text(encoding="utf-8"))
    outputs = saved["cells"][SERVE]["outputs"]
    assert "application/vnd.jupyter.widget-view+json" not in json.dumps(outputs)
    assert "Edited" in json.dumps(outputs)


@pytest.mark.matrix
def test_the_cell_that_serves_run_again_shows_its_card_again(lab: Lab, notebook: Path, outsider: Outsider) -> None:
    call = outsider.start("run_code", code="40 + 2")
    card = (
        lab.output(SERVE).locator(".vibe-run").get_by_role("group").filter(has_text="requested by an external client")
    )
    expect(card).to_be_visible()
    count = lab.count(SERVE)
    lab.run(SERVE)
    lab.wait_for_count_above(SERVE, count)
    expect(card).to_have_count(1)
    press(card.get_by_role("button", name="Allow once"))
    assert text(call.result(WAIT)).endswith("42")
    lab.output(SERVE).get_by_role("button", name="Stop").click()
    expect(lab.output(SERVE)).to_contain_text("Stopped")
    assert "application/vnd.jupyter.widget-view+json" not in json.dumps(lab.outputs(SERVE))
