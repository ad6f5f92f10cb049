"""A model server that runs tools by itself, as a user meets it in JupyterLab: its card, its picture, its file."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.arming import longer, press
from tests.browser.lab import Lab
from tests.llm.agentic_server import END, Await, Chunk, Line, approval, produced, progress, serving

pytestmark = pytest.mark.browser

LOAD, VIBE = 0, 1
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAABgAAAAMCAIAAAD3UuoiAAAAF0lEQVR4nGNQSDhAFcQwatCoQaMG4UMAY3VoEPbZErQAAAAASUVORK5CYII="
SCRIPT: list[Line] = [
    Chunk("I compute it there."),
    approval(),
    Await("appr_1"),
    progress("calling", tool_type="code_execution", code="print(6 * 7)"),
    progress("complete", tool_type="code_execution", stdout="42 there\n", images_base64=[PICTURE]),
    produced(),
    produced(id="file_2", name="plot.png", mime_type="image/png", text=None, data_base64=PICTURE),
    Chunk("It is **42**."),
    *END,
]


@pytest.mark.matrix
def test_the_card_of_a_server_is_answered_and_what_it_made_is_seen_and_saved(lab: Lab, tmp_path: Path) -> None:
    with serving(SCRIPT) as server:
        (tmp_path / "config.toml").write_text(
            f'[[providers]]\nname = "rs"\napi_base = "{server.url}"\nbackend = "mistralrs"\n'
            '[[models]]\nname = "default"\nprovider = "rs"\nalias = "there"\n',
            encoding="utf-8",
        )
        load = f"import os\nos.environ['VIBE_HOME'] = {str(tmp_path)!r}\n%load_ext vibe_jupyter"
        lab.open(load, "%%vibe --model there\nwhat is 6 times 7?")
        lab.run(LOAD, VIBE)
        view = lab.output(VIBE).locator(".vibe-run")
        card = view.get_by_role("group", name="Approval: Run Python code")
        expect(card).to_contain_text("print(6 * 7)")
        expect(card).to_contain_text(f"{server.host} wants to run this by itself")
        press(longer(card))
        lab.wait_for_count_above(VIBE, None)
        assert server.decisions == [("appr_1", {"decision": "approve", "remember_for_session": True})]
        assert server.requests[0]["agent_permission"] == "ask"
    kept = lab.output(VIBE)
    expect(kept).to_contain_text("It is 42.")
    kept.locator("summary").first.click()
    step = kept.locator("details", has_text="Ran Python code").last
    step.locator("summary").first.click()
    expect(step).to_contain_text(f"ran on {server.host}")
    expect(step).to_contain_text("42 there")
    picture = step.get_by_role("img", name="picture 1 of 1")
    assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [24, 12]
    table = kept.locator("details", has_text="table.csv").last
    table.locator("summary").first.click()
    with lab.page.expect_download() as waiting:
        table.get_by_role("link", name="Download table.csv").click()
    assert waiting.value.suggested_filename == "table.csv"
    assert Path(waiting.value.path()).read_text(encoding="utf-8") == "a,b\n1,2\n"
    (here,) = tmp_path.glob("logs/session/*/files/table.csv")
    assert here.read_text(encoding="utf-8") == "a,b\n1,2\n"
    expect(table).to_contain_text(str(here))
