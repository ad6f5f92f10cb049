"""What the agent does to the open notebook, while the user is in it."""

import json
import secrets
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.bridge.cases import delete, edit, insert, move, set_source
from tests.browser.arming import press
from tests.browser.lab import Lab
from tests.browser.ready import wait_until
from vibe_jupyter.protocol.cells import source_hash
from vibe_jupyter.testing import ScriptedModel, call, hold

pytestmark = pytest.mark.browser

PANEL = '[...window.jupyterapp.shell.widgets("main")].find(widget => widget.content?.model?.cells)'
SOURCES = f"() => [...{PANEL}.content.model.cells].map(cell => cell.sharedModel.getSource())"
PRINTED = f"""id => {{
    const cell = [...{PANEL}.content.model.cells].find(cell => cell.id === id);
    const done = cell.executionState === "idle" && cell.executionCount !== null;
    return done && {{ text: cell.outputs.toJSON().map(output => [output.text].flat().join("")).join("") }};
}}"""
RUN = f"""id => {{
    const notebook = {PANEL}.content;
    const cell = notebook.widgets.find(cell => cell.model.id === id);
    void {PANEL}.sessionContext.session.kernel.ready;
    notebook.activeCellIndex = notebook.widgets.indexOf(cell);
    void window.jupyterapp.commands.execute("notebook:run-cell");
}}"""
ASK = "from tests.bridge.kernel_side import asker, play, wait_for_event\n"
DRIVER = "driver-1"


def show(lab: Lab, cells: dict[str, str]) -> Path:
    """A notebook of these cells by id, in front, its kernel idle."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source, id=name) for name, source in cells.items()],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    path = lab.server.folder / f"{secrets.token_hex(4)}.ipynb"
    nbformat.write(notebook, path)
    lab.open_file(path)
    return path


def steps(*requests: tuple[str, dict[str, Any]]) -> str:
    """Source of a cell that asks these one after another."""
    return f"{ASK}play({json.dumps(requests)!r})"


def edits(*all_edits: dict[str, Any]) -> str:
    """Source of a cell that does each of these edits in a request of its own."""
    return steps(*(("edit", edit(one)) for one in all_edits))


def run(page: Page, cell: str = DRIVER) -> None:
    """As Shift-Enter does; returns at once."""
    page.evaluate(RUN, cell)


def printed(page: Page, cell: str = DRIVER) -> str:
    """What a cell printed, once it is over."""
    return wait_until(page, PRINTED, arg=cell).json_value()["text"]


def answers(page: Page) -> list[dict[str, Any]]:
    """What the front end answered to `steps`."""
    return json.loads(printed(page).splitlines()[-1])


def undo(page: Page) -> None:
    """Press Z in command mode."""
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:undo-cell-action')")


def test_each_edit_of_the_agent_is_one_step_of_undo(lab: Lab) -> None:
    asked = edits(
        set_source("a", "one = 1", "one = 'eins'"),
        insert("x", "a", "new"),
        move("c", after=None),
        delete(("b", "two = 2")),
    )
    show(lab, {"a": "one = 1", "b": "two = 2", "c": "three = 3", DRIVER: asked})
    page = lab.page
    run(page)
    assert [answer["ok"] for answer in answers(page)] == [True] * 4
    assert page.evaluate(SOURCES)[:-1] == ["three = 3", "one = 'eins'", "new"]
    undo(page)
    assert page.evaluate(SOURCES)[:-1] == ["three = 3", "one = 'eins'", "new", "two = 2"]
    undo(page)
    assert page.evaluate(SOURCES)[:-1] == ["one = 'eins'", "new", "two = 2", "three = 3"]
    undo(page)
    assert page.evaluate(SOURCES)[:-1] == ["one = 'eins'", "two = 2", "three = 3"]
    lab.cell(0).locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+z")
    assert page.evaluate(SOURCES)[0] == "one = 1"


EDITS_GO_ON = f"""{ASK}
import time, hashlib
end = time.monotonic() + 20
while time.monotonic() < end:
    cells = asker.ask("cells", dict())["result"]["cells"]
    if any(cell["id"] == "mine" and cell["source"] for cell in cells):
        break  # the user has begun to type
