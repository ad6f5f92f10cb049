"""The messages of VS Code's Jupyter extension, without its window, to a real kernel.

Their shapes were read in microsoft/vscode-jupyter 2026.6: `execute_request` with the cell's URI as `cellId`, widgets
over plain shell messages without subshells, `input_request` as an input box, SIGINT to the kernel and its children.
"""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nbformat
import pytest

from tests.app.conftest import APPROVAL, Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import Cell
from tests.patience import patient
from vibe_jupyter.testing import answer, call, hold, say
from vibe_jupyter.ui.run_output import MARK
from vibe_jupyter.ui.widget import LOADED_WITHIN, SILENT_PAGE

pytestmark = pytest.mark.xdist_group("vscode")
WAIT = patient(60)
"""Seconds until a test gives up."""


class Editor:
    """VS Code with a notebook of three cells."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.wire = session.wire
        self.model = session.model
        self.path = session.folder / "analysis.ipynb"
        cells = [nbformat.v4.new_code_cell(source) for source in ("total = 3", "total * 2", "%%vibe\ngo")]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), self.path)
        self._told = [f"__vsc_ipynb_file__ = {str(self.path)!r}"]

    def run(self, code: str, *, cell: str = "W2sZmlsZQ==") -> str:
        """Run a cell as the editor does; the request's id."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": False,
        }
        metadata = {"cellId": f"vscode-notebook-cell:{self.path}#{cell}", "tags": [], "trusted": True}
        message = self.wire.client.session.msg("execute_request", content, metadata=metadata)
        self.wire.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def start(self) -> None:
        """What the editor sends before the first cell: not shown, not counted."""
        for code in self._told:
            self.wire.cell(self.wire.send(code, store_history=False))

    def box(self, request: str) -> str:
        """Wait for the input box; what stands in it."""
        message = self.wire.client.get_stdin_msg(timeout=WAIT)
        assert message["parent_header"]["msg_id"] == request
        return message["content"]["prompt"]

    def answer(self, text: str) -> None:
        self.wire.client.input(text)


@contextmanager
def widgets_are_offered_after(seconds: float, editor: Editor) -> Iterator[None]:
    where = "__import__('vibe_jupyter.ui.widget', fromlist=['_']).LOADED_WITHIN"
    editor.wire.cell(editor.wire.send(f"{where} = {seconds}", silent=True, store_history=False))
    try:
        yield
    finally:
        editor.wire.cell(editor.wire.send(f"{where} = {LOADED_WITHIN}", silent=True, store_history=False))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("vscode")) as session:
        editor = Editor(session)
        editor.start()
        yield editor


@pytest.fixture
def editor(running: Editor) -> Editor:
    running.session.run("%vibe reset")
    running.model.requests.clear()
    return running


def shown(editor: Editor, cell: Cell) -> str:
    return editor.session.html(cell)


def test_a_click_in_a_widget_of_its_own_manager_lets_the_code_run(editor: Editor) -> None:
    editor.model.will_reply(call("run_code", code="6 * 7"), say("Forty-two."))
    request = editor.run("%%vibe\ncompute it")
    view = editor.session.view(request)
    view.command(type="approve", approval_id=view.card())
    cell = editor.wire.cell(request)
    assert not cell.error
    assert "Forty-two." in shown(editor, cell)
    assert "42" in editor.model.requests[1].tool_results[0]


def test_what_the_model_says_is_read_before_a_widget_is_drawn(editor: Editor) -> None:
    go_on = threading.Event()
    editor.model.will_reply(answer("Word by word", delay=0.2, hold=go_on))  # the view is open before the last word

    def is_read() -> bool:
        shown = [one["content"] for one in editor.wire.of(request) if one["msg_type"] == "update_display_data"]
        return any("by word" in one["data"].get("text/html", "") and MARK in one["data"]["text/html"] for one in shown)

    with widgets_are_offered_after(WAIT, editor):
        request = editor.run("%%vibe\nspeak")
        try:
            editor.wire.until(is_read, "text in what the document holds")
        finally:
            go_on.set()
        assert "by word" in shown(editor, editor.wire.cell(request))


def test_where_widgets_are_not_drawn_the_input_box_asks(editor: Editor) -> None:
    editor.model.will_reply(call("run_code", code="'the whole ' + 'code'"), say("Done with it."))
    request = editor.run("%%vibe\ncompute it")
    assert "[a] allow once" in editor.box(request)
    editor.answer("a")
    cell = editor.wire.cell(request)
    assert "'the whole ' + 'code'" in cell.text
    assert SILENT_PAGE in json.dumps([output["content"].get("data", {}) for output in cell.outputs])
    assert "Done with it." in shown(editor, cell)
    assert "the whole code" in editor.model.requests[1].tool_results[0]


def test_an_input_box_that_is_closed_with_escape_denies(editor: Editor) -> None:
    editor.model.will_reply(call("run_code", code="1 / 0"), say("Then not."))
    request = editor.run("%%vibe\ngo")
    for _ in range(3):
        editor.box(request)
        editor.answer("")
    assert "Then not." in shown(editor, editor.wire.cell(request))
    assert "ZeroDivisionError" not in editor.model.requests[1].tool_results[0]


