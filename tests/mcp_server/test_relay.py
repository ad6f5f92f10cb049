"""`vibe-jupyter mcp`, as an external client starts it: finds the notebook that is served, and passes everything on."""

import json
import os
import re
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.app.conftest import Session
from tests.kernel.wire import WAIT
from tests.mcp_server.conftest import Screen, Served, serve
from tests.mcp_server.outsider import Outsider, over_stdio, text
from tests.mcp_server.test_guard import Echo, listening
from tests.notebook.page import Page
from tests.patience import patient
from vibe_jupyter.mcp_server.notebook_client import NotebookClient, NotebookNote, register_notebook, unregister_notebook
from vibe_jupyter.mcp_server.stdio_proxy import LIST_WAIT, TOOLS

if TYPE_CHECKING:
    from vibe_jupyter.mcp_server.http import HttpServer

PROGRAM = str(Path(sys.executable).with_name("vibe-jupyter"))
OFFERED_TOOLS = Path(__file__).parents[2] / "scripts" / "offered_tools.py"
SLOW_TO_IMPORT = {
    "mcp",
    "mcp_types",
    "pydantic",
    "httpx",
    "httpx2",
    "anyio",
    "uvicorn",
    "asyncio",
    "IPython",
    "jsonschema",
}
"""Each takes more than all of the program may."""
OURS_ALONE = (
    "bash",
    "read_file",
    "write_file",
    "search_replace",
    "grep",
    "ask_user_question",
    "todo",
    "skill",
    "memory",
)


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}
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
    assert text(outsider.call("inspect", names=["answer*"])) == "1 variable\nanswer: int 41"
    call = outsider.start("run_code", code="answer + 1")
    served.allow()
    result = call.result(WAIT)
    assert (text(result).endswith("42"), result.is_error) == (True, False)
    assert "Waiting for the user to allow it, in the notebook." in outsider.told


def test_started_before_a_notebook_is_served_it_lists_the_tools_and_says_what_to_do(
    session: Session, start: Start
) -> None:
    session.wire.run("%vibe reset")
    outsider = start()
    before = {tool.name: tool for tool in outsider.tools()}
    result = outsider.call("inspect")
    assert result.is_error
    assert text(result) == (
        "No notebook is served now. Run %vibe mcp serve in a cell of the notebook that you want to offer."
    )
    serve(session)
    assert not outsider.call("inspect").is_error
    assert {tool.name: tool for tool in outsider.tools()} == before
    session.wire.run("%vibe mcp serve stop")
    assert text(outsider.call("inspect")).startswith("No notebook is served now.")
    serve(session)
    assert not outsider.call("inspect").is_error
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
    assert time.monotonic() - began < patient(5)
    assert not outsider.call("inspect").is_error


def test_with_several_it_wants_to_know_which(
    served: Served, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(served.session.folder / "runtime"))
    other = NotebookNote(
        kernel="other",
        notebook=str(tmp_path / "b.ipynb"),
        pid=os.getpid(),
        url="http://127.0.0.1:9/mcp",
        token="t",
        version="1",
    )
    path = register_notebook(other)
    try:
        assert text(start().call("inspect")).startswith("2 notebooks are served: ")
        assert not start("--kernel", "conn").call("inspect").is_error
        gone = start("--notebook", str(tmp_path / "b.ipynb")).call("inspect")
        assert gone.is_error
        assert text(gone).startswith("Not run: the notebook that was served cannot be reached.")
    finally:
        unregister_notebook(path)


def test_what_one_program_read_it_may_change_and_another_of_the_same_name_may_not(served: Served, start: Start) -> None:
    screen = Screen(served, page=Page(served.session.wire, "first = 1"))
    cell = screen.page.cells[0]
    reader, other = start(), start()
    read = reader.start("read_notebook", cells=[cell.id])
    screen.page.until(read.done, "the cell")
    refused = other.start("edit_cell", cell=cell.id, source="gone")
    screen.page.until(refused.done, "the refusal")
    assert refused.result(WAIT).is_error
    edit = reader.start("edit_cell", cell=cell.id, source="first = 2")
    screen.allow()
    screen.page.until(edit.done, "the edit")
    assert not edit.result(WAIT).is_error, text(edit.result(WAIT))
    assert cell.source == "first = 2"


class Program:
    """`vibe-jupyter mcp`, spoken to line by line."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *flags, PROGRAM, "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "JUPYTER_RUNTIME_DIR": str(folder)},
        )

    def send(self, **message: Any) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_line(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.send(id=1, method=method, params=params)
        return self.read()

    def end(self) -> tuple[list[dict[str, Any]], str]:
        """Close its stdin; what it still says on stdout, and all it said on stderr."""
        said, complaints = self._process.communicate(timeout=WAIT)
        assert self._process.returncode == 0
        return [json.loads(line) for line in said.splitlines()], complaints.decode()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Where no notebook is served."""
    program = Program(tmp_path)
    yield program
    program.end()


