"""What happens to a run when its notebook, its cell or its kernel goes through something."""

import contextlib
import os
import re
import signal
import threading
from collections.abc import Generator, Iterator
from urllib.parse import urlsplit

import psutil
import pytest
from playwright.sync_api import Route, expect

from tests.browser.lab import Lab
from tests.browser.notebook_page import PROMPT, NotebookPage, open_alone, open_prompt
from tests.browser.ready import wait_until
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser

EDIT = "--yes=edit_cell,insert_cell"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


@pytest.mark.matrix
def test_a_notebook_renamed_meanwhile_is_read_and_written_under_its_new_name(lab: Lab, model: ScriptedModel) -> None:
    book = open_alone(lab, model, "here = 1")
    model.will_reply(
        call("read_notebook"),
        call("edit_cell", cell=book.ids[2], source="here = 2", run=True),
        call("read_notebook"),
        call("read_file", path=f"renamed-{book.path}"),
        say("Done."),
    )
    book.run(0, PROMPT)
    expect(book.card("Edit and run cell #3")).to_be_visible()
    old = book.path
    book.call(f"panel => panel.context.rename('renamed-{old}')")
    book.path = f"renamed-{old}"
    book.allow("Edit and run cell #3")
    book.over()
    results = model.requests[-1].tool_results
    assert results[0].startswith(f"{old}: 3 cells")
    assert "] ok in " in results[1]
    assert results[2].startswith(f"renamed-{old}: 3 cells")
    assert "here = 2" in results[3]
    assert book.sources()[2] == "here = 2"
    saved = lab.save()
    assert "here = 2" in saved.read_text(encoding="utf-8")
    assert not (lab.server.folder / old).exists()


def close_tab(book: NotebookPage, *, save: bool) -> None:
    """As with the cross on the tab."""
    if save:
        book.call("panel => panel.context.save()")
    book.call("panel => { panel.context.model.dirty = false; panel.close(); }")
    expect(book.page.locator(f'[id="{book.panel}"]')).to_have_count(0)


def reopen(lab: Lab, book: NotebookPage) -> NotebookPage:
    lab.page.evaluate("path => { void window.jupyterapp.commands.execute('docmanager:open', { path }); }", book.path)
    again = "[...window.jupyterapp.shell.widgets('main')].find(widget => widget.context?.path === path)"
    wait_until(
        lab.page,
        f"path => {again}?.content.widgets.length > 0 && {again}.sessionContext.session?.kernel",
        arg=book.path,
    )
    return NotebookPage(lab, book.path)


@pytest.mark.matrix
def test_a_card_waits_for_the_tab_to_be_opened_again(lab: Lab, model: ScriptedModel) -> None:
    book = open_alone(lab, model, "here = 1")
    model.will_reply(
        call("read_notebook"), call("edit_cell", cell=book.ids[2], source="here = 2", run=True), say("All well.")
    )
    book.run(0, PROMPT)
    expect(book.card("Edit and run cell #3")).to_be_visible()
    close_tab(book, save=True)
    book = reopen(lab, book)
    book.allow("Edit and run cell #3")
    expect(book.output(PROMPT)).to_contain_text("All well.")
    expect(book.output(PROMPT).locator(".vibe-run")).to_have_count(0)
    book.over(2)
    assert book.sources()[2] == "here = 2"
    assert [list(output["data"]) for output in book.outputs(PROMPT)] == [["text/html", "text/plain"]]


@pytest.mark.matrix
def test_a_run_whose_tab_is_closed_ends_clearly_and_writes_nowhere_else(lab: Lab, model: ScriptedModel) -> None:
    go_on = threading.Event()
    book = open_alone(lab, model, "here = 1", options=EDIT)
    model.will_reply(
        call("read_notebook"),
        answer("Thinking", [call("edit_cell", cell=book.ids[2], source="here = 2")], hold=go_on),
        call("insert_cell", source="new = 1"),
        call("run_cells", cells=[book.ids[2]]),
        say("I cannot."),
    )
    book.run(0, PROMPT)
    expect(book.view).to_contain_text("Thinking")
    close_tab(book, save=True)
    path = lab.server.folder / book.path
    before = path.read_bytes()
    go_on.set()
    model.wait_for_request(5, timeout=30)
    assert all("the notebook was closed" in result for result in model.requests[-1].tool_results[1:])
    assert path.read_bytes() == before
    book = reopen(lab, book)
    expect(book.output(PROMPT)).to_contain_text("I cannot.")
    lab.complaints[:] = [words for words in lab.complaints if "Comm not found" not in words]
    assert [list(output["data"]) for output in book.outputs(PROMPT)] == [["text/html", "text/plain"]]
    assert book.sources()[2] == "here = 1"
    model.will_reply(call("edit_cell", cell=book.ids[2], source="here = 3"), say("Now."))
    book.run(PROMPT)
    book.over()
    assert book.sources()[2] == "here = 3"


