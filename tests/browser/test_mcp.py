"""A tool of an MCP server as a user meets it in JupyterLab: its card, how far it is, and what it gave."""

import json
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.arming import press
from tests.browser.lab import Lab
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.browser

LOAD, VIBE = 0, 1
SERVER = Path(__file__).parents[1] / "mcp" / "contents_server.py"


@pytest.mark.requirement("ui.display.mcp")
def test_a_call_is_allowed_on_its_card_shows_how_far_it_is_and_what_it_gave(lab: Lab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with ScriptedModel([call("mcp__lab__measure", gate="here"), say("It is **9 K** warmer in the south.")]) as model:
        command = json.dumps([sys.executable, str(SERVER)])
        (tmp_path / "config.toml").write_text(
            f'[[mcp_servers]]\nname = "lab"\ntransport = "stdio"\ncommand = {command}\nstartup_timeout_sec = 60\n',
            encoding="utf-8",
        )
        load = f"import os\nos.environ['VIBE_HOME'] = {str(tmp_path)!r}\n%load_ext vibe_jupyter"
        lab.open(load, f"%%vibe --model scripted@{model.url}\nHow warm is it?")
        lab.run(LOAD, VIBE)
        view = lab.output(VIBE).locator(".vibe-run")
        view.get_by_role("button", name="Accept 1 server").click()
        card = view.get_by_role("group", name="Approval: Call measure")
        expect(card).to_contain_text("of lab")
        expect(card).to_contain_text("calls an outside tool")
        expect(card.locator("pre")).to_contain_text('"gate": "here"')
        lab.pictures(card, "mcp-card")
        card.get_by_role("button", name="Edit").click()
        card.get_by_role("textbox", name="Edit the code before it runs").fill(json.dumps({"gate": str(gate)}))
        press(card.get_by_role("button", name="Allow once"))
        step = view.locator(".vibe-step", has_text="Calling measure of lab")
        expect(step).to_contain_text("3 of 10 · warming up")
        assert step.locator("progress").evaluate("bar => [bar.value, bar.max]") == [3, 10]
        lab.picture(step, "mcp-progress")
        gate.touch()
        lab.wait_for_count_above(VIBE, None)
        assert "Measured twice." in str(model.requests[-1].messages[-1]["content"])
    kept = lab.output(VIBE)
    expect(kept).to_contain_text("It is 9 K warmer in the south.")
    kept.get_by_text("2 steps").click()
    shown = kept.locator("details", has_text="Called measure of lab").last
    shown.locator("summary").first.click()
    expect(shown).to_contain_text("ok · 2 rows")
    expect(shown.get_by_role("row").nth(2)).to_contain_text("south")
    expect(shown).to_contain_text("Measured twice.")
    picture = shown.get_by_role("img", name="picture 1")
    assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [16, 16]
    with lab.page.expect_download() as waiting:
        shown.get_by_role("link", name="Download file 1.wav").click()
    assert Path(waiting.value.path()).read_bytes().startswith(b"RIFF")
    lab.picture(kept, "mcp-kept")
