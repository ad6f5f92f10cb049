"""The same run where nobody can click: nbconvert, papermill, jupyter execute, and IPython in a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.app.conftest import CONFIG
from tests.kernel.fork_server import nbconvert_command, terminal_command
from tests.patience import patient
from vibe_jupyter.testing import ScriptedModel, call, say, status

pytestmark = [pytest.mark.xdist_group("front-ends"), pytest.mark.usefixtures("forked_kernels")]
WAIT = patient(60.0)
"""Seconds a whole notebook may take."""
PRESSES = 4
"""Times Ctrl-C is pressed, `WAIT` shared by them."""
MOST_METADATA = 4_000
"""Characters."""
CELLS = ("%load_ext vibe_jupyter", "%%vibe\nadd one and one", "'the next cell'")
FAILED = "RunFailed: the cells queued after this one do not run (--keep-going lets them)"
AFTER = "from pathlib import Path; Path('went-on').touch()"
PYTHON = [sys.executable, "-W", "ignore", "-m"]
RUNNERS = {
    "nbconvert": lambda: [*nbconvert_command(), "run.ipynb"],
    "jupyter execute": lambda: [*PYTHON, "jupyter", "execute", "--inplace", "run.ipynb"],
    "papermill": lambda: [*PYTHON, "papermill", "--no-progress-bar", "run.ipynb", "run.ipynb"],
}

SOME_MATRIX = ["nbconvert", *(pytest.param(one, marks=pytest.mark.matrix) for one in RUNNERS if one != "nbconvert")]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
def environment(tmp_path: Path, model: ScriptedModel) -> dict[str, str]:
    home = tmp_path / "vibe"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
    return {**os.environ, "VIBE_HOME": str(home), "IPYTHONDIR": str(tmp_path / "ipython"), "TERM": "dumb"}


def run_notebook(
    runner: str, folder: Path, environment: dict[str, str], cells: tuple[str, ...]
) -> "subprocess.CompletedProcess[str]":
    """Run a notebook of these cells without a user."""
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells], metadata=spec)
    nbformat.write(notebook, folder / "run.ipynb")
    return subprocess.run(
        RUNNERS[runner](), cwd=folder, env=environment, capture_output=True, text=True, timeout=WAIT, check=False
    )


def execute(
    runner: str, folder: Path, environment: dict[str, str], cells: tuple[str, ...] = CELLS
) -> list[list[dict[str, object]]]:
    """Run a notebook without a user, to its end; the outputs of its cells."""
    done = run_notebook(runner, folder, environment, cells)
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(folder / "run.ipynb", as_version=4)
    assert len(str(executed.metadata)) < MOST_METADATA, "the script of the view is kept in the notebook"
    return [cell.outputs for cell in executed.cells]


@pytest.mark.requirement("magics.headless.no-hang", "permission.approve.nobody", "ui.static.kept")
@pytest.mark.parametrize("runner", SOME_MATRIX)
def test_what_would_ask_is_denied_and_said_and_the_notebook_goes_on(
    runner: str, tmp_path: Path, environment: dict[str, str], model: ScriptedModel
) -> None:
    model.will_reply(call("run_code", code="1 + 1"), say("I may not run code here."))
    outputs = execute(runner, tmp_path, environment)
    (shown,) = [output["data"] for output in outputs[1]]
    assert isinstance(shown, dict)
    assert "--yes=run_code" in shown["text/html"]
    assert "I may not run code here." in shown["text/plain"]
    assert "<script" not in shown["text/html"]
    assert "<button" not in shown["text/html"]
    assert "the next cell" in str(outputs[2])


def test_a_tool_allowed_in_the_settings_runs_without_a_person(
    tmp_path: Path, environment: dict[str, str], model: ScriptedModel
) -> None:
    config = Path(environment["VIBE_HOME"], "config.toml")
    config.write_text(config.read_text() + '\n[tools.run_code]\npermission = "always"\n', encoding="utf-8")
    model.will_reply(call("run_code", code="1 + 1"), say("Two."))
    execute("nbconvert", tmp_path, environment)
    assert "2" in model.requests[1].tool_results[0]


@pytest.mark.parametrize("runner", SOME_MATRIX)
def test_a_failed_run_stops_the_notebook_with_a_short_error(
    runner: str, tmp_path: Path, environment: dict[str, str], model: ScriptedModel
) -> None:
    model.will_reply(status(400, "no such thing"))
    done = run_notebook(runner, tmp_path, environment, (*CELLS[:2], AFTER))
    assert done.returncode == 1
    assert FAILED in done.stderr
    assert "vibe_jupyter" not in done.stderr, "frames of ours"
    assert not (tmp_path / "went-on").exists()
    kept = str([cell.get("outputs") for cell in nbformat.read(tmp_path / "run.ipynb", as_version=4).cells])
    # The others write nothing where a cell fails.
    assert ("no such thing" in kept, FAILED in kept) == (runner == "papermill", runner == "papermill")


@pytest.mark.parametrize("runner", SOME_MATRIX)
def test_with_keep_going_a_failed_run_does_not_stop_the_notebook(
    runner: str, tmp_path: Path, environment: dict[str, str], model: ScriptedModel
) -> None:
    model.will_reply(status(400, "no such thing"))
    outputs = execute(runner, tmp_path, environment, (CELLS[0], "%%vibe --keep-going\nadd one and one", AFTER))
    assert "no such thing" in str(outputs[1])
    assert (tmp_path / "went-on").exists()


class Terminal:
    """IPython in a real terminal, typed into."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._side, other = pty.openpty()
        command = [*terminal_command(is_simple=True), "--no-banner", "--colors=NoColor"]
        self._process = subprocess.Popen(command, cwd=folder, env=environment, stdin=other, stdout=other, stderr=other)
        os.close(other)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._side, text.encode() + b"\n")

    def until(self, pattern: str) -> str:
        """Read until it appears; what came before it since the last call."""
        before = self._read(pattern, WAIT)
        assert before is not None, f"no {pattern!r} in {self.seen!r}"
        return before

    def _read(self, pattern: str, seconds: float) -> str | None:
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self._side], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            self.seen += os.read(self._side, 65536).decode(errors="replace")
        before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return before

    def interrupt(self, until: str) -> None:
        """Press Ctrl-C until it is heard, as a person does.

        A signal between `input()`'s prompt and its read waits for the next line: 3 of 4,000 in CPython alone.
        """
        for _ in range(PRESSES):
            self._process.send_signal(signal.SIGINT)
            if self._read(until, WAIT / PRESSES) is not None:
                return
        raise AssertionError(f"no {until!r} after {PRESSES} times Ctrl-C: {self.seen!r}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        os.close(self._side)


@pytest.fixture
def terminal(tmp_path: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, environment)
    terminal.until(r"In \[1\]: ")
    terminal.type("%load_ext vibe_jupyter")
    terminal.until(r"In \[2\]: ")
    yield terminal
    terminal.close()


@pytest.mark.requirement("magics.headless.no-widget", "ui.approval.whole")
def test_in_a_terminal_the_answer_streams_and_an_approval_is_a_text_prompt(
    terminal: Terminal, model: ScriptedModel
) -> None:
    model.will_reply(call("run_code", code="value = 6 * 7\nvalue", keep=True), say("It is forty-two."))
    terminal.type("%vibe compute it")
    shown = terminal.until(r"\[a\][^\n]*$|: $")
    assert "value = 6 * 7" in shown
    terminal.type("a")
    terminal.until(r"It is forty-two\.")
    terminal.until(r"In \[3\]: ")
    assert "42" in model.requests[1].tool_results[0]
    terminal.type("value")
    assert "42" in terminal.until(r"In \[4\]: ")


def test_in_a_terminal_deny_gives_the_model_the_words(terminal: Terminal, model: ScriptedModel) -> None:
    model.will_reply(call("run_code", code="1 / 0"), say("Understood."))
    terminal.type("%vibe go")
    terminal.until(r"\[a\][^\n]*$|: $")
    terminal.type("d")
    terminal.until(r"[?:>] $")
    terminal.type("not today")
    terminal.until(r"Understood\.")
    assert "not today" in model.requests[1].tool_results[0]


def test_in_a_terminal_control_c_at_the_prompt_ends_the_run(terminal: Terminal, model: ScriptedModel) -> None:
    model.will_reply(call("run_code", code="1"))
    terminal.type("%vibe go")
    terminal.until(r"\[a\][^\n]*$|: $")
    terminal.interrupt(until=r"In \[3\]: ")
    model.will_reply(say("Here again."))
    terminal.type("%vibe again")
    terminal.until(r"Here again\.")