@pytest.mark.matrix
def test_a_cell_deleted_while_the_agent_runs_it_runs_to_its_end_and_nothing_else_suffers(
    lab: Lab, model: ScriptedModel
) -> None:
    gate = lab.server.folder / "delete-gate"
    gate.unlink(missing_ok=True)
    waits = "import os, time\nprint('begun')\nwhile not os.path.exists('delete-gate'):\n    time.sleep(0.02)\nx = 42\nx"
    book = open_alone(lab, model, waits, "x", options="--yes=run_cells,edit_cell")
    model.will_reply(
        call("read_notebook"),
        call("run_cells", cells=[book.ids[2]]),
        call("edit_cell", cell=book.ids[2], source="gone"),
        say("It is gone."),
    )
    book.run(0, PROMPT)
    expect(book.output(2)).to_contain_text("begun")
    book.front(2)
    lab.page.keyboard.press("d")
    lab.page.keyboard.press("d")
    assert len(book.cells()) == 3
    book.run(2)
    gate.touch()
    book.over(PROMPT)
    book.over(3)  # its number before the one above it was deleted
    assert book.cells()[2]["outputs"][0]["data"]["text/plain"] == "42"
    _, ran, edited = model.requests[-1].tool_results
    assert "ok in" in ran
    assert "begun\n42" in ran
    assert "There is no cell" in edited
    assert book.outputs(PROMPT)[0]["output_type"] == "display_data"


@pytest.mark.matrix
@pytest.mark.parametrize("keys", [("d", "d", "z"), ("ControlOrMeta+Shift+ArrowDown",)], ids=["deleted", "moved"])
def test_a_prompts_cell_brought_back_or_moved_still_takes_the_click_and_the_end(
    lab: Lab, model: ScriptedModel, keys: tuple[str, ...]
) -> None:
    book = open_alone(lab, model, "print('ran')")
    model.will_reply(call("run_cells", cells=[book.ids[2]]), say("All well."))
    book.run(0, PROMPT)
    expect(book.card("Run cell #3")).to_be_visible()
    book.front(PROMPT)
    for key in keys:
        lab.page.keyboard.press(key)
    book.allow("Run cell")
    expect(book.page.get_by_text("All well.")).to_be_visible()
    expect(book.view).to_have_count(0)  # the kept form stands in its place
    prompt, other = (book.find(book.ids[place]) for place in (PROMPT, 2))
    assert book.text(other) == "ran\n"
    # The page is asked to put it there, since the cell that the kernel wrote to is gone.
    book.wait(f"panel => panel.content.model.cells.get({prompt}).outputs.toJSON().some(one => 'text/html' in one.data)")
    assert [list(output["data"]) for output in book.outputs(prompt)] == [["text/html", "text/plain"]]


def test_a_card_whose_cell_was_deleted_is_named_in_the_toolbar_which_ends_its_run(
    lab: Lab, model: ScriptedModel
) -> None:
    book = open_prompt(lab, model, "here = 1")
    model.will_reply(call("edit_cell", cell=book.ids[2], source="here = 2", run=True))
    book.run(0, PROMPT)
    expect(book.card("Edit and run cell")).to_be_visible()
    chip = lab.page.locator(".vibe-approval-chip")
    book.front(PROMPT)
    lab.page.keyboard.press("d")
    lab.page.keyboard.press("d")
    expect(chip).to_contain_text("Vibe waits in a cell that is gone")
    lab.page.keyboard.press("z")
    expect(chip).to_contain_text("Vibe needs your approval")
    expect(book.card("Edit and run cell")).to_be_visible()
    book.front(PROMPT)
    lab.page.keyboard.press("d")
    lab.page.keyboard.press("d")
    chip.filter(has_text="Vibe waits in a cell that is gone").click()
    expect(chip).to_be_hidden()
    lab.wait_until_idle()
    assert book.sources()[1:] == ["here = 1"]
    assert len(model.requests) == 1