source = ""
for number in range(30):
    changes = [dict(op="set_source", cell="other", expected=hashlib.sha256(source.encode()).hexdigest()[:8],
                    source=(source := f"x = {{number}}"))]
    changes.append(dict(op="insert", id=f"new-{{number}}", after=None, kind="code", source=f"# {{number}}"))
    answer = asker.ask("edit", dict(edits=changes))
    assert answer["ok"], answer
    time.sleep(0.03)
print("over")
"""


@pytest.mark.matrix
def test_someone_who_types_is_not_disturbed_by_edits_elsewhere(lab: Lab) -> None:
    filler = {f"filler-{number}": "\n".join(f"# {line}" for line in range(12)) for number in range(8)}
    show(lab, {"other": "", **filler, "mine": "", DRIVER: EDITS_GO_ON})
    page = lab.page
    run(page)
    editor = lab.cell(9).locator(".cm-content")
    editor.click()
    mine = page.locator(".jp-Cell.jp-mod-active .cm-content")
    top = mine.bounding_box()
    page.keyboard.type("the quick brown fox jumps over the lazy dog " * 4, delay=8)
    assert "over" in printed(page)
    expect(mine).to_be_focused()
    assert page.evaluate(f"() => {PANEL}.content.activeCell.model.id") == "mine"
    assert page.evaluate(f"() => {PANEL}.content.mode") == "edit"
    assert page.evaluate(f"() => {PANEL}.content.activeCell.model.sharedModel.getSource()") == (
        "the quick brown fox jumps over the lazy dog " * 4
    )
    bottom = mine.bounding_box()
    assert top is not None
    assert bottom is not None
    # Thirty cells were put in above, 1,000 px and more.
    assert abs(top["y"] - bottom["y"]) < 30, "the page scrolled away from under the caret"


@pytest.mark.requirement("notebook.rule.expect-hash")
def test_a_cell_the_person_changed_is_not_overwritten(lab: Lab) -> None:
    show(lab, {"mine": "x = 1", DRIVER: edits(set_source("mine", "x = 1", "x = 2"))})
    page = lab.page
    lab.cell(0).locator(".cm-content").click()
    page.keyboard.press("End")
    page.keyboard.type("0")
    run(page)
    (answer,) = answers(page)
    assert answer["error"]["code"] == "stale_cell"
    assert answer["error"]["data"] == {"cell": "mine", "source": "x = 10"}
    assert page.evaluate(SOURCES)[0] == "x = 10"


RUN_IT = f"""{ASK}
import hashlib
hello = asker.ask("hello", dict())["result"]
answer = asker.ask("run", dict(cell="mine", code_hash=hashlib.sha256(b"6 * 7").hexdigest()[:8]))
print(answer["ok"], answer.get("error"))
"""


def test_a_cell_is_run_without_leaving_the_cell_the_person_is_in(lab: Lab) -> None:
    show(lab, {"mine": "6 * 7", "typing": "", DRIVER: f"{RUN_IT}\nimport time; time.sleep(0.5)"})
    page = lab.page
    run(page)
    editor = lab.cell(1).locator(".cm-content")
    editor.click()
    page.keyboard.type("still here", delay=20)
    assert printed(page).startswith("True")
    expect(lab.output(0)).to_contain_text("42")
    expect(editor).to_be_focused()
    assert page.evaluate(SOURCES)[1] == "still here"
    lab.wait_for_count_above(0, None)
    assert lab.count(0) == 2


@pytest.mark.matrix
def test_two_tabs_both_answer_and_one_says_that_the_cell_ran_there(lab: Lab) -> None:
    path = show(lab, {DRIVER: f"{ASK}import json\nprint(json.dumps(asker.everyone()))"})
    other = lab.page.context.new_page()
    try:
        other.goto(f"{lab.server.url}/lab/workspaces/other/tree/{path.name}?reset", wait_until="domcontentloaded")
        wait_until(other, f"() => window.jupyterapp && {PANEL}?.sessionContext.session?.kernel?.status === 'idle'")
        run(lab.page)
        found = json.loads(printed(lab.page))
    finally:
        other.close()
        # The widget machinery of one tab hears of comms that the other opened.
        lab.complaints[:] = [one for one in lab.complaints if "Comm not found" not in one]
    assert sorted(one["ran"] for one in found) == [False, True]
    assert len({one["client"] for one in found}) == 2
    assert {one["path"] for one in found} == {path.name}


RENAMED = f"""{ASK}
import time
before = asker.ask("hello", dict())["result"]["path"]
after = before
end = time.monotonic() + 10
while after == before and time.monotonic() < end:
    time.sleep(0.05)  # the page has to be free for the new name
    after = asker.ask("hello", dict())["result"]["path"]
