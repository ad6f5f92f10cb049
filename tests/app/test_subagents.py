"""Sub-agents in a kernel: what they get, may do and give back, and how they end."""

import json
import re
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.app.prompt_sessions import file, settings
from tests.kernel.matrix import INSTALLED
from tests.patience import patient
from vibe_jupyter.agent.delegation import AT_ONCE
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import answer, call, say, status
from vibe_jupyter.testing.requests import ModelRequest
from vibe_jupyter.testing.wire import Reply, Tokens

pytestmark = pytest.mark.xdist_group("app")

WAIT = patient(20.0)
ROLE = "You are the sub-agent"
WRITER = """\
agent_type = "subagent"
description = "runs code"
enabled_tools = ["run_code", "task"]
[tools.run_code]
permission = "always"
"""
CAREFUL = WRITER.replace("always", "ask")
DEAR = """
[[models]]
name = "scripted-2"
provider = "scripted"
alias = "dear"
input_price = 1000.0
output_price = 1000.0
"""
SHORT = 'agent_type = "subagent"\nmax_turns = 1\n'

SURVEY = '''
import vibe_jupyter
from vibe_jupyter.tools import InvokeContext


@vibe_jupyter.tool
async def survey(topic: str, ctx: InvokeContext) -> str:
    """Surveys a topic."""
    part = await ctx.ask("Which part?", ["data", "code"])
    report = await ctx.delegate("explore", f"{topic} in the {part}")
    return f"{ctx.tool_call_id}: {report.response} ({report.completed}, {report.turns_used})"
'''


class Cast:
    """Who answers the model's requests: the main agent's part and the sub-agents' part."""

    def __init__(self) -> None:
        self.main: Callable[[ModelRequest], Reply] = lambda _: say("Done.")
        self.sub: Callable[[ModelRequest], Reply] = lambda _: say("Found.")
        self.of_subagents: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Reply:
        if ROLE in str(request.messages[0]["content"]):
            self.of_subagents.append(request)
            return self.sub(request)
        return self.main(request)

    def delegates(self, *tasks: tuple[str, str]) -> None:
        """The main agent hands out these tasks, agent and task, in one answer, and then ends."""
        calls = [call("task", agent=agent, task=task) for agent, task in tasks]

        def main(request: ModelRequest) -> Reply:
            return say("Done.") if request.tool_results else answer(calls=calls)

        self.main = main


@pytest.fixture(scope="module")
def cast() -> Cast:
    return Cast()


@pytest.fixture(scope="module")
def whole_session(cast: Cast, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("subagents"), script=cast) as session:
        agents = session.folder / "vibe" / "agents"
        agents.mkdir()
        (agents / "coder.toml").write_text(WRITER, encoding="utf-8")
        (agents / "careful.toml").write_text(CAREFUL, encoding="utf-8")
        (agents / "short.toml").write_text(SHORT, encoding="utf-8")
        with (session.folder / "vibe" / "config.toml").open("a", encoding="utf-8") as config:
            config.write(DEAR)
        yield session


@pytest.fixture
def session(whole_session: Session, cast: Cast) -> Session:
    whole_session.run("%vibe reset")
    whole_session.model.requests.clear()
    cast.of_subagents.clear()
    cast.sub = lambda _: say("Found.")
    return whole_session


def results(session: Session) -> list[str]:
    return session.model.requests[-1].tool_results


def tools(request: ModelRequest) -> set[str]:
    return {tool["function"]["name"] for tool in request.body["tools"]}


@pytest.mark.requirement(
    "subagent.isolation.context",
    "subagent.result.fields",
    "subagent.logging.separate",
    "subagent.nesting.refused",
    "subagent.questions.refused",
    "agents.builtin.explore",
)
def test_a_subagent_has_a_history_of_its_own_and_only_its_answer_comes_back(session: Session, cast: Cast) -> None:
    (session.folder / "notes.txt").write_text("the answer is 42", encoding="utf-8")
    cast.delegates(("explore", "what do the notes say?"))
    look = answer("Looking.", [call("read_file", path="notes.txt")])
    cast.sub = lambda request: say("It is 42.") if request.tool_results else look

    cell = session.run("%vibe --yes=task a question with a secret context")

    first, second = cast.of_subagents
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert first.messages[1]["content"] == "what do the notes say?"
    assert "the answer is 42" in second.tool_results[0]
    assert tools(first) == {"read_file", "grep", "read_notebook", "inspect"} & tools(session.model.requests[0])
    assert results(session) == ["Looking.\n\nIt is 42.\n(completed in 2 turns)"]
    assert "the answer is 42" not in json.dumps(session.model.requests[-1].messages)
    assert "completed in 2 turns" in session.html(cell)
    (journal,) = (session.folder / "vibe").rglob("subagents/*/journal.jsonl")
    assert [event.type for event in read_journal(journal).events][:2] == ["run_started", "message_added"]
    own = read_journal(journal.parent.parent.parent / "journal.jsonl").events
    assert [event.reason for event in own if event.type == "run_finished"] == ["stop"]
    assert session.run("%vibe sessions").text.count("a question with a secret context") == 1
    assert "what do the notes say?" not in session.run("%vibe sessions all").text


