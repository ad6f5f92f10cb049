"""`%vibe model check` and `vibe-jupyter model check`: the questions, what is said of each fault, and the cost."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.kernel.fork_server import program_command
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.app.model_check import check_model
from vibe_jupyter.app.model_questions import ALL_TOKENS, LINES, NUMBER
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.testing import Call, ModelRequest, Reply, ScriptedModel, Tokens, answer, call, say, status

WAIT = patient(30.0)  # seconds of the program
KEY = "sk-never-shown-0123456789"
NAMES = ["answers", "streams", "calls a tool", "uses a result", "keeps thoughts", "two calls", "many lines"]
NAMES += ["token limit", "counts tokens", "sees images"]
TWO = answer(calls=[call("echo", word="red"), call("echo", word="blue")])
GOOD: tuple[Reply, ...] = (
    say("Hello there, dear friend."),
    answer(reasoning="I shall call the tool.", calls=[call("echo", word="hello")]),
    say(f"It returned {int(NUMBER):,}."),
    TWO,
    call("echo", word=LINES),
    answer("one two three four five six", finish="length"),
)


def with_reply(number: int, reply: Reply) -> list[Reply]:
    return [*GOOD[:number], reply, *GOOD[number + 1 :]]


def check(replies: Iterable[Reply], *, key: str | None = None) -> tuple[bool, dict[str, str], ScriptedModel]:
    lines: list[str] = []
    with ScriptedModel(list(replies), strict=False) as model:
        asked = Model(Server("local", model.url, api_key=key), "scripted", "scripted")
        is_well = check_model(asked, lines.append, whole=True)
    assert KEY not in "".join(lines)
    return is_well, {name: line for line in lines[1:] for name in NAMES if line[2:].startswith(name)}, model


@pytest.mark.requirement("models.check.questions")
def test_a_good_host_passes_every_question_and_costs_less_than_promised() -> None:
    is_well, lines, model = check(GOOD)
    assert (is_well, list(lines)) == (True, NAMES)
    assert [line[0] for line in lines.values()] == [*"✓" * 9, "–"]
    most = sum(request.body["max_tokens"] for request in model.requests)
    assert len(model.requests) == 6
    assert sum(len(request.raw) for request in model.requests) / 4 + most <= ALL_TOKENS
    assert [request.body.get("tools") is not None for request in model.requests] == [
        False,
        True,
        True,
        True,
        True,
        False,
    ]


AS_TEXT = '<tool_call>\n{"name": "echo", "arguments": {"word": "hello"}}\n</tool_call>'
REFUSED = status(400, {"error": {"message": "reasoning_content is missing"}})
SIX = "one two three four five six"
HELLO = call("echo", word="hello")
FAULTS = [
    ("calls a tool", 1, say("I would call echo with hello."), "--tool-call-parser"),
    ("calls a tool", 1, say(AS_TEXT), "the call came as text"),
    further("calls a tool", 1, call("echo()", word="hello"), "had to be repaired"),
    further("calls a tool", 1, Call("echo", '{"word": '), "are not JSON"),
    ("uses a result", 2, say("I don't know."), "the chat template may leave results out"),
    further("uses a result", 2, HELLO, "instead of reading the result"),
    further("two calls", 3, Call("echo", '{"word":"red"}{"word":"blue"}'), "ran into each other"),
    ("many lines", 4, call("echo", word=LINES.replace("\n", " ")), "line ends are lost"),
    further("many lines", 4, call("echo", word=LINES.replace("    ", " ")), "blanks were changed"),
    ("token limit", 5, answer(SIX, usage=Tokens(60, 6)), "looks like a whole one"),
    further("token limit", 5, answer(SIX * 20, usage=Tokens(60, 6)), "was ignored"),
    ("counts tokens", 1, answer(calls=[HELLO], usage=Tokens(3, 9)), "num_ctx"),
    further("counts tokens", 1, answer(calls=[HELLO], usage=Tokens(0, 0)), "it counts nothing"),
    further("counts tokens", 5, answer(SIX, finish="length", usage=Tokens(90_000, 6)), "too early"),
]


@pytest.mark.requirement("models.check.questions")
@pytest.mark.parametrize(("name", "number", "reply", "words"), FAULTS)
def test_each_fault_is_said_with_its_fix(name: str, number: int, reply: Reply, words: str) -> None:
    is_well, lines, _ = check(with_reply(number, reply))
    assert (lines[name][0], is_well) == ("✗", False)
    assert words in lines[name]


@pytest.mark.parametrize(
    ("name", "number", "reply", "words"),
    [
        ("streams", 0, say("Hello", pieces=1), "you will see it only when it is complete"),
        ("two calls", 3, call("echo", word="red"), "one call at a time"),
        ("keeps thoughts", 1, HELLO, "no thoughts came"),
        ("token limit", 5, say("One."), "too little"),
    ],
)
def test_what_a_server_may_do_is_no_fault(name: str, number: int, reply: Reply, words: str) -> None:
    is_well, lines, _ = check(with_reply(number, reply))
    assert (lines[name][0], is_well) == ("–", True)
    assert words in lines[name]


@pytest.mark.requirement("models.check.budget")
def test_a_server_that_spends_much_is_asked_no_more_than_was_promised() -> None:
    spent: list[int] = []

    def think_at_length(request: ModelRequest) -> Reply:
        limit = request.body["max_tokens"]
        prompt = len(request.raw) // 4 + 300  # a long template
        spent.append(prompt + limit)
        return answer("word " * limit, finish="length", usage=Tokens(prompt, limit))

    lines: list[str] = []
    with ScriptedModel(think_at_length, strict=False) as model:
        check_model(Model(Server("", model.url), "m", "m"), lines.append, whole=True)
    assert sum(spent) <= ALL_TOKENS
    assert len(spent) >= 2


@pytest.mark.requirement("models.check.questions")
def test_a_server_that_takes_no_round_with_thoughts_is_said_with_the_setting() -> None:
    replies = iter(GOOD)
    lines: list[str] = []
    with ScriptedModel(lambda request: REFUSED if request.tool_results else next(replies), strict=False) as model:
        assert not check_model(Model(Server("", model.url), "m", "m"), lines.append, whole=True)
    (line,) = [line for line in lines if "keeps thoughts" in line]
    assert line[0] == "✗"
    assert "reasoning_field" in line


def test_a_key_that_the_server_repeats_is_not_shown() -> None:
    _, lines, _ = check(with_reply(2, say(f"Your key is {KEY}.")), key=KEY)
    assert "[redacted]" in lines["uses a result"]


def test_what_follows_a_refusal_is_not_asked() -> None:
    is_well, lines, model = check([status(401, {"error": {"message": f"no {KEY}"}})], key=KEY)
    assert (is_well, list(lines), len(model.requests)) == (False, ["answers"], 1)


def program(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "VIBE_HOME": str(folder)}
    command = [*program_command(), "model", *words]
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=WAIT, check=False)


@pytest.mark.requirement("models.check.program")
def test_the_program_says_the_same_and_its_exit_code_tells_a_script(tmp_path: Path) -> None:
    with ScriptedModel([*GOOD, *with_reply(1, say("I would call echo."))], strict=False) as model:
        address = f"scripted@{model.url}"
        well, ill = program(tmp_path, "check", address), program(tmp_path, "check", address)
    assert (well.returncode, ill.returncode) == (0, 1), well.stderr + ill.stderr
    assert [line[2:].split("  ")[0].strip() for line in well.stdout.splitlines()[1:]] == NAMES
    assert "✗ calls a tool" in ill.stdout


@pytest.mark.requirement("models.check.program")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("check", "nobody"), "There is no model 'nobody'"),
        further(("check", "m@http://"), "NAME@URL"),
        further(("check", "one", "two"), "unrecognized arguments: two"),
        further((), "ACTION"),
        further(("chek",), "invalid choice"),
    ],
)
def test_wrong_usage_is_said_and_exits_with_2(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = program(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
