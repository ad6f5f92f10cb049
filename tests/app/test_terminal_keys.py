"""IPython in a terminal as people have it: prompt_toolkit, colours, single keys, a width."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from tests.app.conftest import CONFIG
from tests.kernel.fork_server import terminal_command
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.xdist_group("front-ends")
WAIT = patient(30)
"""Seconds until a test gives up."""
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)|\r")
ASKED = r"deny:"
AS_USERS_START_IT = [sys.executable, "-m", "IPython"]
CODE = "value = 6 * 7  # the answer\nvalue"


class Terminal:
    """A user at a terminal that is `columns` wide."""

    def __init__(self, folder: Path, environment: dict[str, str], columns: int, command: list[str]) -> None:
        program, *arguments = [*command, "--no-banner"]
        self._child = pexpect.spawn(
            program,
            arguments,
            env=environment,
            cwd=folder,
            dimensions=(24, columns),
            timeout=WAIT,
            encoding="utf-8",
        )
        self.raw = ""
        """All that came between the last two things that were waited for."""
        self.cell = 0

    def prompt(self) -> str:
        """Wait for the next input prompt; what came before it."""
        self.cell += 1
        return self.until(rf"In (?:\x1b\S*?m)?\[(?:\x1b\S*?m)?{self.cell}(?:\x1b\S*?m)?\]")

    def until(self, pattern: str) -> str:
        """Wait for it; what stands on the screen before it, without colours."""
        self._child.expect(pattern)
        self.raw = self._child.before + self._child.after
        return ESCAPES.sub("", self.raw)

    def line(self, text: str) -> None:
        self._child.send(text + "\r")

    def key(self, key: str) -> None:
        self._child.send(key)

    def close(self) -> None:
        """End it at once; `close` alone allows a tenth of a second for that."""
        self._child.kill(signal.SIGKILL)
        self._child.wait()
        self._child.close()


Open = Callable[..., Terminal]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
def open_terminal(tmp_path: Path, model: ScriptedModel) -> Iterator[Open]:
    """Opens a terminal with our extension loaded; `columns` wide, with more of an environment."""
    (tmp_path / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
    opened: list[Terminal] = []

    def open_one(columns: int = 90, command: list[str] | None = None, **more: str) -> Terminal:
        places = {"VIBE_HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
        environment = {**os.environ, **places, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        for name in {"NO_COLOR", "COLUMNS", "LINES"} - more.keys():
            environment.pop(name, None)
        opened.append(terminal := Terminal(tmp_path, environment | more, columns, command or terminal_command()))
        terminal.prompt()
        terminal.line("%load_ext vibe_jupyter")
        terminal.prompt()
        return terminal

    yield open_one
    for terminal in opened:
        terminal.close()


def asked(terminal: Terminal, model: ScriptedModel, *, then: str = "Done with it.", code: str = CODE) -> str:
    """Let the model want to run code; the screen when the terminal asks."""
    model.will_reply(call("run_code", code=code, keep=True), say(then))
    terminal.line("%vibe compute it")
    return terminal.until(ASKED)


@pytest.mark.parametrize("key", ["a", *map(further, "yY")])
def test_one_key_allows_without_enter(key: str, open_terminal: Open, model: ScriptedModel) -> None:
    terminal = open_terminal()
    assert "1  value = 6 * 7  # the answer\n" in asked(terminal, model)
    terminal.key(key)
    assert "allow once" in terminal.until(r"Done with it\.")
    assert "42" in model.requests[1].tool_results[0]
    terminal.prompt()


def test_one_key_denies_and_the_words_go_to_the_model(open_terminal: Open, model: ScriptedModel) -> None:
    terminal = open_terminal()
    asked(terminal, model)
    terminal.key("n")
    terminal.until(r"why \(optional\): ")
    terminal.line("not today")
    terminal.until(r"Done with it\.")
    assert "not today" in model.requests[1].tool_results[0]


@pytest.mark.attack("forged decisions", always=True)
def test_keys_that_are_no_answer_and_keys_typed_ahead_decide_nothing(open_terminal: Open, model: ScriptedModel) -> None:
    terminal = open_terminal()
    model.will_reply(call("run_code", code=CODE), say("Done with it."))
    terminal.line("%vibe compute it")
    terminal.key("yyyy")
    terminal.until(ASKED)
    for key in ("x", "\r", "\x1b[A", "q", "\t"):
        terminal.key(key)
    terminal.key("d")
    terminal.until(r"why \(optional\): ")
    terminal.line("")
    terminal.until(r"Done with it\.")
    assert "42" not in model.requests[1].tool_results[0]


@pytest.mark.matrix
def test_the_code_is_edited_where_it_stands(open_terminal: Open, model: ScriptedModel) -> None:
    terminal = open_terminal()
    asked(terminal, model, code="21")
    terminal.key("e")
    terminal.until(r"when you are done\.[\s\S]*21")
    terminal.key(" * 3\x1b\r")
    assert "1  21 * 3\n" in terminal.until(ASKED)
    terminal.key("a")
    terminal.until(r"Done with it\.")
    assert "63" in model.requests[1].tool_results[0]


def test_control_c_at_a_question_ends_the_run_and_the_next_one_works(open_terminal: Open, model: ScriptedModel) -> None:
    terminal = open_terminal(command=AS_USERS_START_IT)
    asked(terminal, model)
    terminal.key("\x03")
    assert "Stopped" in terminal.prompt()
    terminal.line("%vibe again")
    terminal.until(r"Done with it\.")


@pytest.mark.matrix
def test_code_has_colours_and_a_person_can_do_without(open_terminal: Open, model: ScriptedModel) -> None:
    terminal = open_terminal()
    asked(terminal, model)
    assert "\x1b[36m6\x1b[0m" in terminal.raw
    terminal.key("y")
    terminal.until(r"Done with it\.")
    plain = open_terminal(NO_COLOR="1")
    shown = asked(plain, model)
    assert "value = 6 * 7  # the answer" in plain.raw
    assert "value = 6 * 7  # the answer" in shown


@pytest.mark.matrix
def test_no_line_is_longer_than_the_terminal_is_wide(open_terminal: Open, model: ScriptedModel) -> None:
    terminal = open_terminal(columns=44)
    words = "The answer has many words so that the edge of a narrow terminal is met more than once, 日本語 as well."
    long = "numbers = [" + ", ".join(map(str, range(40))) + "]"
    shown = asked(terminal, model, then=words, code=long)
    terminal.key("y")
    shown += terminal.until(r"as\s+well\.")
    after = terminal.prompt()
    lines = (shown + after).split("compute it", 1)[1].split("\n")
    assert [line for line in lines if len(line) > 44] == []
    pieces = [line.removeprefix("  1  ").removeprefix("   ↳ ") for line in lines if line.startswith(("  1  ", "   ↳ "))]
    assert "".join(pieces) == long
    assert words in " ".join("\n".join(lines).split())