def test_the_prompt_of_a_subagent_names_no_tool_and_offers_nothing_that_it_does_not_have(
    session: Session, cast: Cast
) -> None:
    cast.delegates(("explore", "look"), ("coder", "run"))
    session.run("%vibe --yes=task,run_code,bash go")

    own = str(session.model.requests[0].messages[0]["content"])
    assert all(words in own for words in ("Plan with todo", "Sub-agents for task:", "Skills: where one fits"))
    for request in cast.of_subagents:
        said = str(request.messages[0]["content"])
        foreign = tools(session.model.requests[0]) - tools(request)
        named = {name for name in foreign if re.search(rf"\b{name}\b", said)} - {"task", "bash"}
        assert named == set()  # "the task below" and "default shell: bash" are no tools
        assert "Sub-agents for task" not in said
        assert "Skills: where one fits" not in said
    explore, coder = sorted((str(one.messages[0]["content"]) for one in cast.of_subagents), key=lambda s: "coder" in s)
    assert "Run unasked: what only reads.\n" in explore
    assert "Run unasked: what only reads and run_code.\n" in coder


@pytest.mark.requirement("subagent.validate.exists", "subagent.validate.type", "subagent.args.fields")
def test_only_a_subagent_can_be_called_and_explore_is_the_one_by_default(session: Session, cast: Cast) -> None:
    for agent, words in (
        ("nobody", "There are: explore, careful, coder, short."),
        ("plan", "prevents recursive spawning"),
    ):
        session.run("%vibe reset")
        cast.delegates((agent, "look"))
        session.run("%vibe --yes=task go")
        assert words in results(session)[0]
    assert cast.of_subagents == []
    session.run("%vibe reset")
    cast.main = lambda request: say("Done.") if request.tool_results else call("task", task="look")
    session.run("%vibe --yes=task go")
    assert "sub-agent explore" in str(cast.of_subagents[0].messages[0]["content"])
    session.run("%vibe reset")
    cast.main = lambda request: say("Done.") if request.tool_results else call("task", agent="explore")
    session.run("%vibe --yes=task go")
    assert "task: Field required" in results(session)[0]


@pytest.mark.requirement("subagent.parallel.several")
def test_several_tasks_of_one_answer_run_at_once_and_answer_in_their_order(session: Session, cast: Cast) -> None:
    cast.delegates(("explore", "first"), ("explore", "second"), ("explore", "third"))
    together = threading.Barrier(3, timeout=WAIT)

    def sub(request: ModelRequest) -> Reply:
        together.wait()
        task = request.messages[1]["content"]
        return say(f"Answer to {task}.") if request.tool_results else call("grep", pattern=f"of_{task}")

    cast.sub = sub
    cell = session.run("%vibe --yes=task go")

    assert [result.split("\n")[0] for result in results(session)] == [
        "Answer to first.",
        "Answer to second.",
        "Answer to third.",
    ]
    shown = re.findall(r"<code>(?:explore</code> (\w+)|(of_\w+)</code>)", session.html(cell))
    assert [task or call for task, call in shown] == ["first", "of_first", "second", "of_second", "third", "of_third"]

    session.run("%vibe reset")
    cast.delegates(*[("explore", f"number {number}") for number in range(AT_ONCE + 1)])
    working, most, lock = 0, 0, threading.Lock()
    full = threading.Event()

    def counted(request: ModelRequest) -> Reply:
        nonlocal working, most
        with lock:
            working += 1
            most = max(most, working)
        if working == AT_ONCE:
            full.set()
        assert full.wait(WAIT)
        with lock:
            working -= 1
        return say("Found.")

    cast.sub = counted
    session.run("%vibe --yes=task go")
    assert (most, len(results(session))) == (AT_ONCE, AT_ONCE + 1)