@pytest.mark.parametrize("command", ["notebook:clear-all-cell-outputs", further("notebook:clear-cell-output")])
def test_a_card_comes_back_when_the_outputs_are_cleared_and_the_answer_stands_there(
    lab: Lab, model: ScriptedModel, command: str
) -> None:
    book = open_prompt(lab, model, "print('as it was')")
    model.will_reply(call("edit_cell", cell=book.ids[2], source="print('changed')", run=True), say("All well."))
    book.run(0, PROMPT)
    card = book.card("Edit and run cell")
    expect(card).to_be_visible()
    card.evaluate("card => { card.dataset.before = ''; }")
    book.front(PROMPT)
    book.command(command)
    expect(card).to_be_visible()
    expect(card).not_to_have_attribute("data-before", "")
    book.allow("Edit and run cell")
    book.over()
    assert book.text(2) == "changed\n"
    assert [list(output["data"]) for output in book.outputs(PROMPT)] == [["text/html", "text/plain"]]
    expect(book.output(PROMPT)).to_contain_text("All well.")


def test_a_card_comes_back_when_the_notebook_is_read_from_its_file_again_and_the_answer_stands_there(
    lab: Lab, model: ScriptedModel
) -> None:
    book = open_alone(lab, model, "here = 1")
    model.will_reply(call("edit_cell", cell=book.ids[2], source="here = 2", run=True), say("All well."))
    book.run(0, PROMPT)
    card = book.card("Edit and run cell")
    expect(card).to_be_visible()
    card.evaluate("card => { card.dataset.before = ''; }")
    book.call("panel => panel.context.revert()")
    expect(card).to_be_visible()
    expect(card).not_to_have_attribute("data-before", "")
    expect(lab.page.locator(".vibe-approval-chip")).to_contain_text("Vibe needs your approval")
    book.allow("Edit and run cell")
    book.over()
    assert book.sources()[2] == "here = 2"
    assert [list(output["data"]) for output in book.outputs(PROMPT)] == [["text/html", "text/plain"]]
    expect(book.output(PROMPT)).to_contain_text("All well.")


@pytest.mark.requirement("ui.approval.lost-kernel")
@pytest.mark.parametrize("how", ["killed", further("restarted")])
def test_a_kernel_that_goes_in_mid_run_leaves_a_notebook_that_works(lab: Lab, model: ScriptedModel, how: str) -> None:
    book = open_alone(lab, model, "import os; os.getpid()")
    model.will_reply(call("read_notebook"), call("run_cells", cells=[book.ids[2]]))
    book.run(2)
    book.over(2)
    pid = int(book.outputs(2)[0]["data"]["text/plain"])
    book.run(0, PROMPT)
    expect(book.card(r"Run cell \[")).to_be_visible()
    if how == "restarted":
        book.command_later("kernelmenu:restart")
        lab.page.get_by_role("dialog").get_by_role("button", name="Confirm Kernel Restart").click()
    else:
        os.kill(pid, signal.SIGKILL)
    expect(book.view).to_contain_text("Kernel restarted · Run cells above and continue")
    expect(book.view.locator("button:enabled")).to_have_count(0)
    expect(book.view.locator(".vibe-card > footer")).to_have_count(0)
    expect(lab.page.locator(".vibe-approval-chip")).to_be_hidden()
    expect(lab.page.locator(".vibe-tab-waiting")).to_have_count(0)
    assert not lab.page.evaluate("() => window.jupyterapp.commands.isEnabled('vibe-jupyter:next-card')")
    lab.pictures(book.cell(PROMPT), f"u4-kernel-{how}")
    dialog = lab.page.get_by_role("dialog")
    if how == "killed":
        expect(dialog).to_contain_text("restart")
        dialog.get_by_role("button").last.click()
    book.wait_for_kernel()
    expect(book.cell(PROMPT).locator(".jp-InputPrompt")).not_to_have_text("[*]:")
    model.will_reply(call("run_cells", cells=[book.ids[2]]), say("Again."))
    book.run(0, PROMPT)
    expect(book.view).not_to_contain_text("Kernel restarted · Run cells above and continue")
    book.allow(r"Run cell \[")
    book.over()
    assert int(book.outputs(2)[0]["data"]["text/plain"]) != pid
    expect(book.output(PROMPT)).to_contain_text("Again.")
    lab.complaints[:] = [words for words in lab.complaints if "Comm not found" not in words]