print(after)
"""


def test_a_renamed_notebook_says_its_new_name(lab: Lab) -> None:
    show(lab, {DRIVER: RENAMED})
    run(lab.page)
    expect(lab.cell(0).locator(".jp-InputPrompt")).to_have_text("[*]:")
    name = f"renamed-{secrets.token_hex(4)}.ipynb"
    lab.page.evaluate(f"name => {PANEL}.context.rename(name)", name)
    assert printed(lab.page).strip() == name


def test_the_kernel_can_ask_to_be_interrupted(lab: Lab) -> None:
    show(lab, {DRIVER: f'{ASK}import time\nasker.ask("interrupt", dict())\ntime.sleep(60)'})
    run(lab.page)
    expect(lab.output(0)).to_contain_text("KeyboardInterrupt")


@pytest.mark.matrix
def test_stop_in_the_output_interrupts_the_kernel_when_it_listens_to_nothing_else(lab: Lab) -> None:
    show(lab, {DRIVER: "import time\nprint('on')\ntime.sleep(60)"})
    run(lab.page)
    expect(lab.output(0)).to_contain_text("on")
    stop = "node => node.dispatchEvent(new CustomEvent('vibe-stop', { bubbles: true, cancelable: true }))"
    assert lab.output(0).evaluate(stop) is False, "nobody took it"
    expect(lab.output(0)).to_contain_text("KeyboardInterrupt")


STOP = '<div class="vibe-foot" data-state="working"><button data-vibe-action="stop">Stop</button></div>'
RELOADED = f"""%load_ext vibe_jupyter
{ASK}
from IPython.display import update_display
from vibe_jupyter.ui.page import discard_view, make_view
from vibe_jupyter.ui.run_output import RunOutput
pump = get_ipython().magics_manager.registry["VibeMagics"].pump
clicked = []
view = make_view()
def hear(_view, content, _buffers):
    if content["type"] == "alive":
        part = dict(id="foot", kind="foot", text="", html={STOP!r})
        view.send(dict(type="snapshot", parts=[part]))
    elif content["type"] == "command":
        clicked.append(content)
view.on_msg(hear)
output = RunOutput(view.model_id)
output.put({{"text/html": "<p>so far</p>", "text/plain": "so far"}})
with pump.serving():
    wait_for_event("hello", pump.wait)
    shown = dict(model_id=view.model_id, cell="driver-1", display_id=output.display_id)
    print(asker.ask("show", shown)["ok"])
    while not clicked:
        pump.wait(0.02)
