"""The agent works in Notebook 7: real pages, real kernels, a user who clicks, types and takes back.

The page's part is the same code as in JupyterLab, where `make test` proves the same. Here it shows once that the
shell, notebook and kernel of this front end are found, clicked in and interrupted; the rest is for `make test-matrix`.
"""

import threading
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.classic import Classic
from tests.browser.conftest import VIEWPORT
from tests.browser.lab import Lab
from tests.browser.notebook_page import LOAD, PROMPT, NotebookPage, open_prompt
from tests.browser.ready import wait_until
from tests.browser.server import LabServer
from tests.patience import patient
from vibe_jupyter.testing import ScriptedModel, answer, call, hold, say

pytestmark = pytest.mark.browser

ALL = "--yes=edit_cell,insert_cell,move_cells,delete_cells,run_cells,run_code"
PROMPT_BACK = patient(15.0)
"""Seconds, far fewer than what is interrupted would take, and enough for any machine."""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def loaded_classic(browser: Browser, server: LabServer) -> Iterator[Classic]:
    context = browser.new_context(viewport=VIEWPORT)
    yield Classic(context.new_page(), server)
    context.close()


@pytest.fixture
def classic(loaded_classic: Classic) -> Iterator[Classic]:
    """Notebook 7 with nothing open. Errors in the console of the page fail the test."""
    loaded_classic.complaints.clear()
    yield loaded_classic
    loaded_classic.close()
    assert loaded_classic.own_complaints == []


@pytest.fixture(params=["JupyterLab", pytest.param("Notebook 7", marks=pytest.mark.matrix)])
def front_end(request: pytest.FixtureRequest) -> Lab:
    return request.getfixturevalue("lab" if request.param == "JupyterLab" else "classic")


@pytest.mark.matrix
def test_five_tools_work_with_a_click_for_each(classic: Classic, model: ScriptedModel) -> None:
    book = open_prompt(classic, model, "first = 1", "second = 2\nsecond", "third = 3", "fourth = 4")
    prompt, first, second, third, fourth = book.ids[1:]
    model.will_reply(
        call("read_notebook"),
        call("insert_cell", source="fresh = 11\nfresh"),
        call("edit_cell", cell=second, source="second = 22\nsecond", run=True),
        call("run_cells", cells=[first]),
        call("move_cells", cells=[fourth], after=prompt),
        call("delete_cells", cells=[third]),
        say("That is all."),
    )
    book.run(LOAD, PROMPT)
    for card in ("Insert a new cell below", "Edit and run cell #5", "Run cell #4", "Move cell #7", "Delete cell"):
        book.allow(card)
    book.over()
    done = book.cells()
    assert [cell["source"] for cell in done[2:]] == [
        "fourth = 4",
        "fresh = 11\nfresh",
        "first = 1",
        "second = 22\nsecond",
    ]
    assert [cell["id"] for cell in done] == [*book.ids[:2], fourth, done[3]["id"], first, second]
    (shown,) = done[5]["outputs"]
    assert shown["data"]["text/plain"] == "22"
    counts = [cell["count"] for cell in done if cell["count"] is not None]
    assert len(counts) == len(set(counts)) == 4
    assert "That is all." in book.output(PROMPT).inner_text()
    assert classic.page.evaluate("window.jupyterapp.name") == "Jupyter Notebook"


WHERE = """panel => [
    panel.content.activeCell.model.id,
    panel.content.mode,
    panel.content.widgets.filter(cell => panel.content.isSelectedOrActive(cell)).map(cell => cell.model.id),
    panel.content.activeCell.editor.hasFocus(),
    panel.content.activeCell.editor.getSelection(),
]"""


@pytest.mark.requirement("notebook.rule.undo")
def test_each_edit_is_one_step_of_undo_and_disturbs_nobody(front_end: Lab, model: ScriptedModel) -> None:
    go_on, page = threading.Event(), front_end.page
    book = open_prompt(front_end, model, "my = 'own words'", "second = 2", "third = 3", "fourth = 4", options=ALL)
    prompt, mine, second, third, fourth = book.ids[1:]
    model.will_reply(
        answer("I begin.", [call("read_notebook")], hold=go_on),
        call("insert_cell", source="fresh = 1", after=prompt),
        call("edit_cell", cell=second, source="second = 22"),
        call("edit_cell", cell=second, source="second = 222"),
        call("move_cells", cells=[fourth, second], after=prompt),
        call("delete_cells", cells=[third]),
        say("That is all."),
    )
    book.run(LOAD, PROMPT)
    expect(book.view.get_by_text("I begin.")).to_be_visible()
    book.cell(2).locator(".cm-content").click()
    page.keyboard.press("End")
    for _ in range(5):
        page.keyboard.press("Shift+ArrowLeft")
    before = book.call(WHERE)
    assert before[:4] == [mine, "edit", [mine], True]
    go_on.set()
    book.over()
    assert book.call(WHERE) == before
    assert book.sources()[2:] == ["fourth = 4", "second = 222", "fresh = 1", "my = 'own words'"]
    page.keyboard.press("Escape")
    steps = [book.sources()[2:]]
    for _ in range(3):
        page.keyboard.press("z")
        steps.append(book.sources()[2:])
    moved, own = ["fourth = 4", "second = 222"], "my = 'own words'"
    assert steps[1:] == [
        [*moved, "fresh = 1", own, "third = 3"],
        ["fresh = 1", own, "second = 222", "third = 3", "fourth = 4"],
        [own, "second = 222", "third = 3", "fourth = 4"],
    ]


