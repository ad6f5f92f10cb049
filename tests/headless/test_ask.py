"""`vibe-jupyter ask` and the options of `run`, as a script uses them."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import nbformat
import pytest

from tests.app.conftest import CONFIG
from tests.app.test_safe_agents import REVIEWER
from tests.headless.schema_changes import breaking_changes
from tests.headless.test_run import write
from tests.kernel.fork_server import program_command
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.protocol import Answer, Answered, Approve, Reject
from vibe_jupyter.testing import Call, ScriptedModel, Strictness, answer, call, say

SPEC = {"name": "python3", "display_name": "Python 3"}
WAIT = patient(60.0)
"""Seconds a run may take."""
SIX_BY_SEVEN = [call("run_code", code="import os; os.write(1, b'raw\\n'); print('said'); 6 * 7"), "It is **42**."]
ENDLESS = [call("run_code", code=f"{number}") for number in range(9)]
PRICED = "input_price = 1000.0\noutput_price = 1000.0\n"
FROZEN = Path(__file__).parent / "protocol-1.json"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
def environment(tmp_path: Path, model: ScriptedModel) -> dict[str, str]:
    home = tmp_path / "vibe"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG.format(url=model.url) + PRICED, encoding="utf-8")
    return {**os.environ, "VIBE_HOME": str(home), "IPYTHONDIR": str(tmp_path / "ipython")}


def run(environment: dict[str, str], *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*program_command(), *arguments],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
        cwd=environment["VIBE_HOME"],
    )


def in_terminal(environment: dict[str, str], *arguments: str) -> str:
    """What the program writes to a terminal, where nobody types."""
    master, terminal = os.openpty()
    with subprocess.Popen(
        [*program_command(), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        cwd=environment["VIBE_HOME"],
    ) as program:
        os.close(terminal)
        written = b""
        with contextlib.suppress(OSError):  # of a terminal that nobody has open any longer
            while select.select([master], [], [], WAIT)[0] and (piece := os.read(master, 1 << 16)):
                written += piece
        os.close(master)
        assert program.wait(WAIT) == 0
    return written.decode()


def validator_of(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """What holds many values against it."""
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    printed = subprocess.run([*program_command(), "schema"], capture_output=True, text=True, timeout=WAIT, check=True)
    return json.loads(printed.stdout)


@pytest.mark.requirement("programmatic.prompt.flag", "programmatic.output.text", "programmatic.approve.auto")
def test_a_prompt_runs_once_without_a_notebook_and_only_its_answer_is_on_stdout(
    environment: dict[str, str], model: ScriptedModel
):
    model.will_reply(*SIX_BY_SEVEN)

    done = run(environment, "ask", "-p", "six by seven?", "--yes", "run_code", "--max-price", "0")

    assert (done.returncode, done.stdout) == (0, "It is **42**.\n")
    assert "Ran code" in done.stderr
    assert "raw" in done.stderr
    assert model.requests[-1].messages[-1]["content"].splitlines()[1:3] == ["said", "42"]


@pytest.mark.requirement("programmatic.output.text")
def test_texts_beside_calls_are_not_part_of_the_answer(environment: dict[str, str], model: ScriptedModel):
    looks = [answer(f"Look {number}.", [call("run_code", code=f"{number}")]) for number in range(2)]
    model.will_reply(*looks, "It is 42.")

    done = run(environment, "ask", "-p", "look", "--yes", "run_code", "--max-price", "0")

    assert (done.returncode, done.stdout) == (0, "It is 42.\n")


@pytest.mark.requirement("programmatic.agent.flag", "programmatic.approve.auto")
def test_agent_and_model_are_chosen_on_the_command_line(
    environment: dict[str, str], model: ScriptedModel, tmp_path: Path
):
    notebook = tmp_path / "work.ipynb"
    nbformat.write(nbformat.v4.new_notebook(metadata={"kernelspec": SPEC}), notebook)
    chosen = ("--agent", "auto-approve", "--model", f"other@{model.url}", "-p", "six by seven?")
    for command in (["ask"], ["run", str(notebook)]):
        model.will_reply(*SIX_BY_SEVEN)

        assert run(environment, *command, *chosen).returncode == 0

        assert model.requests[-1].body["model"] == "other"
        assert "\n42" in model.requests[-1].messages[-1]["content"]


def test_agents_that_compute_in_copies_alone_are_offered_no_code_where_no_copy_can_be_made(
    environment: dict[str, str], model: ScriptedModel
):
    begun = len(model.requests)
    model.will_reply(call("task", task="look"), say("Nothing."), say("Planned."))
    chosen = {**environment, "VIBE_SANDBOX__EXPLORE": "sandbox"}

    assert run(chosen, "ask", "--agent", "plan", "-p", "plan it", "--max-price", "0").returncode == 0

    offered = [{tool["function"]["name"] for tool in one.body["tools"]} for one in model.requests[begun:]]
    assert len(offered) == 3
    assert [names for names in offered if "run_code" in names or "read_file" not in names] == []


@pytest.mark.requirement("agents.profile.safe")
def test_a_safe_agent_is_offered_nothing_with_effects_and_does_none_whatever_yes_says(
    environment: dict[str, str], model: ScriptedModel
):
    home = Path(environment["VIBE_HOME"])
    (home / "agents").mkdir()
    (home / "agents" / "reviewer.toml").write_text(REVIEWER, encoding="utf-8")
    writes = [call("run_code", code="open('no.txt', 'w').write('x')"), call("write_file", path="no.txt", content="x")]
    model.will_reply(*writes, say("Refused."))

    done = run(
        environment, "ask", "--agent", "reviewer", "-p", "go", "--yes", "run_code,write_file", "--max-price", "0"
    )

    assert done.returncode == 0, done.stderr
    tools = {tool["function"]["name"] for tool in model.requests[-1].body["tools"]}
    assert tools == {"inspect", "read_file", "grep", "todo", "ask_user_question", "task", "skill"}
    assert not (home / "no.txt").exists()


@pytest.mark.requirement("programmatic.approve.auto")
def test_what_would_ask_is_denied_where_nothing_allows_it(environment: dict[str, str], model: ScriptedModel):
    model.will_reply(*SIX_BY_SEVEN)

    done = run(environment, "ask", "--max-price", "0", stdin="six by seven?\n")

    assert done.stdout == "It is **42**.\n"
    assert "six by seven?" in model.requests[0].messages[-1]["content"]
    assert "nobody" in model.requests[-1].messages[-1]["content"]


@pytest.mark.requirement("programmatic.output.json")
def test_json_is_one_document_with_all_messages(environment: dict[str, str], model: ScriptedModel):
    model.will_reply(*SIX_BY_SEVEN)

    done = run(environment, "ask", "-p", "six by seven?", "--yes", "run_code", "--output", "json", "--max-price", "0")

    told = json.loads(done.stdout)
    assert [message["role"] for message in told["messages"]] == ["user", "assistant", "tool", "assistant"]
    asked, answered = told["messages"][1:3]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert told["messages"][-1]["content"] == "It is **42**."
    assert (told["reason"], told["turns"], told["model"]) == ("stop", 2, "scripted")


@pytest.mark.requirement("programmatic.output.streaming", "programmatic.protocol.schema")
def test_streaming_prints_a_line_for_each_event_while_it_happens_and_each_fits_the_schema(
    environment: dict[str, str], model: ScriptedModel, schema: dict[str, Any]
):
    model.will_reply(call("run_code", code="input_seen = open(0).read()"), "Done.")
    command = [
        *program_command(),
        "ask",
        "-p",
        "look",
        "--yes",
        "run_code",
        "--output",
        "streaming",
        "--max-price",
        "0",
    ]
    done = subprocess.run(command, env=environment, input="", capture_output=True, text=True, timeout=WAIT, check=True)

    events = [json.loads(line) for line in done.stdout.splitlines()]
    validator = validator_of(schema)
    for event in events:
        validator.validate(event)
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert kinds.index("tool_started") < kinds.index("tool_finished") < kinds.index("text_delta")
    assert not validator.is_valid({"type": "run_started"})


@pytest.mark.requirement("programmatic.protocol.schema")
def test_each_command_fits_the_schema_of_commands(schema: dict[str, Any]):
    of_commands = validator_of({**schema, "$ref": "#/$defs/Command"})
    answered = Answered(question="Which?", selected=("this",))
    for command in (Approve(approval_id="a"), Reject(approval_id="a"), Answer(question_id="q", answers=(answered,))):
        of_commands.validate(command.model_dump(mode="json"))
    of_commands.validate({"type": "interrupt"})
    assert not of_commands.is_valid({"type": "approve"})


@pytest.mark.requirement("programmatic.protocol.schema")
def test_the_published_schema_only_ever_grows(schema: dict[str, Any]):
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))

    assert schema["version"] == frozen["version"]
    assert breaking_changes(frozen, schema) == []


@pytest.mark.requirement("programmatic.limits.flags")
@pytest.mark.parametrize(
    ("limit", "code", "requests"),
    [
        pytest.param(("--max-turns", "2", "--max-price", "0"), 4, 2, id="turns"),
        further(("--max-price", "0.0001"), 5, 1, id="price"),
        further(("--max-tokens", "1", "--max-price", "0"), 6, 1, id="tokens"),
    ],
)
def test_a_limit_ends_the_run_and_the_exit_code_says_which(
    environment: dict[str, str], model: ScriptedModel, limit: tuple[str, ...], code: int, requests: int, tmp_path: Path
):
    model.will_reply(*ENDLESS)
    notebook = tmp_path / "work.ipynb"
    nbformat.write(nbformat.v4.new_notebook(metadata={"kernelspec": SPEC}), notebook)

    asked = run(environment, "ask", "-p", "count", "--yes", "run_code", *limit)
    after_ask = len(model.requests)
    model.will_reply(*ENDLESS)
    worked = run(environment, "run", str(notebook), "-p", "count", "--yes", "run_code", *limit)

    assert (asked.returncode, after_ask) == (code, requests)
    assert (worked.returncode, len(model.requests) - after_ask) == (code, requests)


@pytest.mark.requirement("programmatic.limits.exit-codes")
@pytest.mark.parametrize(("limit", "code"), [("MAX_TOKENS", 6), ("MAX_SECONDS", 7)])
def test_limits_of_the_settings_have_exit_codes_of_their_own(
    environment: dict[str, str], model: ScriptedModel, limit: str, code: int
):
    model.will_reply(*ENDLESS)

    done = run(
        {**environment, f"VIBE_{limit}": "0.001" if limit == "MAX_SECONDS" else "1"}, "ask", "count", "--max-price=0"
    )

    assert (done.returncode, len(model.requests)) == (code, 7 - code), done.stderr


WAITS_AGAIN = """
import os, time
if os.path.exists('once'):
    open('begun', 'w').close()
    time.sleep(600)