@pytest.mark.requirement("subagent.permission.default", "subagent.writes.profile")
def test_a_task_asks_unless_it_only_reads_and_a_subagent_may_no_more_than_its_caller(
    session: Session, cast: Cast
) -> None:
    cast.delegates(("explore", "look"))
    session.run("%vibe go")
    assert "Found." in results(session)[0]
    session.run("%vibe reset")
    cast.of_subagents.clear()

    cast.delegates(("coder", "make x"))
    session.run("%vibe go")
    assert "nobody is here to approve it" in results(session)[0]
    assert cast.of_subagents == []

    session.run("%vibe reset")
    cast.sub = lambda request: say("Made.") if request.tool_results else call("run_code", code="x = 1", keep=True)
    session.run("%vibe --yes=task go")
    assert "nobody is here to approve it" in cast.of_subagents[-1].tool_results[0]
    assert "task" not in tools(cast.of_subagents[0])

    session.run("%vibe reset")
    cast.delegates(("careful", "make x"))
    with settings(session, tables='[tools.run_code]\npermission = "always"\n'):
        session.run("%vibe --yes=task go")
    assert "nobody is here to approve it" in cast.of_subagents[-1].tool_results[0]

    write = call("write_file", path="no.txt", content="x")
    for agent in ("coder", "explore"):
        session.run("%vibe reset")
        cast.of_subagents.clear()
        cast.delegates((agent, "write it"))
        cast.sub = lambda request: say("Written?") if request.tool_results else write
        session.run("%vibe --yes=task,write_file go")
        assert "There is no tool" in cast.of_subagents[-1].tool_results[0]
    assert not (session.folder / "no.txt").exists()

    for level, answered in (("always", "Found."), ("never", "permission = never")):
        session.run("%vibe reset")
        cast.delegates(("explore", "look"))
        cast.sub = lambda _: say("Found.")
        with settings(session, tables=f'[tools.task]\npermission = "{level}"\n'):
            session.run("%vibe go")
        assert answered in results(session)[0]


@pytest.mark.requirement("subagent.approval.inherited", "subagent.events.live", "ui.display.task-call")
def test_a_subagents_call_is_asked_about_in_the_callers_view_and_its_steps_appear_there(
    session: Session, cast: Cast
) -> None:
    cast.delegates(("coder", "make x"))
    release = threading.Event()

    def sub(request: ModelRequest) -> Reply:
        if request.tool_results:
            release.wait(WAIT)
            return say("Made.")
        return call("run_code", code="x = 41 + 1", keep=True)

    cast.sub = sub
    request = session.wire.send("%vibe --yes=task go")
    view = session.view(request)
    approval = view.card()
    line = " ".join(re.sub(r"<[^>]+>", " ", view.wait_for("Running sub-agent")).split())
    assert "Running sub-agent coder make x" in line
    view.command(type="approve", approval_id=approval)
    view.wait_for("Ran code")
    release.set()
    session.wire.cell(request)

    assert results(session)[0].startswith("Made.")
    assert session.run("print(x)").text == "42\n"


@pytest.mark.requirement("subagent.result.interrupted", "ui.display.task-result")
def test_an_interrupt_ends_a_subagent_and_its_answer_says_so(session: Session, cast: Cast) -> None:
    cast.delegates(("explore", "look long"))
    asked, release = threading.Event(), threading.Event()

    def sub(request: ModelRequest) -> Reply:
        if request.tool_results:
            asked.set()
            release.wait(WAIT)
        return say("Late.") if request.tool_results else answer("So far so good.", [call("grep", pattern="x")])

    cast.sub = sub
    request = session.wire.send("%vibe --yes=task go", allow_stdin=False)
    assert asked.wait(WAIT)
    session.wire.interrupt()
    cell = session.wire.cell(request)
    release.set()
    assert "interrupted after 2 turns" in session.html(cell)

    cast.main = lambda _: say("Stopped.")
    session.run("%vibe and now?")
    (told,) = [message["content"] for message in session.model.requests[-1].messages if message["role"] == "tool"]
    assert told == "So far so good.\n(interrupted after 2 turns)"


@pytest.mark.requirement(
    "subagent.middleware.inherited",
    "subagent.result.bounded",
    "subagent.result.interrupted",
    "subagent.result.turns",
    "subagent.questions.refused",
    "ui.display.task-result",
)
def test_limits_hold_in_a_subagent_and_a_long_answer_is_cut(session: Session, cast: Cast) -> None:
    cast.delegates(("short", "look"))
    cast.sub = lambda request: answer("word " * 4_000, [call("grep", pattern="x")])
    cell = session.run("%vibe --yes=task go")
    assert len(cast.of_subagents) == 1
    assert not {"task", "ask_user_question"} & tools(cast.of_subagents[0])
    assert "(interrupted after 1 turn by its limit of turns)" in results(session)[0]
    assert re.search(r"interrupted after 1 turn\b", session.html(cell))
    assert len(results(session)[0]) < 8_000
    assert "characters" in results(session)[0]