@pytest.mark.matrix  # tests/sandbox/test_exploring_runs.py has it without a page
@pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
@pytest.mark.requirement("ui.approval.trial", "ui.footer.waiting")
def test_a_try_in_the_sandbox_looks_like_one_and_no_clock_runs_while_its_card_waits(
    lab: Lab, model: ScriptedModel
) -> None:
    book = open_alone(lab, model, "import os; os.environ['VIBE_SANDBOX__EXPLORE'] = 'sandbox'")
    script = "echo $((6 * 7))x; sleep 2; head -c 9 /etc/shadow; exec 3<> /dev/tcp/127.0.0.1/9; true"
    (lab.server.folder / "look.sh").write_text(script, encoding="utf-8")
    model.will_reply(call("bash", command="bash look.sh"), say("Denied."))
    book.run(2, 0, PROMPT)
    step = book.view.locator(".vibe-step")
    expect(step).to_contain_text("Trying it in a sandbox")
    expect(step.locator(".vibe-came")).to_have_text("nothing can change")
    lab.picture(book.cell(PROMPT), "u1-try")
    card = book.card("Run a command")
    expect(card).to_contain_text("needs the network and files outside the project")
    expect(card.locator(".vibe-why")).not_to_contain_text("/etc")
    expect(book.view.locator(".vibe-clock")).to_be_visible()
    expect(book.view.locator(".vibe-clock[data-vibe-clock]")).to_have_count(0)
    lab.pictures(book.cell(PROMPT), "u1-card")
    card.get_by_role("button", name="Deny…").click()
    card.get_by_role("textbox").press("Enter")
    book.over()
    expect(book.output(PROMPT)).not_to_contain_text("42x")
    lab.pictures(book.cell(PROMPT), "u7-waited")


@pytest.mark.timeout(240)  # two pages
@pytest.mark.requirement("ui.static.every-view")
def test_the_end_of_a_run_reaches_a_second_tab_that_was_opened_in_the_middle(lab: Lab, model: ScriptedModel) -> None:
    book = open_alone(lab, model)
    model.will_reply(call("run_code", code="answer = 6 * 7", keep=True), say("It is **42**."))
    book.run(0, PROMPT)
    expect(book.card("Run code")).to_be_visible()
    path = lab.save()
    other = Lab(lab.page.context.new_page(), lab.server)
    try:
        other.show(path, runs=True)
        expect(other.output(PROMPT)).to_contain_text("Run code")
        book.allow("Run code")
        book.over()
        for tab in (lab, other):
            expect(tab.output(PROMPT)).to_contain_text("It is 42.")
            expect(tab.output(PROMPT)).not_to_contain_text("Not finished")
            expect(tab.page.locator(".vibe-approval-chip")).to_be_hidden()
        (kept,) = other.outputs(PROMPT)
        assert kept == book.outputs(PROMPT)[0]
    finally:
        other.page.close()


def test_no_step_goes_on_after_its_kernel_was_restarted(lab: Lab, model: ScriptedModel) -> None:
    book = open_alone(lab, model, "print('on')\nwhile True: pass", options="--yes=run_cells")
    model.will_reply(call("run_cells", cells=[book.ids[2]]))
    book.run(0, PROMPT)
    book.wait_for_text(2, "on\n")
    expect(book.view.locator('.vibe-step[data-outcome="running"]')).to_be_visible()
    book.command_later("kernelmenu:restart")
    lab.page.get_by_role("dialog").get_by_role("button", name="Confirm Kernel Restart").click()
    expect(book.view).to_contain_text("Kernel restarted · Run cells above and continue")
    expect(book.view.locator(".vibe-step")).to_contain_text("interrupted")
    expect(book.view.locator('[data-outcome="running"]')).to_have_count(0)
    book.wait_for_kernel()
    (kept,) = book.outputs(PROMPT)
    assert "Ran cell" in kept["data"]["text/html"]
    assert "Running" not in kept["data"]["text/html"]
    lab.complaints[:] = [words for words in lab.complaints if "Comm not found" not in words]