@pytest.fixture
def echo(tmp_path: Path) -> "Iterator[HttpServer]":
    """A served notebook with one tool, which the program finds."""
    with listening(Echo()) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
        register_notebook(
            NotebookNote(kernel="k", notebook="", pid=os.getpid(), url=server.url, token=server.token, version="1")
        )
        yield server


def test_the_program_imports_nothing_that_is_slow(tmp_path: Path, echo: "HttpServer") -> None:
    program = Program(tmp_path, "-X", "importtime")
    program.ask("initialize", **HELLO)
    assert [tool["name"] for tool in program.ask("tools/list")["result"]["tools"]] == ["echo"]
    assert "result" in program.ask("tools/call", name="echo", arguments={})
    imported = set(re.findall(r"\| +(\w+)", program.end()[1]))
    assert "json" in imported
    assert not imported & SLOW_TO_IMPORT


def test_the_written_list_of_tools_is_what_a_notebook_offers() -> None:
    offered = runpy.run_path(str(OFFERED_TOOLS))["offered"]
    assert TOOLS.read_text(encoding="utf-8") == offered()[TOOLS], "run: python scripts/offered_tools.py"


def test_descriptions_name_no_tool_that_is_not_offered() -> None:
    listed = TOOLS.read_text(encoding="utf-8")
    assert [name for name in OURS_ALONE if re.search(rf"\b{name}\b", listed)] == []


def test_requests_one_after_the_other_go_over_one_connection(tmp_path: Path, echo: "HttpServer") -> None:
    program = Program(tmp_path)
    program.ask("initialize", **HELLO)
    for number in range(5):
        assert program.ask("tools/call", name="echo", arguments={"n": number})["result"]["content"] == [
            {"type": "text", "text": f'tester: {{"n": {number}}}'}
        ]
    assert len(echo._uvicorn.server_state.connections) == 1  # type: ignore[union-attr]
    program.end()


def test_a_connection_that_the_notebook_closed_is_not_used_again(echo: "HttpServer") -> None:
    client = NotebookClient()
    first = client.take(echo.url)
    first.connect()
    client.give_back(echo.url, first)
    first.sock.shutdown(2)
    assert client.take(echo.url) is not first


def test_a_list_of_tools_waits_for_no_kernel_that_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as stuck:
        url = f"http://127.0.0.1:{stuck.getsockname()[1]}/mcp"
        register_notebook(NotebookNote(kernel="k", notebook="", pid=os.getpid(), url=url, token="t", version="1"))
        program = Program(tmp_path)
        began = time.monotonic()
        names = [tool["name"] for tool in program.ask("tools/list")["result"]["tools"]]
        assert LIST_WAIT <= time.monotonic() - began < LIST_WAIT + patient(5)
        program.end()
    assert names == [tool["name"] for tool in json.loads(TOOLS.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("asked", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_each_version_with_a_handshake_is_agreed_on(program: Program, asked: str) -> None:
    result = program.ask("initialize", **{**HELLO, "protocolVersion": asked})["result"]
    assert result["protocolVersion"] == asked
    tools = program.ask("tools/list")["result"]
    assert set(tools) == {"tools"}


def test_an_unknown_version_is_answered_with_the_newest_and_a_later_one_by_name(program: Program) -> None:
    assert (
        program.ask("initialize", **{**HELLO, "protocolVersion": "1999"})["result"]["protocolVersion"] == "2025-11-25"
    )
    meta = {"io.modelcontextprotocol/protocolVersion": "2031-01-01", "io.modelcontextprotocol/clientCapabilities": {}}
    error = program.ask("tools/list", _meta=meta)["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": ["2026-07-28"], "requested": "2031-01-01"})
    assert error["message"] == "Unsupported protocol version '2031-01-01'"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"3", -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}', -32602),
    ],
    ids=lambda value: repr(value[:20]) if isinstance(value, bytes) else None,
)
def test_what_it_cannot_answer_is_an_error_and_not_the_end(program: Program, line: bytes, code: int) -> None:
    program.send_line(line)
    assert program.read()["error"]["code"] == code
    assert program.ask("ping")["result"] == {}


def test_a_list_that_was_asked_for_at_the_end_is_still_answered(tmp_path: Path, echo: "HttpServer") -> None:
    program = Program(tmp_path)
    program.send(id=7, method="tools/list")
    answers, _ = program.end()
    assert [(answer["id"], len(answer["result"]["tools"])) for answer in answers] == [(7, 1)]


def test_a_call_that_is_too_large_was_not_made(tmp_path: Path, echo: "HttpServer") -> None:
    program = Program(tmp_path)
    result = program.ask("tools/call", name="echo", arguments={"text": "x" * 5_000_000})["result"]
    assert result["isError"]
    assert result["content"][0]["text"].startswith("Not run: ")
    assert not program.ask("tools/call", name="écho\n", arguments={})["result"]["isError"]
    program.end()
