"""`%vibe` and `%%vibe` in a real kernel, as a user uses them."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import WAIT
from vibe_jupyter.commands.registry import COMMANDS
from vibe_jupyter.options import OPTION_NAMES
from vibe_jupyter.permissions.grants import GrantStore
from vibe_jupyter.testing import answer, call, hold, say, status

pytestmark = pytest.mark.xdist_group("app")


@pytest.mark.requirement("project.extension.load", "magics.cell.body-is-prompt", "project.kernel.hosted")
def test_the_whole_body_of_the_cell_is_the_prompt_and_the_answer_stays_in_the_output(session: Session) -> None:
    session.model.will_reply(say("Here is **bold**."))
    cell = session.run("%%vibe\nfirst line\n\n  second line?")
    assert session.model.requests[0].last_user_text.endswith("first line\n\n  second line?")
    assert "<strong>bold</strong>" in session.html(cell)
    assert "Here is **bold**." in cell.outputs[-1]["content"]["data"]["text/plain"]


@pytest.mark.requirement("magics.line.prompt", "magics.prompt.question-mark")
@pytest.mark.parametrize("prompt", ["status of my data, please", "what is x?", "model the sales by month", "why ??"])
def test_whatever_is_no_sub_command_is_a_prompt_also_with_a_question_mark(session: Session, prompt: str) -> None:
    session.model.will_reply(say("Yes."))
    session.run(f"%vibe {prompt}")
    assert session.model.requests[0].last_user_text.endswith(prompt)


@pytest.mark.requirement("magics.command.status")
def test_status_names_model_agent_server_and_run(session: Session) -> None:
    text = session.run("%vibe status").text
    assert "scripted at 127.0.0.1:" in text
    assert "Agent: default" in text
    assert "Run: none active" in text
    session.model.will_reply(call("run_code", code="get_ipython().run_line_magic('vibe', 'status')"), say("Done."))
    session.run("%vibe --yes=run_code go")
    assert "Run: active" in session.model.requests[1].tool_results[0]


@pytest.mark.requirement("magics.command.help")
def test_help_lists_the_commands_and_an_unknown_option_says_which_there_are(session: Session) -> None:
    whole = session.run("%vibe help all").text
    for name in (*(command.name for command in COMMANDS), *OPTION_NAMES):
        assert name in whole
    text = session.run("%vibe help").text
    assert session.run("%vibe --help").text == session.run("%vibe").text == text
    wrong = session.run("%%vibe --modle x\nhello").text
    assert "--modle" in wrong
    assert "--model, --agent, --max-turns, --max-price, --max-tokens, --max-seconds, --yes" in wrong
    assert session.model.requests == []


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stauts", "status"),
        ("Reset", "reset"),
        ("models", "model"),
        ("modle", "model"),
        ("undp", "undo"),
        ("/help", "help"),
        ("/Compact", "compact"),
        ("clear", "reset"),
        ("/clear", "reset"),
    ],
)
def test_a_misspelt_command_is_said_and_not_sent_to_a_model(session: Session, word: str, meant: str) -> None:
    said = session.run(f"%vibe {word}").text
    assert f"There is no command '{word}'. Did you mean %vibe {meant}?" in said
    assert session.model.requests == []


@pytest.mark.parametrize(
    ("line", "there_is"),
    [
        ("config nosuch", "%vibe config, %vibe config path."),
        ("trust yes", "%vibe trust, %vibe trust forget."),
        ("permissions all", "%vibe permissions, %vibe permissions revoke."),
        ("status now", "%vibe status."),
        ("model check scripted other", "%vibe model check [NAME]."),
        ("undo 1 2", "%vibe undo, %vibe undo N, %vibe undo list."),
        ("undo 1, 2 and 3", "%vibe undo N"),
        ("undo list 3", "%vibe undo list."),
        ("history 1 2", "%vibe history N."),
        ("context drop the first", "%vibe context drop."),
        ("delete 3f9a2c10 5f9a2c11", "%vibe delete ID."),
    ],
)
def test_a_command_with_a_word_it_does_not_take_is_no_wish(session: Session, line: str, there_is: str) -> None:
    said = session.run(f"%vibe {line}").text
    assert f"There is no %vibe {line}. There is: %vibe" in said
    assert there_is in said
    assert "below %%vibe" in said
    assert session.model.requests == []


@pytest.mark.parametrize(
    ("line", "written"),
    [("delete", "delete ID [yes]"), ("rename", "rename TITLE"), ("context drop", "context [drop N]")],
)
def test_a_command_that_lacks_a_word_is_no_prompt(session: Session, line: str, written: str) -> None:
    said = session.run(f"%vibe {line}").text
    assert f"%vibe {line} lacks a word: it is written %vibe {written}." in said
    assert session.model.requests == []


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("undp 2", "undo 2"),
        ("agnet plan", "agent plan"),
        ("permisions revoke 1", "permissions revoke 1"),
        ("sesions all", "sessions all"),
        ("/model scripted", "model scripted"),
    ],
)
def test_a_misspelt_command_with_words_that_it_takes_is_no_prompt(session: Session, line: str, meant: str) -> None:
    assert f"Did you mean %vibe {meant}?" in session.run(f"%vibe {line}").text
    assert session.model.requests == []


@pytest.mark.parametrize(
    ("command", "name"), [("agent", "plan"), ("model", "scripted"), ("model", "a@http://[::1]/v1")]
)
def test_a_prompt_behind_the_name_of_an_agent_or_a_model_is_sent_to_no_other(
    session: Session, command: str, name: str
) -> None:
    said = session.run(f"%vibe {command} {name} look at the data").text
    assert f"For one prompt alone: %%vibe --{command} {name}, with the prompt below it." in said
    assert session.model.requests == []


def test_a_wish_that_begins_with_the_name_of_a_command_is_a_wish(session: Session) -> None:
    wishes = [
        *("model the data with a line", "reset the index of frame", "fix it", "undo the sort", "context of [4]?"),
        *("models of the car data", "delete all gaps", "agent orange sales", "clear the outputs of [3]", "histogram"),
    ]
    session.model.will_reply(*(say("Done.") for _ in wishes))
    for wish in wishes:
        session.run(f"%vibe {wish}")
    assert [request.last_user_text.rpartition("\n")[2] for request in session.model.requests] == wishes


@pytest.mark.requirement("magics.command.model", "magics.option.model")
def test_a_model_is_chosen_for_the_session_or_for_one_cell(session: Session) -> None:
    other = f"other@{session.model.url}"
    session.model.will_reply(*map(say, "abcde"))
    session.run(f"%%vibe --model {other}\nhello")
    session.run("%%vibe\nhello")
    session.run(f"%vibe model {other}")
    session.run("%%vibe\nhello")
    for name in ("scripted", "scripted-1"):
        session.run(f"%vibe model {name}")
        session.run("%%vibe\nhello")
    models = [request.body["model"] for request in session.model.requests]
    assert models == ["other", "scripted-1", "other", "scripted-1", "scripted-1"]


def test_an_unknown_model_is_named_with_those_there_are_and_the_choice_stays(session: Session) -> None:
    text = session.run("%vibe model nope").text
    assert "no model 'nope'" in text
    assert "scripted" in text
    assert "● scripted" in session.run("%vibe model").text


@pytest.mark.requirement("magics.command.reset", "project.use.exploratory")
def test_reset_begins_a_new_conversation_and_keeps_the_variables(session: Session) -> None:
    session.model.will_reply(say("a"), say("b"), say("c"))
    session.run("kept = 41")
    session.run("%vibe one")
    session.run("%vibe two")
    assert len(session.model.requests[1].messages) == 4
    session.run("%vibe reset")
    session.run("%vibe three")
    assert len(session.model.requests[2].messages) == 2
    assert session.run("print(kept + 1)").text == "42\n"


@pytest.mark.requirement("magics.option.yes", "project.kernel.shared-namespace", "notebook.run_code.scratch")
def test_code_the_agent_runs_sees_the_variables_and_keeps_names_only_on_demand(session: Session) -> None:
    session.run("x = 20")
    session.model.will_reply(
        call("run_code", code="kept_name = x + 1\nkept_name", keep=True),
        call("run_code", code="lost_name = x + 2\nlost_name"),
        say("done"),
    )
    session.run("%%vibe --yes=run_code\ngo")
    first, second = (request.tool_results[-1] for request in session.model.requests[1:3])
    assert "21" in first
    assert "22" in second
    assert session.run("print(kept_name, 'lost_name' in globals())").text == "21 False\n"


@pytest.mark.requirement("project.tools.notebook-beside-files")
def test_one_run_uses_notebook_and_file_tools_together(session: Session) -> None:
    (session.folder / "notes.txt").write_text("alpha\nbeta\n", encoding="utf-8")
    session.run("numbers = [1, 2, 3]")
    session.model.will_reply(
        answer(calls=[call("inspect"), call("read_file", path="notes.txt"), call("grep", pattern="be")]),
        say("done"),
    )
    session.run("%vibe look")
    variables, file, found = session.model.requests[1].tool_results
    assert "numbers" in variables
    assert "alpha" in file
    assert "notes.txt:2:beta" in found


@pytest.mark.requirement("wire.finish.length")
def test_an_answer_cut_by_the_token_limit_is_shown_as_cut_and_stays_in_the_conversation(session: Session) -> None:
    session.model.will_reply(answer("There are forty", finish="length"), say("Two."))
    shown = session.html(session.run("%vibe how many?"))
    assert "Truncated (token limit)" in shown
    assert "There are forty" in shown
    session.run("%vibe go on")
    assert "There are forty" in str(session.model.requests[-1].messages)


@pytest.mark.requirement("permission.approve.nobody", "magics.headless.no-hang")
def test_where_nobody_can_click_what_would_ask_is_denied_and_both_are_told(session: Session) -> None:
    session.model.will_reply(call("run_code", code="1 + 1"), say("I could not."))
    cell = session.run("%vibe go")
    assert "--yes=run_code" in session.model.requests[1].tool_results[0]
    assert "nobody is here to approve" in session.html(cell)


def test_a_command_that_only_reads_runs_unasked_and_what_was_allowed_for_the_project_can_be_taken_back(
    session: Session,
) -> None:
    kept = GrantStore(session.folder / "vibe", session.folder.resolve())
    kept.add(["bash: touch made"])
    session.model.will_reply(
        answer(
            calls=[call("bash", command="ls vibe"), call("bash", command="touch made"), call("bash", command="touch x")]
        ),
        say("done"),
    )
    session.run("%vibe go")
    listed, made, denied = session.model.requests[1].tool_results
    assert "config.toml" in listed
    assert "returncode: 0" in made
    assert "--yes=bash" in denied
    assert [(session.folder / name).exists() for name in ("made", "x")] == [True, False]

    assert "1  bash: touch made" in session.run("%vibe permissions").text
    assert session.run("%vibe permissions revoke 1").text == "Asked about again: bash: touch made.\n"
    assert session.run("%vibe permissions").text == "Nothing is allowed in advance.\n"
    assert "revoke NUMBER" in session.run("%vibe permissions revoke 1").text
    assert session.run("%vibe permissions revoke").text.startswith("vibe: What should be revoked? %vibe permissions")
    assert dict(kept.patterns()) == {}


def test_a_misspelt_model_is_told_what_there_is_and_what_needs_no_key(session: Session) -> None:
    said = session.run("%vibe model tuor").text
    assert "Known: " in said
    assert "tour needs no key" in said


def test_a_failing_server_is_said_in_the_output_and_the_kernel_goes_on(session: Session) -> None:
    session.model.will_reply(status(404, {"error": {"message": "model not found"}}))
    assert "404" in session.html(session.run("%vibe go"))
    session.model.will_reply(say("Back."))
    assert "Back." in session.html(session.run("%vibe again"))


@pytest.mark.requirement("magics.api.ask")
def test_ask_returns_a_reply_with_text_and_usage(session: Session) -> None:
    session.model.will_reply(say("Forty-two."))
    code = "import vibe_jupyter\nreply = vibe_jupyter.ask('?')\nprint(reply, reply.reason, reply.cells_changed)"
    assert "Forty-two. stop ()" in session.run(code).text
    assert session.run("print(reply.usage.prompt_tokens > 0, reply.turns)").text == "True 1\n"


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        ("%vibe inner", "this code is a prompt to the agent"),
        (
            "def deep():\n    get_ipython().run_cell_magic('vibe', '', 'inner')\n\ndeep()",
            "A run is active in this kernel already",
        ),
    ],
    ids=["a magic", "a function"],
)
def test_a_run_inside_a_run_is_refused_and_the_outer_one_goes_on(session: Session, code: str, refusal: str) -> None:
    session.model.will_reply(call("run_code", code=code), say("outer done"))
    cell = session.run("%%vibe --yes=run_code\ngo")
    assert refusal in session.model.requests[1].tool_results[0]
    assert len(session.model.requests) == 2
    assert "outer done" in session.html(cell)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--agent nope", "no agent 'nope'"),
        ("--yes=nope", "nope"),
        ("--max-turns x", "whole number"),
        ("--max-turns 0", "1 to 200"),
        ("--max-tokens 0.5", "a whole number of tokens, such as 200000"),
        ("--max-seconds soon", "a number of seconds, such as 600"),
        ("--max-seconds nan", "a number of seconds, such as 600"),
        ("--max-turns 300", "1 to 200"),
    ],
)
def test_a_wrong_option_value_says_what_there_is_and_sends_nothing(session: Session, line: str, words: str) -> None:
    assert words in session.run(f"%%vibe {line}\nhello").text
    assert session.model.requests == []


def test_what_changed_since_the_last_prompt_goes_before_the_persons_words(session: Session) -> None:
    session.model.will_reply(say("a"), say("b"))
    session.run("fresh_number = 7")
    session.run("%vibe one")
    session.run("%vibe two")
    first, second = (request.last_user_text for request in session.model.requests)
    assert "fresh_number" in first
    assert first.endswith("one")
    assert second == "two"


def test_braces_and_dollars_in_a_prompt_are_no_variables(session: Session) -> None:
    session.model.will_reply(say("a"), say("b"), say("c"))
    session.run("secret = 'never sent'")
    session.run("%vibe what does f'{secret}' do, and $secret")
    session.run("%vibe what is {secret}?")
    session.run("%%vibe {secret}\nand {secret}")
    prompts = [request.last_user_text.rpartition("</notebook>")[2].strip() for request in session.model.requests]
    assert prompts == ["what does f'{secret}' do, and $secret", "what is {secret}?", "{secret}\nand {secret}"]


@pytest.mark.requirement("magics.option.max-turns")
def test_options_hold_for_their_cell_and_a_value_may_stand_in_quotes(session: Session) -> None:
    session.model.will_reply(*[call("inspect")] * 3)
    cell = session.run(f'%%vibe --model "quoted@{session.model.url}" --max-turns=2\nhello')
    assert [request.body["model"] for request in session.model.requests] == ["quoted", "quoted"]
    assert "Stopped at the turn limit" in session.html(cell)
    session.model._replies.clear()
    assert "no model 'two words'" in session.run("%vibe --model='two words' hello").text


@pytest.mark.parametrize("value", ["'inspect'", "('inspect', 'grep')", "'list_variables'"])
def test_ask_takes_one_tool_or_some_to_allow(session: Session, value: str) -> None:
    session.model.will_reply(call("inspect"), say("Seen."))
    assert session.run(f"import vibe_jupyter; print(vibe_jupyter.ask('look', yes={value}).text)").text == "Seen.\n"


def test_ask_wants_a_prompt_and_a_cell_and_sends_nothing_otherwise(session: Session) -> None:
    asking = (
        "import threading, vibe_jupyter\n"
        "def ask(prompt):\n"
        "    try:\n"
        "        vibe_jupyter.ask(prompt)\n"
        "    except Exception as error:\n"
        "        said.append(str(error))\n"
        "said = []\n"
        "ask(' ')\n"
        "ask(None)\n"
        "thread = threading.Thread(target=ask, args=('from a thread',))\n"
        "thread.start(); thread.join()\n"
        "print(said)"
    )
    text = session.run(asking).text
    assert "The prompt is empty" in text
    assert "The prompt is no text but NoneType" in text
    assert "main shell, not in a subshell or another thread" in text
    assert session.model.requests == []


def test_a_working_folder_that_is_gone_is_said_in_words(tmp_path: Path) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        session.run("import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')")
        assert "working folder is gone" in session.run("%vibe hello").text
        session.run("os.chdir(os.path.expanduser('~'))")
        session.model.will_reply(say("Here."))
        assert "Here." in str(session.run("%vibe hello").outputs)


def test_a_file_named_like_a_module_that_is_needed_late_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "difflib.py").write_text("raise SystemExit('A file of the folder was imported.')", encoding="utf-8")
    program = (
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'vibe_jupyter')\n"
        "assert 'difflib' not in sys.modules\n"
        "shell.run_line_magic('vibe', 'statsu')\n"
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT, check=False)
    assert "%vibe status" in done.stdout + done.stderr, done
    assert "A file of the folder" not in done.stdout + done.stderr


@pytest.mark.requirement("magics.interrupt.prompt-back")
def test_two_presses_of_the_interrupt_end_a_run_like_one(session: Session) -> None:
    go_on = threading.Event()
    session.model.will_reply(hold(go_on))
    request = session.wire.send("%%vibe\nspeak", allow_stdin=False)
    session.model.wait_for_request(1)
    session.wire.interrupt()
    session.wire.interrupt()
    cell = session.wire.cell(request)
    go_on.set()
    assert "left behind" not in cell.text
    assert "Stopped" in cell.outputs[-1]["content"]["data"]["text/plain"]
    session.model.will_reply(say("Next."))
    assert "Next." in str(session.run("%vibe again").outputs)


def test_the_persons_own_logging_does_not_show_the_agents_requests(session: Session) -> None:
    session.model.will_reply(say("# Title\n\nHere."))
    session.run("import logging; logging.basicConfig(level=logging.DEBUG, force=True)")
    shown = session.run("%%vibe\nspeak").text
    own = session.run("logging.getLogger('httpx').info('mine')").text
    session.run("logging.basicConfig(level=logging.WARNING, force=True)")
    assert shown == ""
    assert "mine" in own


AWAITED = """
import asyncio, vibe_jupyter
ticks = 0
async def tick():
    global ticks
    while True:
        ticks += 1
        await asyncio.sleep(0.01)