SENT = """panel => {
    const { sessionContext } = panel;
    window.sent = [];
    sessionContext.session.kernel.anyMessage.connect((_, { direction, msg }) => {
        if (direction === "send") window.sent.push([sessionContext.session.kernel.status, msg.header.msg_type]);
    });
}"""
"""Notes what the page sends from here on, and in which state the kernel was then."""


@pytest.mark.matrix
def test_what_the_page_has_to_say_of_a_run_is_not_sent_to_the_kernel_after_it(lab: Lab, model: ScriptedModel) -> None:
    book = open_alone(lab, model, "import os\nprint(os.getpid())\nwhile True: pass", options="--yes=run_cells")
    model.will_reply(call("run_cells", cells=[book.ids[2]]))
    book.run(0, PROMPT)
    expect(book.output(2)).to_contain_text(re.compile(r"\d+\n"))
    book.call(SENT)
    os.kill(int(book.text(2)), signal.SIGKILL)
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("restart")
    dialog.get_by_role("button").last.click()
    book.wait_for_kernel()
    expect(book.cell(2).locator(".jp-InputPrompt")).not_to_have_text("[*]:")
    sent = lab.page.evaluate("() => window.sent")
    assert [one for one in sent if one[1].startswith("vibe_")] == []


TOO_LARGE = 400_000
"""Characters of a notebook that does not fit on the disk."""


@contextlib.contextmanager
def disk_full(lab: Lab) -> Generator[None]:
    """No file of the server may grow beyond 300 kB, as on a disk without room."""
    port = str(urlsplit(lab.server.url).port)
    (server,) = [one for one in psutil.Process().children() if any(port in word for word in one.cmdline())]
    before = server.rlimit(psutil.RLIMIT_FSIZE)
    server.rlimit(psutil.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        yield
    finally:
        server.rlimit(psutil.RLIMIT_FSIZE, before)


@pytest.mark.matrix
@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_FSIZE"), reason="limits of a process are set as on Linux")
def test_where_the_disk_is_full_jupyterlab_says_so_and_the_tools_say_nothing_of_saving(
    lab: Lab, model: ScriptedModel
) -> None:
    book = open_alone(lab, model, "here = 1", f"print('x' * {TOO_LARGE})", options=EDIT)
    path = lab.server.folder / book.path
    model.will_reply(call("read_notebook"), call("edit_cell", cell=book.ids[2], source="here = 2"), say("Written."))
    book.run(3, 0, PROMPT)
    book.over()
    before = path.read_bytes()
    with disk_full(lab):
        book.command_later("docmanager:save")
        dialog = lab.page.get_by_role("dialog")
        expect(dialog).to_contain_text("File Save Error")
        dialog.get_by_role("button").last.click()
    assert path.read_bytes() == before
    assert book.call("panel => panel.context.model.dirty")
    assert not any("saved" in result.lower() for result in model.requests[-1].tool_results)
    saved = lab.save().read_text(encoding="utf-8")
    assert len(saved) > TOO_LARGE
    assert "here = 2" in saved
    lab.complaints[:] = [words for words in lab.complaints if "File too large" not in words and "500" not in words]


@pytest.mark.matrix
def test_a_notebook_that_cannot_be_written_is_edited_as_by_hand_and_jupyterlab_says_it_is_not_saved(
    lab: Lab, model: ScriptedModel
) -> None:
    lab.page.route("**/api/contents/*.ipynb*", read_only)
    try:
        book = open_alone(lab, model, "here = 1", options=EDIT)
        path = lab.server.folder / book.path
        before = path.read_bytes()
        model.will_reply(call("read_notebook"), call("edit_cell", cell=book.ids[2], source="here = 2"), say("Edited."))
        book.run(0, PROMPT)
        book.over()
        assert book.sources()[2] == "here = 2"
        book.command_later("docmanager:save")
        dialog = lab.page.get_by_role("dialog")
        expect(dialog).to_contain_text("read-only")
        dialog.get_by_role("button").first.click()
        assert path.read_bytes() == before
        assert not any("saved" in result.lower() for result in model.requests[-1].tool_results)
    finally:
        lab.page.unroute("**/api/contents/*.ipynb*")


def read_only(route: Route) -> None:
    """The server's answer as for a file without leave to write, which the user of this test always has."""
    answer = route.fetch()
    route.fulfill(response=answer, json={**answer.json(), "writable": False})