@pytest.mark.requirement("subagent.middleware.inherited")
def test_a_subagents_history_is_compacted_at_the_threshold_too(session: Session, cast: Cast) -> None:
    cast.delegates(("explore", "look"))
    look = answer(calls=[call("grep", pattern="x")], usage=Tokens(20_000, 10))

    def sub(request: ModelRequest) -> Reply:
        if "Next step: what you were doing" in request.last_user_text:
            return say("A summary.")
        return say("Found.") if "A summary." in json.dumps(request.messages) else look

    cast.sub = sub
    with settings(session, "auto_compact_threshold = 15_000"):
        session.run("%vibe --yes=task go")
    assert len(cast.of_subagents) == 3
    assert results(session) == ["Found.\n(completed in 2 turns)"]


@pytest.mark.requirement("middleware.price.limit", "subagent.middleware.inherited")
def test_what_a_subagent_costs_counts_in_the_run_that_called_it(session: Session, cast: Cast) -> None:
    a_dollar = Tokens(1_000, 0)
    cast.delegates(("explore", "look"))
    cast.sub = lambda _: answer("Found.", usage=a_dollar)
    session.run("%vibe --model=dear --max-price=0 --yes=task go")
    assert results(session) == ["Found.\n(completed in 1 turn, $1.0000)"]

    session.run("%vibe reset")
    with file(session.folder / "vibe" / "agents" / "cheap.toml", 'agent_type = "subagent"\nmax_price = 0.5\n'):
        cast.delegates(("cheap", "look"))
        session.run("%vibe --model=dear --max-price=0 --yes=task go")
    assert results(session)[0].startswith("(interrupted after 0 turns by its limit of the price")

    session.run("%vibe reset")
    session.model.requests.clear()
    cast.of_subagents.clear()
    cast.main = lambda _: answer(calls=[call("task", task="look")], usage=a_dollar)
    cast.sub = lambda _: answer(calls=[call("grep", pattern="x")], usage=a_dollar)
    cell = session.run("%vibe --model=dear --max-price=1.5 --yes=task go")
    assert len(session.model.requests) == 1 + len(cast.of_subagents) == 2
    assert "the limit of one run is" in session.html(cell)


@pytest.mark.requirement("subagent.result.error", "subagent.result.interrupted")
def test_a_failing_subagent_gives_its_error_and_the_caller_goes_on(session: Session, cast: Cast) -> None:
    cast.delegates(("explore", "look"))

    def sub(request: ModelRequest) -> Reply:
        if request.tool_results:
            return status(400, "No such thing.")
        return answer("Begun.", [call("grep", pattern="x")])

    cast.sub = sub
    cell = session.run("%vibe --yes=task go")
    assert results(session)[0].startswith("Begun.\nError: ")
    assert results(session)[0].endswith("(interrupted after 2 turns)")
    assert "Done." in session.html(cell)


@pytest.mark.requirement("subagent.guidance.text")
def test_the_model_is_told_when_a_subagent_helps_and_when_it_does_not(session: Session, cast: Cast) -> None:
    cast.main = lambda _: say("Hello.")
    session.run("%vibe hello")
    told = next(
        tool["function"] for tool in session.model.requests[-1].body["tools"] if tool["function"]["name"] == "task"
    )
    assert "several steps" in told["description"]
    assert "read_file or grep" in told["description"]


