"""The side panel: how everything stands, and each button a command of `%vibe`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.arming import armed, press
from tests.browser.contrasts import CONTRASTS
from tests.browser.lab import Lab
from tests.browser.test_accessibility import violations
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.browser

SET_UP, PROMPT, MAKES, READS = 0, 1, 2, 3
SETTINGS = """
active_model = "small"
providers = [{{ name = "here", api_base = "{url}" }}]
models = [{{ name = "small", provider = "here" }}, {{ name = "large", provider = "here" }}]
mcp_servers = [{{ name = "stations", transport = "stdio", command = ["stations"], disabled = true }}]
"""
READABLE = 4.5
"""The contrast that WCAG wants of small words."""
WRITES = "open('written', 'w').close()"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def open_panel(lab: Lab, model: ScriptedModel, home: Path) -> Locator:
    """The panel beside a notebook whose kernel has no `%vibe` yet; its first cell names these settings."""
    (home / "config.toml").write_text(SETTINGS.format(url=model.url), encoding="utf-8")
    lab.open(f"import os\nos.environ['VIBE_HOME'] = {str(home)!r}", "%%vibe\nMean of x?", "x = 4", "y = x + 1")
    lab.run(SET_UP)
    lab.wait_for_count_above(SET_UP, None)
    lab.page.evaluate("() => { void window.jupyterapp.commands.execute('vibe-jupyter:side-panel'); }")
    panel = lab.page.locator(".vibe-panel")
    panel.get_by_role("button", name="Load Vibe").click()
    expect(part(panel, "Conversations")).to_contain_text("None yet. Write %%vibe into a cell")
    return panel


def part(panel: Locator, title: str) -> Locator:
    """A part of the panel, by its heading."""
    return panel.get_by_role("region", name=title, exact=True)


def test_it_shows_how_everything_stands_and_its_buttons_are_commands(
    lab: Lab, model: ScriptedModel, tmp_path: Path
) -> None:
    model.will_reply(call("run_code", code=WRITES), say("It is 4."), say("Hello."))
    panel = open_panel(lab, model, tmp_path)
    lab.run(PROMPT)
    part(panel, "Waiting for you").get_by_role("button", name="Go to it").click()
    card = armed(lab.output(PROMPT).get_by_role("group", name="Run code"))
    expect(panel.get_by_role("combobox", name="Model")).to_be_disabled()
    card.locator("summary", has_text="Always allow").click()
    press(card.get_by_role("button", name="session"))

    grants = part(panel, "Always allowed")
    expect(grants).to_contain_text("run_code")
    grants.get_by_role("button", name="Revoke: run_code").click()
    expect(panel.get_by_role("status")).to_contain_text("Asked about again: run_code.")
    expect(grants).to_be_hidden()

    expect(part(panel, "Context")).to_contain_text("tokens")
    here = part(panel, "This notebook")
    expect(here.get_by_role("listitem")).to_contain_text("Mean of x?")
    panel.get_by_role("button", name="New: begin a new conversation").click()
    expect(part(panel, "Context")).to_be_hidden()
    panel.get_by_role("searchbox").fill("median")
    expect(panel).to_contain_text("No conversation matches.")
    panel.get_by_role("searchbox").fill("MEAN")
    here.get_by_role("button", name="Resume: Mean of x?").click()
    panel.get_by_role("searchbox").fill("")
    expect(panel.get_by_role("status")).to_contain_text("Continuing 'Mean of x?'")
    expect(here.locator("[aria-current]")).to_contain_text("Mean of x?")

    servers = part(panel, "MCP servers")
    servers.get_by_role("button", name="Turn on: stations").click()
    servers.get_by_role("button", name="Review…: stations").click()
    card = lab.output(PROMPT + 1).get_by_role("group", name="stations")
    press(armed(card).get_by_role("button", name="Accept 1 server"))
    expect(servers).to_contain_text("not started yet")
    servers.get_by_role("button", name="Start: stations").click()
    expect(servers).to_contain_text("failed: ")
    expect(servers).to_contain_text("stations")
    expect(servers.get_by_role("button", name="Retry: stations")).to_be_visible()


@pytest.mark.matrix
def test_a_model_is_chosen_and_stale_cells_are_run(lab: Lab, model: ScriptedModel, tmp_path: Path) -> None:
    model.will_reply(say("Hello."))
    panel = open_panel(lab, model, tmp_path)
    lab.run(MAKES, READS)
    lab.wait_for_count_above(READS, None)
    lab.write(MAKES, "x = 5")
    lab.run(MAKES)
    stale = part(panel, "Stale cells")
    expect(stale).to_contain_text("x changed by cell 3")
    stale.get_by_role("button", name="Run them: stale cells").click()
    expect(stale).to_be_hidden()

    picker = panel.get_by_role("combobox", name="Model")
    picker.select_option("large")
    expect(panel.get_by_role("status")).to_contain_text("Model: large at")
    picker.select_option("More models of its server…")
    picker.select_option("scripted@here")
    expect(panel.get_by_role("status")).to_contain_text("Model: scripted@here at")
    lab.run(PROMPT)
    lab.wait_for_count_above(PROMPT, None)
    assert model.requests[-1].body["model"] == "scripted"


@pytest.mark.matrix
def test_it_can_be_read_and_used_by_everybody(lab: Lab, model: ScriptedModel, tmp_path: Path) -> None:
    model.will_reply(say("It is 4."))
    panel = open_panel(lab, model, tmp_path)
    lab.run(PROMPT)
    expect(part(panel, "Context")).to_be_visible()
    for theme in ("light", "dark"):
        lab.theme(theme)
        assert violations(lab.page, ".vibe-panel") == {}
        assert min(panel.evaluate(CONTRASTS).values()) >= READABLE
        lab.picture(panel, f"side-panel-{theme}")
    lab.theme("light")