def test_the_notebook_is_read_from_the_file_that_the_editor_names(editor: Editor) -> None:
    editor.model.will_reply(call("read_notebook"), say("Three cells."))
    request = editor.run("%%vibe\nlook")
    editor.session.view(request)
    assert "Three cells." in shown(editor, editor.wire.cell(request))
    told = editor.model.requests[1].tool_results[0]
    assert "total * 2" in told
    assert "read from disk" in told


@pytest.mark.requirement("ui.static.at-once")
def test_an_answer_that_comes_at_once_changes_the_metadata_of_no_output(editor: Editor) -> None:
    editor.model.will_reply(say("At once."))
    request = editor.run("%%vibe\nspeak")
    cell = editor.wire.cell(request)
    shown_with: dict[str, object] = {}
    for message in editor.wire.of(request):
        if message["msg_type"] in ("display_data", "update_display_data"):
            content = message["content"]
            name = content.get("transient", {}).get("display_id", message["header"]["msg_id"])
            assert shown_with.setdefault(name, content["metadata"]) == content["metadata"]
    last = [message["content"] for message in cell.outputs if "At once." in str(message["content"].get("data"))][-1]
    assert last["metadata"]["vibe_jupyter"]["reason"] == "stop"


@pytest.mark.requirement("notebook.rule.no-extension")
def test_no_card_asks_about_a_change_that_no_page_would_carry_out(editor: Editor) -> None:
    changes = (
        call("edit_cell", cell="#1", old_string="3", new_string="4"),
        call("move_cells", cells=["#1"], after="end"),
        call("delete_cells", cells=["#1"]),
        call("insert_cell", after="#1", source="x = 1"),
        call("run_cells", cells=["#1"], background="click"),
    )
    editor.model.will_reply(call("read_notebook"), *changes, say("It can't."))
    request = editor.run("%%vibe\nchange it")
    editor.session.view(request)
    editor.wire.cell(request)  # a card would wait for ever
    assert not any(APPROVAL.search(str(message["content"])) for message in editor.wire.of(request))
    *edited, inserted, queued = (editor.model.requests[number].tool_results[-1] for number in range(2, 7))
    assert all("cells cannot be changed from here" in result for result in edited)
    assert inserted.startswith("Not inserted: no page with the vibe-jupyter extension answers")
    assert queued.startswith("Nothing was queued: no page shows the notebook")


def test_a_new_cell_is_offered_below_the_prompt(editor: Editor) -> None:
    insert = call("insert_cell", after="prompt", cell_type="code", source="print('made')")
    editor.model.will_reply(call("read_notebook"), insert, say("Offered."))
    request = editor.run("%%vibe\nadd a cell")
    view = editor.session.view(request)
    view.command(type="approve", approval_id=view.card())
    cell = editor.wire.cell(request)
    assert cell.reply["payload"] == [{"source": "set_next_input", "text": "print('made')", "replace": False}]
    assert "Offered." in shown(editor, cell)


@pytest.mark.parametrize("how", ["signal", "message"])
def test_its_interrupt_ends_a_run(editor: Editor, how: str) -> None:
    editor.model.will_reply(hold(threading.Event()))
    request = editor.run("%%vibe\nwait")
    editor.session.view(request).wait_for("moment")
    if how == "signal":
        provisioner: Any = editor.wire.manager.provisioner
        os.kill(provisioner.pid, signal.SIGINT)
    else:
        client = editor.wire.client
        client.control_channel.send(client.session.msg("interrupt_request", {}))
    assert "Stopped" in shown(editor, editor.wire.cell(request))
    assert editor.session.run("'the next cell'").outputs


def test_an_interrupt_while_the_input_box_is_open_ends_the_run(editor: Editor) -> None:
    editor.model.will_reply(call("run_code", code="1"))
    request = editor.run("%%vibe\ngo")
    editor.box(request)
    os.kill(editor.wire.manager.provisioner.pid, signal.SIGINT)
    assert "Stopped" in shown(editor, editor.wire.cell(request))


def test_a_cell_run_again_while_its_run_is_open_ends_it(editor: Editor) -> None:
    editor.model.will_reply(hold(threading.Event()), say("Second."))
    request = editor.run("%%vibe\ngo", cell="X1sZmlsZQ==")
    editor.session.view(request).wait_for("moment")
    again = editor.run("%%vibe\ngo", cell="X1sZmlsZQ==")
    assert "Stopped" in shown(editor, editor.wire.cell(request))
    editor.session.view(again)
    assert "Second." in shown(editor, editor.wire.cell(again))


def test_code_that_the_editor_runs_silently_for_itself_comes_after_the_run(editor: Editor) -> None:
    editor.model.will_reply(call("run_code", code="6 * 7"), say("Forty-two."))
    request = editor.run("%%vibe\ncompute it")
    view = editor.session.view(request)
    approval = view.card()
    variables = editor.wire.send("print('variables')", store_history=False)
    view.command(type="approve", approval_id=approval)
    assert "Forty-two." in shown(editor, editor.wire.cell(request))
    assert editor.wire.cell(variables).text == "variables\n"