@pytest.mark.matrix
@pytest.mark.requirement("notebook.rule.undo")
def test_an_edit_is_taken_back_inside_its_cell(front_end: Lab, model: ScriptedModel) -> None:
    book = open_prompt(front_end, model, "value = 1", options=ALL)
    model.will_reply(
        call("read_notebook"),
        call("edit_cell", cell=book.ids[2], source="value = 2\nother = 3"),
        call("edit_cell", cell=book.ids[2], old_string="other = 3", new_string="other = 4"),
        say("That is all."),
    )
    book.run(LOAD, PROMPT)
    book.over()
    assert book.sources()[2] == "value = 2\nother = 4"
    book.cell(2).locator(".cm-content").click()
    for expected in ("value = 2\nother = 3", "value = 1"):
        front_end.page.keyboard.press("ControlOrMeta+z")
        assert book.sources()[2] == expected


@pytest.mark.matrix
def test_a_card_that_waits_survives_a_reload_of_the_page(classic: Classic, model: ScriptedModel) -> None:
    book = open_prompt(classic, model, "print('next:', answer)")
    model.will_reply(call("run_code", code="answer = 6 * 7\nanswer", keep=True), "It is **42**.")
    book.run(LOAD, PROMPT)
    expect(book.card("Approval: Run code")).to_be_visible()
    path = classic.save()
    # A run changes what is shown; the page may ask whether to leave it.
    classic.page.once("dialog", lambda dialog: dialog.accept())
    classic.page.goto(f"{classic.server.url}/notebooks/{path.name}", wait_until="domcontentloaded")
    wait_until(classic.page, "() => window.jupyterapp?.shell.currentWidget?.content?.widgets?.length === 3")
    book = NotebookPage(classic, path.name)
    book.allow("Approval: Run code")
    expect(book.output(PROMPT)).to_contain_text("It is 42.")
    expect(book.view).to_have_count(0)
    book.run(2)
    book.over(2)
    assert book.text(2) == "next: 42\n"
    assert len(model.requests) == 2


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["Stop", "■"])
@pytest.mark.parametrize("moment", ["the model speaks", "a card waits", "code runs"])
def test_a_run_is_ended(classic: Classic, model: ScriptedModel, moment: str, how: str) -> None:
    book = open_prompt(classic, model, "6 * 7")
    slow = call("run_code", code="import time\nprint('under way', flush=True)\ntime.sleep(60)")
    model.will_reply(hold(threading.Event(), "Thinking") if moment == "the model speaks" else slow)
    book.run(LOAD, PROMPT)
    if moment == "the model speaks":
        expect(book.view.get_by_text("Thinking")).to_be_visible()
    else:
        expect(book.card("Approval: Run code")).to_be_visible()
    if moment == "code runs":
        book.allow("Approval: Run code")
        expect(book.view).to_contain_text("under way")
    book.run(2)
    pressed = time.monotonic()
    if how == "Stop":
        book.view.get_by_role("button", name="Stop").click()
    else:
        classic.interrupt()
    book.over()
    assert time.monotonic() - pressed < PROMPT_BACK
    assert book.counts()[2] is None  # it waited behind the run
    book.run(2)
    book.over(2)
    assert book.outputs(2)[0]["data"]["text/plain"] == "42"
    expect(book.view).to_have_count(0)


@pytest.mark.matrix
def test_a_text_prompt_opens_in_the_cell_the_agent_runs(classic: Classic, model: ScriptedModel) -> None:
    book = open_prompt(classic, model, "name = input('Who? ')\nprint('hello', name)", options=ALL)
    model.will_reply(call("read_notebook"), call("run_cells", cells=[book.ids[2]]), say("That is all."))
    book.run(LOAD, PROMPT)
    box = book.output(2).locator("input.jp-Stdin-input")
    box.fill("Ada")
    box.press("Enter")
    book.over()
    assert "hello Ada" in book.text(2)
    assert "hello Ada" in model.requests[2].tool_results[-1]


@pytest.mark.matrix
def test_the_palette_has_our_commands_and_they_work(front_end: Lab, model: ScriptedModel) -> None:
    book, page = open_prompt(front_end, model), front_end.page
    book.command("apputils:activate-command-palette")
    palette = page.locator(".jp-ModalCommandPalette")
    page.keyboard.type("%%vibe")
    palette.get_by_text("Insert a %%vibe cell").click()
    page.locator(".jp-Cell.jp-mod-active .cm-editor.cm-focused").wait_for()
    page.keyboard.type("hello")
    assert book.sources()[1] == "%%vibe\nhello"
    page.evaluate("() => { void window.jupyterapp.commands.execute('vibe-jupyter:settings'); }")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("~/.vibe/config.toml")
    dialog.get_by_role("button", name="Close").click()
    model.will_reply(hold(threading.Event(), "Thinking"))
    book.run(LOAD, PROMPT + 1)
    expect(book.view.get_by_text("Thinking")).to_be_visible()
    page.evaluate("() => { void window.jupyterapp.commands.execute('vibe-jupyter:stop'); }")
    book.over()
    expect(book.view).to_have_count(0)
