"""A prompt, and what a card proposes, in a full editor: its saved text is what is sent or run."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.arming import press
from tests.browser.lab import Lab
from vibe_jupyter.testing import ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser

LOAD, PROMPT = 0, 1


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def write_and_save(lab: Lab, text: str) -> None:
    """Write another text in the editor that is open, save it, and close the editor."""
    editor = lab.page.locator(".vibe-full-editor")
    editor.locator(".cm-content").click()
    lab.page.keyboard.press("ControlOrMeta+a")
    lab.page.keyboard.type(text)
    lab.page.keyboard.press("ControlOrMeta+s")
    lab.page.evaluate("void window.jupyterapp.shell.currentWidget.close()")
    expect(editor).to_have_count(0)


@pytest.mark.requirement("magics.editor.external")
def test_what_is_saved_in_the_full_editor_is_sent_and_run(lab: Lab, model: ScriptedModel) -> None:
    model.will_reply(answer(calls=[call("run_code", code="print(6 * 6)")]), say("Done."))
    lab.open_again("%load_ext vibe_jupyter", f"%%vibe --model scripted@{model.url}\nfirst words")
    lab.run(LOAD)
    lab.cell(PROMPT).locator(".cm-content").click()
    lab.page.evaluate("void window.jupyterapp.commands.execute('vibe-jupyter:open-prompt-in-editor')")
    write_and_save(lab, "Count them, please.")
    lab.run(PROMPT)
    card = lab.output(PROMPT).locator(".vibe-run [data-vibe-approval]")
    expect(card).to_be_visible()
    assert model.requests[0].last_user_text.endswith("Count them, please.")
    card.get_by_role("button", name="Edit").click()
    card.get_by_role("button", name="Open in editor").click()
    write_and_save(lab, "print(6 * 7)")
    expect(card.locator("textarea.vibe-editor")).to_have_value("print(6 * 7)")
    press(card.get_by_role("button", name="(edited)"))
    lab.wait_for_count_above(PROMPT, None)
    assert "42" in model.requests[1].tool_results[0]