ticking = asyncio.create_task(tick())
try:
    reply = await vibe_jupyter.aask("go", yes="run_code")
finally:
    ticking.cancel()
print(reply, reply.reason, reply.turns, made, ticks > 5)
"""


@pytest.mark.requirement("magics.api.aask")
def test_an_awaited_prompt_lets_the_loop_of_the_kernel_go_on(session: Session) -> None:
    code = "import asyncio, time\nawait asyncio.sleep(0.1)\nmade = 6 * 7"
    session.model.will_reply(call("run_code", code=code, keep=True), say("Seen.", delay=0.3))
    assert session.run(AWAITED).text.endswith("Seen. stop 2 42 True\n")
    session.model.will_reply(say("Once more."))
    assert session.run("%vibe and now").error == ""


@pytest.mark.requirement("magics.api.aask")
def test_a_click_reaches_an_awaited_prompt_and_an_interrupt_ends_it(session: Session) -> None:
    session.model.will_reply(call("run_code", code="clicked = 1", keep=True), say("Done."))
    request = session.wire.send("import vibe_jupyter\nprint(await vibe_jupyter.aask('go'))")
    view = session.view(request)
    view.command(type="approve", approval_id=view.card())
    assert session.wire.cell(request).text.endswith("Done.\n")
    assert session.run("print(clicked)").text == "1\n"

    session.model.will_reply(call("run_code", code="import time\nprint('begun')\ntime.sleep(60)"), say("Never."))
    request = session.wire.send("await vibe_jupyter.aask('go', yes='run_code')")
    view = session.view(request)
    view.wait_for("begun")
    session.wire.interrupt()
    assert "RunStopped" in session.wire.cell(request).error
    session.model.will_reply(say("Free again."))
    assert session.run("%vibe hello").error == ""
