"""`vibe-jupyter mcp`, as an agent outside starts it: finds the notebook that is served, and passes everything on."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from tests.app.conftest import Session
from tests.kernel.wire import WAIT
from tests.notebook.page import Page
from tests.outward.conftest import Screen, Served, serve
from tests.outward.outsider import Outsider, over_stdio, text
from vibe_jupyter.outward.notice_board import Note, put_up, take_down

PROGRAM = str(Path(sys.executable).with_name("vibe-jupyter"))
Start = Callable[..., Outsider]


@pytest.fixture
def start(session: Session) -> Iterator[Start]:
    """Starts the program where the kernel's runtime folder is."""
    env = {**os.environ, "JUPYTER_RUNTIME_DIR": str(session.folder / "runtime")}
    started: list[Outsider] = []

    def go(*options: str, mode: str = "auto") -> Outsider:
        started.append(Outsider(over_stdio(PROGRAM, "mcp", *options, env=env, mode=mode)))
        return started[-1]

    yield go
    for one in started:
        one.close()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_calls_are_passed_on_with_card_and_progress(served: Served, start: Start, mode: str) -> None:
    served.run("answer = 41")
    outsider = start(mode=mode)
    assert "run_code" in {tool.name for tool in outsider.tools()}
    assert text(outsider.call("list_variables", pattern="answer")) == "1 variable\nanswer: int 41"
    call = outsider.start("run_code", code="answer + 1")
    served.allow()
    result = call.result(WAIT)
    assert (text(result).endswith("42"), result.is_error) == (True, False)
    assert "Waiting for the person to allow it, in the notebook." in outsider.told


def test_started_before_a_notebook_is_served_it_lists_the_tools_and_says_what_to_do(
    session: Session, start: Start
) -> None:
    session.wire.run("%vibe reset")
    outsider = start()
    before = {tool.name: tool for tool in outsider.tools()}
    result = outsider.call("list_variables")
    assert result.is_error
    assert text(result) == (
        "No notebook is served now. Run %vibe mcp serve in a cell of the notebook that you want to offer."
    )
    serve(session)
    assert not outsider.call("list_variables").is_error
    assert {tool.name: tool for tool in outsider.tools()} == before
    session.wire.run("%vibe mcp serve stop")
    assert text(outsider.call("list_variables")).startswith("No notebook is served now.")
    serve(session)
    assert not outsider.call("list_variables").is_error
    session.wire.run("%vibe reset")


def test_a_call_that_is_cancelled_ends_in_the_notebook(served: Served, start: Start) -> None:
    outsider = start()
    call = outsider.start("run_code", code="print('be' + 'gun', flush=True)\nwhile True: pass")
    served.allow()
    served.view.wait_for("begun")
    began = time.monotonic()
    call.cancel()
    with pytest.raises(CancelledError):
        call.result(WAIT)
    assert served.run("print('free')").text == "free\n"
    assert time.monotonic() - began < 5
    assert not outsider.call("list_variables").is_error


def test_with_several_it_wants_to_know_which(
    served: Served, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(served.session.folder / "runtime"))
    other = Note(
        kernel="other",
        notebook=str(tmp_path / "b.ipynb"),
        pid=os.getpid(),
        url="http://127.0.0.1:9/mcp",
        token="t",
        version="1",
    )
    path = put_up(other)
    try:
        assert text(start().call("list_variables")).startswith("2 notebooks are served: ")
        assert not start("--kernel", "conn").call("list_variables").is_error
        gone = start("--notebook", str(tmp_path / "b.ipynb")).call("list_variables")
        assert gone.is_error
        assert text(gone).startswith("Not run: the notebook that was served cannot be reached.")
    finally:
        take_down(path)


def test_what_one_program_read_it_may_change_and_another_of_the_same_name_may_not(served: Served, start: Start) -> None:
    screen = Screen(served, page=Page(served.session.wire, "first = 1"))
    cell = screen.page.cells[0]
    reader, other = start(), start()
    read = reader.start("read_cell", cell_id=cell.id)
    screen.page.until(read.done, "the cell")
    refused = other.start("edit_cell", cell_id=cell.id, source="gone")
    screen.page.until(refused.done, "the refusal")
    assert refused.result(WAIT).is_error
    edit = reader.start("edit_cell", cell_id=cell.id, source="first = 2")
    screen.allow()
    screen.page.until(edit.done, "the edit")
    assert not edit.result(WAIT).is_error, text(edit.result(WAIT))
    assert cell.source == "first = 2"
