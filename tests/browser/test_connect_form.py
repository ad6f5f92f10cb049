"""The form that connects a model, in the page: from a new notebook to an answer, and back where none comes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import VIEWPORT
from tests.browser.lab import Lab
from tests.browser.ready import wait_until
from tests.browser.slow_page import slow_page
from tests.browser.test_accessibility import looked
from tests.tiers import further
from vibe_jupyter.testing import ScriptedModel, call, say, status

pytestmark = pytest.mark.browser

KEY = "sk-very-secret-key-0123456789"
LOAD, PROMPT, SET_UP = 0, 1, 2
WELL = (say("Hello there."), call("echo", word="hello"))
LOCAL_SERVER = """\
import os, dataclasses
os.environ["VIBE_HOME"] = {home!r}
from vibe_jupyter.app import model_setup
model_setup.OFFERS = tuple(
    dataclasses.replace(one, api_base="{url}" if one.name == "llamacpp" else "http://127.0.0.1:1") if one.port else one
    for one in model_setup.OFFERS
)
%load_ext vibe_jupyter
"""
"""The usual ports of servers on this computer are those of one that is there, and of others that are not."""

NOTE_QUESTIONS = """() => {
    window.asked = false;
    const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    kernel.iopubMessage.connect((_, { header, content }) => {
        window.asked ||= header.msg_type === "vibe_bridge" && content.method === "hello";
    });
}"""
"""Notes whether the kernel asks again which pages there are."""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """The server on this computer."""
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture
def book(lab: Lab, model: ScriptedModel, tmp_path: Path) -> Lab:
    """A notebook without settings, the extension loaded, and a prompt that was not sent yet."""
    lab.open(LOCAL_SERVER.format(home=str(tmp_path), url=model.url), "%%vibe\nsay hello", "%vibe setup")
    lab.run(LOAD)
    lab.wait_for_count_above(LOAD, None)
    return lab


@pytest.fixture(params=["light", further("dark")])
def theme(request: pytest.FixtureRequest, book: Lab) -> Iterator[str]:
    """The colours of the page, which the tests after this one share."""
    book.theme(request.param)
    yield request.param
    book.theme("light")


def form(lab: Lab, position: int) -> Locator:
    return lab.output(position).get_by_role("group", name="Connect a model")


@pytest.mark.requirement("ui.stream.slow-page")
def test_a_form_whose_script_takes_long_to_load_shows_and_can_be_cancelled(book: Lab) -> None:
    shown = form(book, SET_UP)
    with slow_page(book):
        book.run(SET_UP)
        expect(shown.get_by_role("button", name="Cancel")).to_be_visible()
    shown.get_by_role("button", name="Cancel").click()
    book.wait_for_count_above(SET_UP, None)


def kept(lab: Lab, home: Path) -> str:
    """The notebook's outputs, and every file of the user's folder but that of keys."""
    files = [path for path in home.rglob("*") if path.is_file() and path.name != ".env"]
    outputs = [lab.outputs(position) for position in (LOAD, PROMPT, SET_UP)]
    return json.dumps(outputs) + "".join(path.read_text("utf-8", "replace") for path in files) + lab.save().read_text()


def test_a_prompt_without_a_model_is_sent_after_one_click_where_a_local_server_is_found(
    book: Lab, model: ScriptedModel, tmp_path: Path, theme: str
) -> None:
    model.will_reply(*WELL, say("Good morning."))
    book.run(PROMPT)
    shown = form(book, PROMPT)
    expect(shown.get_by_role("radio").first).to_be_checked()
    expect(shown.get_by_role("radiogroup", name="Provider").locator("label").first).to_have_text("llama.cppfound")
    expect(shown.get_by_role("radiogroup", name="Models").get_by_role("radio")).to_be_checked()
    assert model.requests == [], "nothing was sent but the question for its models"
    book.picture(shown, f"connect-form-{theme}")
    assert looked(shown, f"form-{theme}") == {}
    shown.get_by_role("button", name="Save and run the cell").click()
    expect(book.output(PROMPT).get_by_text("Good morning.")).to_be_visible()
    expect(book.output(PROMPT).get_by_text("Connected. Model: ")).to_be_visible()
    assert 'provider = "llamacpp"' in (tmp_path / "config.toml").read_text(encoding="utf-8")


def test_a_prompt_that_is_run_again_while_its_form_is_open_runs(book: Lab, model: ScriptedModel) -> None:
    model.will_reply(say("Good morning."))
    book.run(PROMPT)
    expect(form(book, PROMPT)).to_be_visible()
    book.write(PROMPT, f"%%vibe --model scripted@{model.url}\nsay hello")  # a model was named by hand
    book.run(PROMPT)
    expect(book.output(PROMPT).get_by_text("Good morning.")).to_be_visible()
    book.wait_until_idle()


@pytest.mark.parametrize("how", ["clear-all-cell-outputs", further("clear-cell-output"), further("delete-cell")])
def test_a_form_whose_output_is_cleared_is_cancelled_and_the_next_cell_runs(book: Lab, how: str) -> None:
    book.run(PROMPT)
    expect(form(book, PROMPT)).to_be_visible()
    book.page.evaluate(
        "name => { const command = `notebook:${name}`;"
        " window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1;"
        " return window.jupyterapp.commands.execute(command); }",
        how,
    )
    expect(book.page.locator(".vibe-connect")).to_have_count(0)
    book.wait_until_idle()
    if how != "delete-cell":
        expect(book.output(PROMPT)).to_contain_text("No model was connected. %vibe setup shows the form again.")


@pytest.mark.matrix  # on a busy machine the second window may answer alone in time, and counts as the first
def test_a_second_window_of_the_notebook_leaves_the_form_open(
    book: Lab, browser: Browser, model: ScriptedModel
) -> None:
    model.will_reply(*WELL, say("Good morning."))
    book.run(PROMPT)
    expect(form(book, PROMPT)).to_be_visible()
    book.page.evaluate(NOTE_QUESTIONS)
    context = browser.new_context(viewport=VIEWPORT)
    Lab(context.new_page(), book.server).show(book.save(), runs=True)
    wait_until(book.page, "() => window.asked")  # the kernel has heard that the page is there
    form(book, PROMPT).get_by_role("button", name="Save and run the cell").click()
    expect(book.output(PROMPT).get_by_text("Good morning.")).to_be_visible()
    context.close()
    book.wait_until_idle()


def test_a_wrong_key_leads_back_to_the_form_and_no_key_is_kept_but_where_the_user_says(
    book: Lab, model: ScriptedModel, tmp_path: Path
) -> None:
    book.run(SET_UP)
    shown = form(book, SET_UP)
    shown.get_by_text("Other server", exact=True).click()
    shown.get_by_role("textbox", name="Base URL").fill(model.url.removeprefix("http://"))
    key = shown.get_by_role("textbox", name="API key")
    key.fill("sk-wrong-key-0123456789")
    key.press("Tab")
    expect(shown.get_by_role("radiogroup", name="Models").get_by_role("radio")).to_be_checked()
    model.will_reply(status(401, {"error": {"message": "no such key"}}))
    shown.get_by_role("button", name="Test connection").click()
    expect(shown.get_by_role("alert")).to_have_text("It doesn't work yet. Nothing was saved.")
    expect(shown.get_by_text("rejected the API key")).to_be_visible()
    book.picture(shown, "connect-form-wrong-key")
    assert looked(shown, "form-failed") == {}
    assert not (tmp_path / "config.toml").exists()
    key.fill(KEY)
    shown.get_by_role("radio", name=".env").check()
    model.will_reply(*WELL)
    key.press("Enter")
    expect(book.output(SET_UP).get_by_text("Connected. Model: ")).to_be_visible()
    assert model.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY in (tmp_path / ".env").read_text(encoding="utf-8")
    model.will_reply(status(401, {"error": {"message": f"{KEY} was revoked"}}))
    book.run(PROMPT)
    expect(form(book, PROMPT)).to_contain_text("rejected the API key")
    form(book, PROMPT).get_by_role("button", name="Cancel").click()
    book.wait_for_count_above(PROMPT, None)
    expect(book.output(PROMPT).get_by_text("No model was connected.")).to_be_visible()
    text = kept(book, tmp_path)
    assert KEY not in text
    assert "sk-wrong" not in text


@pytest.mark.matrix
def test_the_form_is_reached_and_left_by_keys_alone_and_stop_ends_it(book: Lab) -> None:
    book.run(PROMPT)
    for drawn_anew, position in (("move-cell-down", SET_UP), ("move-cell-up", PROMPT)):
        expect(book.page.get_by_role("button", name="Vibe needs a model")).to_be_visible()
        book.page.evaluate("name => window.jupyterapp.commands.execute(`notebook:${name}`)", drawn_anew)
        expect(form(book, position)).to_be_visible()
    expect(book.page.get_by_role("button", name="Vibe needs a model")).to_be_visible()
    book.page.keyboard.press("F8")
    expect(form(book, PROMPT).get_by_role("button", name="Save and run the cell")).to_be_focused()
    book.page.keyboard.press("Escape")
    expect(book.output(PROMPT).get_by_text("RunFailed")).to_be_visible()
    assert book.page.evaluate("() => document.activeElement.closest('.jp-Notebook') !== null")
    book.run(SET_UP)
    expect(form(book, SET_UP)).to_be_visible()
    book.interrupt()
    book.wait_for_count_above(SET_UP, None)
    expect(form(book, SET_UP)).to_be_hidden()