update_display({{"text/plain": "what is kept"}}, display_id=output.display_id, raw=True)
discard_view(view)
print("the end")
"""


@pytest.mark.matrix
@pytest.mark.requirement("ui.reload.mid-run")
def test_after_a_reload_the_view_of_a_running_cell_is_shown_again_and_takes_clicks(lab: Lab) -> None:
    path = show(lab, {DRIVER: RELOADED})
    page = lab.page
    run(page)
    stop = lab.output(0).get_by_role("button", name="Stop")
    stop.wait_for()
    lab.save()
    lab.show(path, runs=True)
    stop.click()
    expect(lab.output(0)).to_contain_text("the end")
    expect(lab.output(0)).to_contain_text("what is kept")
    expect(stop).to_have_count(0)
    expect(lab.cell(0).locator(".jp-InputPrompt")).not_to_have_text("[*]:")


@pytest.mark.matrix
def test_the_palette_has_our_commands(lab: Lab) -> None:
    show(lab, {"a": "x = 1"})
    page = lab.page
    run(page, "a")
    printed(page, "a")
    page.evaluate("() => window.jupyterapp.commands.execute('vibe-jupyter:insert-cell')")
    assert page.evaluate(SOURCES)[1] == "%%vibe\n"
    page.locator(".jp-Cell.jp-mod-active .cm-editor.cm-focused").wait_for()
    page.keyboard.type("what is x?")
    assert page.evaluate(SOURCES)[1] == "%%vibe\nwhat is x?"
    page.evaluate("() => { void window.jupyterapp.commands.execute('vibe-jupyter:settings'); }")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("~/.vibe/config.toml")
    dialog.get_by_role("button", name="Close").click()


def test_the_hash_of_the_page_is_that_of_the_kernel(lab: Lab) -> None:
    sources = ["", "a" * 55, "b" * 56, "ä" * 64, "😀\n" * 1000]
    cells = {f"cell-{number}": source for number, source in enumerate(sources)}
    asked = steps(*(("edit", edit(delete((name, "other")))) for name in cells))
    same = edits(*(set_source(name, source, source) for name, source in cells.items()))
    show(lab, {**cells, "wrong": asked, DRIVER: same})
    run(lab.page)
    assert [answer["ok"] for answer in answers(lab.page)] == [True] * len(sources)
    assert {source_hash(source) for source in sources} == {source_hash(one) for one in lab.page.evaluate(SOURCES)[:5]}


@pytest.mark.requirement("ui.reload.mid-run")
def test_an_approval_that_waits_survives_a_reload_and_the_whole_run_is_kept(lab: Lab) -> None:
    with ScriptedModel() as model:
        model.will_reply(call("run_code", code="answer = 6 * 7\nanswer", keep=True), "It is **42**.")
        wish = f"%%vibe --model scripted@{model.url}\ncompute it"
        path = show(lab, {"load": "%load_ext vibe_jupyter", "wish": wish, DRIVER: "print('next:', answer)"})
        page = lab.page
        for cell in ("load", "wish"):
            run(page, cell)
        lab.output(1).get_by_role("button", name="Allow once").wait_for()
        lab.save()
        lab.show(path, runs=True)
        card = lab.output(1).get_by_role("group", name="Approval: Run code")
        press(card.get_by_role("button", name="Allow once"))
        expect(lab.output(1)).to_contain_text("It is 42.")
        expect(lab.output(1).locator(".vibe-run")).to_have_count(0)
        run(page)
        assert printed(page) == "next: 42\n"
        (output,) = lab.outputs(1)
        assert "<strong>42</strong>" in "".join(output["data"]["text/html"])
        lab.wait_for_count_above(1, 1)
        assert (lab.count(1), lab.count(2)) == (2, 3)
        assert len(model.requests) == 2


def test_a_cell_that_an_answer_names_is_a_link_whose_number_follows_the_cell(lab: Lab) -> None:
    go_on = threading.Event()
    with ScriptedModel() as model:
        model.will_reply(call("read_notebook"), hold(go_on, "The limit is set in {{target}}.\n\n", "No more."))
        wish = f"%%vibe --model scripted@{model.url}\nwhere is the limit set?"
        show(lab, {"load": "%load_ext vibe_jupyter", "wish": wish, "other": "a = 1", "target": "limit = 5"})
        for cell in ("load", "wish"):
            run(lab.page, cell)
        named = lab.output(1).locator(".vibe-cell")
        expect(named).to_have_text("cell 4")
        lab.page.evaluate(f"() => {PANEL}.content.model.sharedModel.moveCell(3, 2)")
        expect(named).to_have_text("cell 3")
        named.click()
        assert lab.page.evaluate(f"() => {PANEL}.content.activeCell.model.id") == "target"
        go_on.set()
        expect(lab.output(1).locator(".vibe-run")).to_have_count(0)
        expect(lab.output(1)).to_contain_text("The limit is set in cell 3.")
        lab.wait_until_idle()


@pytest.mark.matrix
def test_the_kernel_is_shown_as_busy_while_the_agent_works(lab: Lab) -> None:
    go_on = threading.Event()
    with ScriptedModel() as model:
        model.will_reply(call("read_notebook"), hold(go_on, "Read", " it."))
        wish = f"%%vibe --model scripted@{model.url}\nread it"
        show(lab, {"load": "%load_ext vibe_jupyter", "wish": wish})
        for cell in ("load", "wish"):
            run(lab.page, cell)
        expect(lab.output(1)).to_contain_text("Read")
        status = f"() => {PANEL}.sessionContext.session.kernel.status"
        wait_until(lab.page, f"() => ({status})() === 'busy'", timeout=3000)
        go_on.set()
        expect(lab.output(1)).to_contain_text("Read it.")
        lab.wait_until_idle()
