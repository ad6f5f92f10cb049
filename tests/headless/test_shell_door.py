"""`vibe-jupyter ask`, `setup`, `trust` and `mcp` as users without a notebook meet them: the real program, over HTTP."""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.app.conftest import CONFIG
from tests.app.test_sessions import Machine
from tests.kernel.fork_server import program_command
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.cli.exit_codes import TURN_LIMIT
from vibe_jupyter.testing import ScriptedModel, answer, call, status

WAIT = patient(60.0)
"""Seconds the program may take."""
SESSION = re.compile(r"^Session ([0-9a-f]{8}): (vibe-jupyter ask .*--resume \1) continues it\.$", re.MULTILINE)
PROGRAM = (sys.executable, "-c", "import sys; from vibe_jupyter.cli import main; sys.exit(main())")
"""As users start it: what asks in a terminal has it for its own."""
SERVER = Path(__file__).parent.parent / "mcp" / "sample_server.py"


class Shell:
    """A user's shell: a home, a project, and a model server."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self.home = folder / "vibe"
        self.home.mkdir(exist_ok=True)
        self.project = folder / "project"
        self.project.mkdir()
        self.configure("")
        self.environment = {**os.environ, "VIBE_HOME": str(self.home), "IPYTHONDIR": str(folder / "ipython")}

    def configure(self, more: str) -> None:
        (self.home / "config.toml").write_text(CONFIG.format(url=self.model.url) + more, encoding="utf-8")

    def run(self, *words: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*program_command(), *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
            cwd=folder or self.project,
        )

    def type(self, *words: str, answers: Mapping[str, str]) -> tuple[int, str]:
        """Run it in a terminal and type an answer to each question that is named; its exit code and all it wrote."""
        master, terminal = os.openpty()
        termios.tcsetwinsize(terminal, (40, 300))  # wide enough for a path on one line
        with subprocess.Popen(
            [*PROGRAM, *words],
            env=self.environment,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=self.project,
        ) as program:
            os.close(terminal)
            written, open_answers, looked = "", dict(answers), 0
            with contextlib.suppress(OSError):  # of a terminal that nobody has open any longer
                while select.select([master], [], [], WAIT)[0] and (piece := os.read(master, 1 << 16)):
                    written += piece.decode("utf-8", "replace")
                    for question in [one for one in open_answers if one in written[looked:]]:
                        os.write(master, f"{open_answers.pop(question)}\n".encode())
                        looked = len(written)
            os.close(master)
            if open_answers:
                program.kill()  # it waits for what nobody was told to type
            return program.wait(WAIT), written


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
def shell(tmp_path: Path, model: ScriptedModel) -> Shell:
    return Shell(tmp_path, model)


def session_of(done: "subprocess.CompletedProcess[str]") -> str:
    found = SESSION.search(done.stderr)
    assert found is not None, done.stderr
    return found[1]


def bring_tools(folder: Path) -> None:
    """What has to be trusted: a setting and words for the model."""
    (folder / ".vibe").mkdir()
    (folder / ".vibe" / "config.toml").write_text('default_agent = "plan"\n', encoding="utf-8")
    (folder / "AGENTS.md").write_text("Answer in French.\n", encoding="utf-8")


@pytest.mark.requirement("programmatic.ask.resume")
@pytest.mark.parametrize("how", ["latest", further("id"), further("json")])
def test_a_script_continues_what_an_earlier_prompt_began(shell: Shell, how: str) -> None:
    shell.model.will_reply("Four columns.", "Older.", "Of those two have gaps.")
    begun = shell.run("ask", "which columns?", *(["--output", "json"] if how == "json" else []))
    found = json.loads(begun.stdout)["session_id"] if how == "json" else session_of(begun)
    elsewhere = shell.project / "below"
    elsewhere.mkdir()
    shell.run("ask", "another", folder=elsewhere)

    done = shell.run("ask", *(["--continue"] if how == "latest" else ["--resume", found]), "which have gaps?")

    assert (done.returncode, done.stdout) == (0, "Of those two have gaps.\n"), done.stderr
    messages = shell.model.requests[-1].messages
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "user"]
    assert "Four columns." in str(messages[2])
    assert "Continuing 'which columns?'" in done.stderr
    assert session_of(done) == found[:8]


def test_without_a_conversation_to_continue_nothing_is_sent(shell: Shell) -> None:
    for words in (["--continue"], ["--resume", "abcd"], ["--resume", ""]):
        done = shell.run("ask", *words, "go on")
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "%vibe" not in done.stderr
    assert shell.model.requests == []


@pytest.mark.requirement("programmatic.ask.folder")
def test_a_folder_brings_its_settings_trust_code_and_conversations(shell: Shell) -> None:
    bring_tools(shell.project)
    (shell.project / "helper.py").write_text("value = 4711\n", encoding="utf-8")
    start = shell.project.parent
    shell.environment["VIBE_HOME"] = "vibe"
    there = ["--folder", str(shell.project)]
    shell.model.will_reply("No.", call("run_code", code="import helper; helper.value"), "Oui.", "Encore.")

    refused = shell.run("ask", *there, "look", folder=start)
    assert f"vibe-jupyter trust {shell.project}" in refused.stderr
    assert "French" not in str(shell.model.requests[-1].body)
    assert shell.run("trust", str(shell.project), "--yes", folder=start).returncode == 0

    done = shell.run("ask", *there, "look", "--agent", "default", "--yes", "run_code", "--output", "json", folder=start)
    assert "4711" in shell.model.requests[-1].tool_results[0]
    assert "Answer in French." in str(shell.model.requests[-1].messages[0])
    found = json.loads(done.stdout)["session_id"]
    again = shell.run("ask", *there, "--continue", "again", "--agent", "default", folder=start)
    assert session_of(again) == found[:8]
    assert f"--folder {shell.project} --resume {found[:8]} continues it." in again.stderr
    missing = shell.run("ask", "--folder", "no-such-folder", "look", folder=start)
    assert (missing.returncode, "no-such-folder" in missing.stderr) == (2, True)


@pytest.mark.requirement("programmatic.ask.notebook")
def test_a_conversation_goes_from_a_notebook_to_the_shell_and_back(tmp_path: Path, model: ScriptedModel) -> None:
    machine = Machine(tmp_path, model)
    shell = Shell(tmp_path, model)
    begun = call("run_code", code="df = [1]", keep=True)
    computed = call("run_code", code="summed = 5", keep=True)
    model.will_reply(begun, "Begun.", computed, "In the shell.", "Back.")
    with machine.kernel("project") as session:
        session.run("%%vibe --yes=run_code\nbegin")
    asked = shell.run("ask", "--continue", "go on", "--yes", "run_code")
    assert (asked.returncode, asked.stdout) == (0, "In the shell.\n"), asked.stderr
    assert "`df` is not here: the conversation was in another Python process." in asked.stderr
    told = str(model.requests[-2].messages[-1])
    assert "Its variables are not here: df." in told
    with machine.kernel("project") as session:
        session.run("%vibe resume")
        session.run("%%vibe\nand now?")
        assert "summed" in str(model.requests[-1].messages[-1])
    roles = [one["role"] for one in model.requests[-1].messages]
    assert roles == ["system", *["user", "assistant", "tool", "assistant"] * 2, "user"]
    assert len(machine.journals()) == 1


def test_a_conversation_that_a_kernel_has_open_goes_on_in_a_copy(tmp_path: Path, model: ScriptedModel) -> None:
    machine = Machine(tmp_path, model)
    shell = Shell(tmp_path, model)
    model.will_reply("Begun.", "In the shell.", "Back.")
    with machine.kernel("project") as session:
        session.run("df = [1]")
        session.run("%%vibe\nbegin")
        asked = shell.run("ask", "--continue", "go on")
        assert (asked.returncode, asked.stdout) == (0, "In the shell.\n"), asked.stderr
        assert "has this conversation open. Continuing in a copy of" in asked.stderr
        assert "restarted" not in str(model.requests[-1].messages[-1])
        session.run("%vibe resume " + session_of(asked))
        session.run("%%vibe\nand now?")
        messages = model.requests[-1].messages
        assert "In the shell." in str(messages)
        assert "restarted" not in str(messages[-1])


@pytest.mark.requirement("programmatic.ask.prompt")
def test_the_model_is_told_what_is_there_and_that_nobody_can_allow_a_call(shell: Shell) -> None:
    shell.configure("\n[project_context]\ntree = true\nreadme = true\n")
    (shell.project / "README.md").write_text("Sales of 2026.\n", encoding="utf-8")
    (shell.project / "sales.csv").write_text("a\n1\n", encoding="utf-8")
    shell.model.will_reply("Seen.")
    assert shell.run("ask", "look", "--yes", "bash,run_code").returncode == 0
    system, user = (str(one["content"]) for one in shell.model.requests[-1].messages[:2])
    assert "There is no notebook: no cells and no page." in system
    assert "nobody is here; what needs approval is denied" in system
    assert "Run unasked: what only reads and bash, run_code." in system
    assert "the user is here" not in system
    assert "%%vibe" not in system
    assert "nobody is there to allow anything; allowed: bash, run_code" in user
    assert "Sales of 2026." in system
    assert "sales.csv" in system


def test_an_own_base_prompt_takes_the_place_of_ours_without_a_notebook_too(shell: Shell) -> None:
    (shell.home / "prompts").mkdir()
    (shell.home / "prompts" / "cli.md").write_text("Speak as a pirate.", encoding="utf-8")
    shell.model.will_reply("Arr.")
    shell.run("ask", "look")
    assert str(shell.model.requests[-1].messages[0]["content"]).startswith("Speak as a pirate.")


def test_a_sub_agent_of_a_shell_is_told_of_no_notebook(shell: Shell) -> None:
    shell.model.will_reply(call("task", task="look"), "Nothing.", "Done.")
    assert shell.run("ask", "look").stdout == "Done.\n"
    systems = [str(one.messages[0]["content"]) for one in shell.model.requests]
    assert len(systems) == 3
    assert "You work for another agent" in systems[1]
    assert all("There is no notebook" in one for one in systems)


@pytest.mark.requirement("programmatic.ask.cut")
@pytest.mark.parametrize(
    ("finish", "said"),
    [("length", "it reached the model's output limit"), further("content_filter", "content filter cut it")],
)
def test_a_cut_answer_is_said_and_ends_with_3(shell: Shell, finish: str, said: str) -> None:
    for output in ("text", "json", "streaming"):
        shell.model.will_reply(answer("The first half", finish=finish))
        done = shell.run("ask", "tell", "--output", output)
        assert done.returncode == 3, done.stderr
        if output == "text":
            assert done.stdout == "The first half\n"
            assert said in done.stderr
        elif output == "json":
            assert said in json.loads(done.stdout)["cut"]
        else:
            added = [json.loads(line) for line in done.stdout.splitlines()]
            assert finish in {one["message"].get("stop_reason") for one in added if one["type"] == "message_added"}


@pytest.mark.requirement("programmatic.ask.cut")
def test_a_run_that_a_limit_ends_after_a_cut_answer_exits_with_the_code_of_the_limit(shell: Shell) -> None:
    shell.model.will_reply(answer("The first half", calls=[call("grep", pattern="x")], finish="length"))
    done = shell.run("ask", "tell", "--max-turns", "1")
    assert done.returncode == TURN_LIMIT, done.stderr
    assert "it reached the model's output limit" in done.stderr


@pytest.mark.requirement("programmatic.ask.advice")
@pytest.mark.parametrize(
    ("refused", "step"),
    [
        (status(401, "no"), "vibe-jupyter setup"),
        further(status(403, "no"), "vibe-jupyter setup"),
        further(status(402, "no"), "--model NAME"),
        further(status(404, "no"), "Check the model's name"),
        further(status(413, "no"), "larger window"),
    ],
)
def test_what_a_server_refuses_leads_to_a_step_in_the_shell(shell: Shell, refused: object, step: str) -> None:
    for output in ("text", "json", "streaming"):
        shell.model.will_reply(refused)  # pyright: ignore[reportArgumentType]
        done = shell.run("ask", "look", "--output", output)
        said = done.stderr if output == "text" else done.stdout
        assert (done.returncode, step in said) == (3, True), said
        assert re.search(r"%vibe (?!\w+ in a notebook)", said) is None


@pytest.mark.requirement("programmatic.ask.advice")
def test_a_missing_key_and_a_missing_model_lead_to_a_step_in_the_shell(shell: Shell) -> None:
    keyed = CONFIG.format(url=shell.model.url).replace("[[models]]", 'api_key_env_var = "NO_SUCH_KEY"\n\n[[models]]')
    for config in (keyed, ""):
        (shell.home / "config.toml").write_text(config, encoding="utf-8")
        shell.environment.pop("MISTRAL_API_KEY", None)
        done = shell.run("ask", "look")
        assert done.returncode == 2
        assert "vibe-jupyter setup" in done.stderr
        assert "%vibe" not in done.stderr
        assert "cell" not in done.stderr
    assert "--model NAME@http" in done.stderr


@pytest.mark.requirement("programmatic.cli.trust")
def test_a_terminal_shows_what_a_folder_brings_and_asks(shell: Shell) -> None:
    bring_tools(shell.project)
    code, written = shell.type("trust", answers={"deny: ": "y"})
    assert code == 0, written
    assert "tells the model AGENTS.md" in written
    assert "default_agent" in written
    done = shell.run("trust")
    assert (done.returncode, "is trusted, as it is now" in done.stdout) == (0, True)
    (shell.project / "AGENTS.md").write_text("Answer in Latin.\n", encoding="utf-8")
    changed = shell.run("trust")
    assert changed.returncode == 2
    assert "has changed since you decided" in changed.stdout
    assert "--yes" in changed.stderr
    assert shell.run("trust", "--forget").returncode == 0
    assert "has not been decided on" in shell.run("trust").stdout


def declare(shell: Shell, *words: str) -> None:
    entry = {"command": sys.executable, "args": [str(SERVER), *words]}
    (shell.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"sample": entry}}), encoding="utf-8")
    assert shell.run("trust", "--yes").returncode == 0


@pytest.mark.requirement("programmatic.cli.mcp-accept")
def test_a_server_is_accepted_by_its_exact_command(shell: Shell) -> None:
    declare(shell)
    shell.model.will_reply("No tools.", "Tools.")
    told = shell.run("ask", "look").stderr
    assert "vibe-jupyter mcp accept sample" in told
    assert "%vibe" not in told

    unasked = shell.run("mcp", "accept", "sample")
    assert unasked.returncode == 2
    assert str(SERVER) in unasked.stdout
    code, written = shell.type("mcp", "accept", "sample", answers={"deny: ": "y"})
    unwrapped = re.sub(r"\s*\n\s*↳ ", "", written)
    assert (code, str(SERVER) in unwrapped, "%vibe" in written) == (0, True, False), written

    shell.run("ask", "look")
    offered = [tool["function"]["name"] for tool in shell.model.requests[-1].body["tools"]]
    assert any("sample" in name for name in offered)
    declare(shell, "--other")
    changed = shell.run("mcp", "accept", "sample", "--yes")
    assert (changed.returncode, "--other" in changed.stdout) == (0, True), changed.stderr
    assert shell.run("mcp", "accept", "nobody").returncode == 2
    assert "sample" in shell.run("mcp", "list").stdout


@pytest.mark.matrix
def test_a_no_in_a_terminal_changes_nothing_and_ends_with_1(shell: Shell) -> None:
    declare(shell)
    assert shell.type("mcp", "accept", "sample", answers={"deny: ": "n"})[0] == 1
    assert shell.run("trust", "--forget").returncode == 0
    assert shell.type("trust", answers={"deny: ": "n"})[0] == 1
    assert shell.run("trust").returncode == 2


@pytest.mark.requirement("programmatic.cli.setup")
def test_the_questions_of_setup_lead_to_a_model_that_answers(shell: Shell) -> None:
    (shell.home / "config.toml").unlink()
    shell.environment.pop("MISTRAL_API_KEY", None)
    refused = shell.run("setup")
    assert refused.returncode == 2
    assert all(one in refused.stderr for one in ("MISTRAL_API_KEY", "[[providers]]", "--model NAME@"))
    shell.model.will_reply("ok", "ok", "Hello.")
    answers = {"1-10: ": "vllm", "Its address": shell.model.url, " of the model": "m", "same: ": "save"}
    code, written = shell.type("setup", answers=answers)
    assert code == 0, written
    assert "vibe-jupyter ask" in written
    assert "%vibe" not in written
    done = shell.run("ask", "hello")
    assert done.returncode == 0, done.stderr


@pytest.mark.requirement("programmatic.cli.setup")
def test_setup_that_is_ended_does_not_exit_as_if_it_had_a_model(shell: Shell) -> None:
    before = (shell.home / "config.toml").read_bytes()
    code, written = shell.type("setup", answers={"1-10: ": "\x04"})
    assert (code, "Stopped. Nothing was changed." in written) == (130, True), written
    assert (shell.home / "config.toml").read_bytes() == before


def test_help_names_each_door(shell: Shell) -> None:
    told = shell.run("--help").stdout
    assert all(f"    {one} " in told for one in ("ask", "setup", "trust", "mcp"))
    asked = shell.run("ask", "--help").stdout
    assert all(one in asked for one in ("--continue", "--resume ID", "--folder DIR"))
    assert "accept" in shell.run("mcp", "--help").stdout