open('once', 'w').close()
"""


@pytest.mark.requirement("programmatic.limits.running-tool", "programmatic.limits.flags")
@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("ask", call("bash", command="touch begun; sleep 600; touch over")),
        ("ask", call("run_code", code="import time; open('begun', 'w').close(); time.sleep(600)", keep=True)),
        ("run", call("run_code", code="open('begun', 'w').close()\nwhile True: pass", keep=True)),
        further("run", call("bash", command="touch begun; sleep 600; touch over")),
        further("ask", call("run_code", code="!touch begun; sleep 600", keep=True)),
        further("run", call("run_cells", cells=["#1"])),
    ],
)
def test_the_time_limit_ends_the_tool_that_runs(
    environment: dict[str, str], model: ScriptedModel, command: str, made: Call
):
    notebook = Path(environment["VIBE_HOME"], "work.ipynb")
    begun = notebook.with_name("begun")
    cells = [nbformat.v4.new_code_cell(WAITS_AGAIN)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": SPEC}), notebook)
    where = () if command == "ask" else (str(notebook),)
    for seconds in (2, 4, 8, 16):  # a busy machine takes longer to begin with the tool
        model.will_reply(made)
        asked = len(model.requests)
        given = ("-p", "go", "--yes", made.name, "--max-price=0", f"--max-seconds={seconds}")
        done = run(environment, command, *where, *given)
        assert (done.returncode, len(model.requests) - asked) == (7, 1), done.stderr
        assert f"the limit of one run is {seconds} s" in done.stdout + done.stderr
        if begun.exists():
            break
    assert begun.exists()
    assert not notebook.with_name("over").exists()


FREE = ("--max-price", "0")


@pytest.mark.requirement("tools.files.names.undecodable")
@pytest.mark.parametrize("output", ["json", further("streaming"), further("text")])
def test_a_name_that_is_not_utf_8_is_listed_read_and_printed(
    environment: dict[str, str], model: ScriptedModel, tmp_path: Path, output: str
):
    folder = tmp_path / "work"
    for name, text in ((b"d\xe9p\xf4t.csv", "name\nAdelie\n"), (b"dos\xe9/\xe9t\xe9.csv", "name\nGentoo\n")):
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shown = ("d\ufffdp\ufffdt.csv", "dos\ufffd/\ufffdt\ufffd.csv")
    reads = [call("read_file", path=name) for name in shown]
    model.will_reply(call("grep", pattern="Adelie|Gentoo"), *reads, call("bash", command="ls"), "Done.")

    done = run(
        environment, "ask", os.fsdecode(b"look at d\xe9p\xf4t.csv"), "--folder", str(folder), "--output", output, *FREE
    )

    assert done.returncode == 0, done.stderr
    found, first, second, listed = [one["content"] for one in model.requests[-1].messages if one["role"] == "tool"]
    assert all(name in found for name in shown)
    assert ("Adelie" in first, "Gentoo" in second, shown[0] in listed) == (True, True, True)
    if output == "json":
        assert shown[0] in json.dumps(json.loads(done.stdout)["messages"], ensure_ascii=False)


@pytest.mark.requirement("tools.files.names.undecodable")
def test_a_name_that_may_be_two_files_is_none_of_them(
    environment: dict[str, str], model: ScriptedModel, tmp_path: Path
):
    for name in (b"d\xe9.csv", b"d\xe8.csv"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("a\n", encoding="utf-8")
    model.will_reply(call("read_file", path="d\ufffd.csv"), "Done.")
    done = run(environment, "ask", "look", "--folder", str(tmp_path), *FREE)
    assert done.returncode == 0, done.stderr
    assert "does not exist" in model.requests[-1].messages[-1]["content"]


def test_a_wrong_word_on_the_command_line_is_said_before_anything_is_sent(
    environment: dict[str, str], model: ScriptedModel
):
    for wrong in (
        ["--max-price", "much"],
        ["--max-turns", "many"],
        ["--yes", "no_such_tool"],
        ["--model", "no-such-model"],
    ):
        done = run(environment, "ask", "-p", "look", *wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert wrong[1] in done.stderr
        assert "_parse" not in done.stderr
    empty = run(environment, "ask")
    assert empty.returncode == 2
    assert "The prompt is empty" in empty.stderr
    twice = run(environment, "ask", "look", "-p", "look")
    assert twice.returncode == 2
    assert "not allowed with argument PROMPT" in twice.stderr
    assert model.requests == []


def test_the_tools_that_the_help_names_are_there(environment: dict[str, str], model: ScriptedModel):
    help_text = " ".join(run(environment, "ask", "--help").stdout.split())
    named = help_text.partition("without asking: ")[2].split()[0]
    model.will_reply("Three gaps.")
    done = run(environment, "ask", "look", "--yes", named)
    assert (done.returncode, done.stdout) == (0, "Three gaps.\n"), done.stderr


def test_the_prompt_may_stand_without_an_option(environment: dict[str, str], model: ScriptedModel):
    model.will_reply("Three gaps.")
    done = run(environment, "ask", "which columns have gaps?")
    assert (done.returncode, done.stdout) == (0, "Three gaps.\n")
    assert "which columns have gaps?" in model.requests[0].messages[-1]["content"]


def test_without_a_model_ask_says_how_to_name_one_on_the_command_line(
    environment: dict[str, str], model: ScriptedModel
):
    Path(environment["VIBE_HOME"], "config.toml").unlink(missing_ok=True)
    done = run({name: value for name, value in environment.items() if name != "MISTRAL_API_KEY"}, "ask", "look")
    assert done.returncode == 2
    assert "No model is connected yet." in done.stderr
    assert "  --model NAME@http" in done.stderr
    assert "%vibe" not in done.stderr


@pytest.mark.parametrize("asked", ["SIGINT", "SIGTERM", further("SIGHUP")])
def test_ctrl_c_a_scheduler_and_a_closed_terminal_end_the_run_with_its_own_exit_code(
    environment: dict[str, str], model: ScriptedModel, asked: str
):
    model.will_reply(call("run_code", code="import time; print(6 * 7, flush=True)\nwhile True: time.sleep(0.01)"))
    process = subprocess.Popen(
        [*program_command(), "ask", "-p", "wait", "--yes", "run_code", "--output", "streaming", "--max-price", "0"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "42" in json.loads(line).get("text", ""):
            break
    process.send_signal(signal.Signals[asked])
    out, _ = process.communicate(timeout=WAIT)

    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["reason"] == "interrupted"


@pytest.mark.parametrize("form", ["text", "json", "streaming"])
def test_a_reader_that_goes_away_ends_it_without_a_traceback(
    environment: dict[str, str], model: ScriptedModel, form: str
):
    model.will_reply("Nobody reads this.")
    reads, writes = os.pipe()
    os.close(reads)
    command = [*program_command(), "ask", "-p", "hello", "--output", form, "--max-price", "0"]
    with os.fdopen(writes, "wb") as nobody:
        done = subprocess.run(
            command, env=environment, stdout=nobody, stderr=subprocess.PIPE, text=True, timeout=WAIT, check=False
        )
    assert done.returncode == 1
    assert re.fullmatch(r"(Session \w+: vibe-jupyter ask --resume \w+ continues it\.\n)?", done.stderr)


@pytest.mark.parametrize("without", ["<&-", ">&-", "2>&-"])
def test_a_scheduler_may_start_it_without_one_of_its_streams(
    environment: dict[str, str], model: ScriptedModel, without: str
):
    model.will_reply(call("run_code", code="import os; os.system('exit 3') >> 8", keep=True), "It is done.")
    program = [sys.executable, "-c", "import sys; from vibe_jupyter.cli import main; sys.exit(main())"]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {without}', "sh", *program, "ask", "hello", "--yes", "run_code", "--max-price", "0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if without == ">&-" else "It is done.\n")
    assert "Traceback" not in done.stderr
    assert "3" in model.requests[-1].tool_results[0].splitlines()


def test_an_answer_cannot_steer_a_terminal_and_a_pipe_gets_it_as_it_is(
    environment: dict[str, str], model: ScriptedModel
) -> None:
    answer = "Nothing was denied.\x1b[1A\x1b[2K\x1b]52;c;ZXZpbA==\x07\u202e"
    shown = "Nothing was denied.⟨U+001B⟩[1A⟨U+001B⟩[2K⟨U+001B⟩]52;c;ZXZpbA==⟨U+0007⟩⟨U+202E⟩"
    model.will_reply(say(answer), say(answer))
    assert in_terminal(environment, "ask", "go") == f"{shown}\r\n"
    assert run(environment, "ask", "go").stdout == f"{answer}\n"
    listed = json.loads(run(environment, "sessions", "--json").stdout.splitlines()[0])
    assert shown in in_terminal(environment, "sessions", "--show", listed["id"])


@pytest.mark.requirement("headless.run.said")
def test_ctrl_c_before_the_command_is_there_ends_without_a_traceback(environment: dict[str, str]) -> None:
    code = (
        "import sys\n"
        "from vibe_jupyter.cli import main\n"
        "class Ctrl:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'vibe_jupyter.cli.ask':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Ctrl())\n"
        "sys.exit(main(['ask', 'go']))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.requirement("headless.run.said")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_where_stdout_has_no_room_a_sentence_says_so(environment: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*program_command(), "permission", "bash", "ls"],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "vibe-jupyter: The output could not be written: No space left on device.\n"


@pytest.mark.requirement("headless.run.said")
def test_no_cell_of_a_notebook_steers_the_terminal_of_run(environment: dict[str, str], tmp_path: Path) -> None:
    path = write(tmp_path / "n.ipynb", "x = 1 # safe \x1b[1A\x07")
    assert "[1/1] x = 1 # safe ⟨U+001B⟩[1A⟨U+0007⟩" in in_terminal(environment, "run", str(path))


@pytest.mark.requirement("echoes.returned", "echoes.resumed", "testing.strict.thoughts")
@pytest.mark.parametrize("strictness", ["gemini-signatures", further("deepseek-thoughts")])
def test_thoughts_and_signatures_go_back_within_a_run_and_after_it_was_continued(
    environment: dict[str, str], strictness: Strictness
):
    six, seven = call("run_code", code="6"), call("run_code", code="7")
    with ScriptedModel([six, seven, "13", seven, "20"], strictness=strictness) as model:
        config = Path(environment["VIBE_HOME"]) / "config.toml"
        config.write_text(CONFIG.format(url=model.url), encoding="utf-8")

        first = run(environment, "ask", "-p", "six and seven?", "--yes", "run_code")
        again = run(environment, "ask", "--continue", "-p", "and seven?", "--yes", "run_code")

        assert (first.stdout, again.stdout) == ("13\n", "20\n"), first.stderr + again.stderr
        assert len(model.requests) == 5  # none was refused