def test_a_subagent_has_the_base_prompt_and_the_layers_that_its_own_file_chooses(session: Session, cast: Cast) -> None:
    def prompt(agent: str) -> str:
        cast.delegates((agent, "look"))
        session.run("%vibe --yes=task go")
        return cast.of_subagents[-1].messages[0]["content"]

    home = session.folder / "vibe"
    short = 'agent_type = "subagent"\nsystem_prompt_id = "pirate"\n'
    with (
        file(home / "prompts" / "pirate.md", "You are a pirate under {config.active_model}."),
        file(home / "agents" / "pirate.toml", f'{short}active_model = "dear"\n'),
        file(home / "agents" / "brief.toml", f'{short}instructions = "Say little."\ninclude_prompt_detail = false\n'),
        file(home / "agents" / "usual.toml", 'agent_type = "subagent"\nsystem_prompt_id = "cli"\n'),
        file(home / "agents" / "silent.toml", 'agent_type = "subagent"\n'),
    ):
        said = prompt("pirate")
        assert said.startswith("You are a pirate under dear.\n\nEnd the message of each git commit")
        assert "You are the model scripted-2." in said
        assert "Front end: " in said
        assert f"\n\n{ROLE} pirate." in said
        said = prompt("brief")
        assert said.startswith("You are a pirate under scripted.\n\nSay little.\n\nEnd the message")
        assert "Front end: " not in said
        assert session.model.requests[-1].messages[0]["content"].startswith("You are the agent inside")
        assert prompt("explore").startswith("You work for another agent")
        assert prompt("usual").startswith("You are the agent inside")
        assert prompt("silent").startswith("You work for another agent")
        with settings(session, 'system_prompt_id = "pirate"'):
            assert prompt("silent").startswith("You are a pirate under")
            assert prompt("usual").startswith("You are the agent inside")
    with file(home / "agents" / "lost.toml", short):
        cast.delegates(("lost", "look"))
        session.run("%vibe --yes=task go")
        assert "There is no prompt 'pirate' for system_prompt_id." in results(session)[-1]


@pytest.mark.requirement("tools.base.model.context")
def test_a_custom_tool_knows_its_call_and_can_ask_the_user_and_delegate(session: Session, cast: Cast) -> None:
    file = session.folder / "vibe" / "tools" / "survey.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(SURVEY, encoding="utf-8")
    cast.main = lambda request: say("Done.") if request.tool_results else call("survey", topic="leaks")
    request = session.wire.send("%vibe --yes=survey go")
    view = session.view(request)
    question = view.question()
    view.wait_for("Question from the tool survey")
    chosen = {"question": "Which part?", "selected": ["data"], "other": ""}
    view.command(type="answer", question_id=question, answers=[chosen])
    session.wire.cell(request)
    file.unlink()

    (asked,) = cast.of_subagents
    assert asked.messages[1]["content"] == "leaks in the data"
    (made,) = session.model.requests[-1].messages[-2]["tool_calls"]
    assert results(session) == [f"{made['id']}: Found. (True, 1)"]


def test_a_custom_tool_cannot_delegate_where_the_settings_forbid_the_tool_task(session: Session, cast: Cast) -> None:
    told = "No sub-agent works here: the settings forbid the tool task"
    unasked = SURVEY.replace('await ctx.ask("Which part?", ["data", "code"])', '"data"')
    disabled, plan = 'disabled_tools = ["task"]', 'enabled_tools = ["survey"]\n'
    cast.main = lambda request: say("Done.") if request.tool_results else call("survey", topic="leaks")
    home = session.folder / "vibe"
    with file(home / "tools" / "survey.py", unasked), file(home / "agents" / "alone.toml", plan):
        with settings(session, disabled):
            session.run("%vibe --yes=survey go")
        assert f"{told} (not among the agent's tools)." in results(session)[0]
        session.run("%vibe reset")
        session.run("%vibe --agent=alone --yes=survey go")
        assert f"{told} (not among the agent's tools)." in results(session)[0]
        session.run("%vibe reset")
        with settings(session, tables='[tools.task]\npermission = "never"\n'):
            session.run("%vibe --yes=survey go")
        assert f"{told} (permission = never)." in results(session)[0]
    assert cast.of_subagents == []


def test_a_tool_in_a_cell_has_the_main_thread_and_is_told_that_it_cannot_delegate(session: Session, cast: Cast) -> None:
    here = SURVEY.replace("def survey", "def poll").replace('await ctx.ask("Which part?", ["data", "code"])', '"data"')
    session.run(here)
    cast.main = lambda request: say("Done.") if request.tool_results else call("poll", topic="leaks")
    session.run("%vibe --yes=poll go")
    assert "Tools in files can do both." in results(session)[0]
    assert cast.of_subagents == []


def test_nothing_of_a_subagent_is_kept_where_conversations_are_not(session: Session, cast: Cast) -> None:
    cast.delegates(("explore", "look"))
    cast.sub = lambda request: say("Found.") if request.tool_results else call("grep", pattern="x")
    home = session.folder / "vibe"
    with settings(session, tables="[session_logging]\nenabled = false\n"):
        before = {path: path.stat().st_size for path in home.rglob("*") if path.is_file()}
        session.run("%vibe --yes=task go")
        after = {path: path.stat().st_size for path in home.rglob("*") if path.is_file()}
    assert len(cast.of_subagents) == 2
    assert results(session) == ["Found.\n(completed in 2 turns)"]
    assert after == before
