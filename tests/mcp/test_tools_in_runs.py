"""A tool of a server in a run: for the model the same as any other, for the user asked for, in each dialect."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.mcp.conftest import HERE, connection, declared, forked, until
from tests.patience import patient
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.limits import TurnLimit
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.config.tool_servers import ServerProgram
from vibe_jupyter.config.tool_servers import ToolServer as McpServer
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import DialectName, Model, ModelRequestTerms
from vibe_jupyter.llm.request import Server as ModelServer
from vibe_jupyter.mcp.connection import ServerConnection, ServerPool
from vibe_jupyter.mcp.hooks import OpenCalls
from vibe_jupyter.mcp.tool import ToolWays
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.mcp.toolset import McpToolset
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.protocol import (
    WHOLE,
    ApprovalRequested,
    Approve,
    AssistantMessage,
    Command,
    Event,
    Interrupt,
    Level,
    Reject,
    RunFinished,
    TextPart,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolStarted,
    UserMessage,
)
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import Journal
from vibe_jupyter.testing import ScriptedModel, answer, call, say
from vibe_jupyter.testing.wire import Call
from vibe_jupyter.tools.contract import JoinedToolsets, StaticToolset
from vibe_jupyter.tools.todo import TodoTool

pytestmark = pytest.mark.asyncio(loop_scope="module")

DIALECTS: tuple[DialectName, ...] = ("openai", "mistral", "ollama")
WORDS = "mcp__contents__words"
PROMPT_BACK = patient(5.0)
"""Seconds; two of them are promised, the rest is for a busy machine."""
Decide = Callable[[ApprovalRequested], Command]


class AllAccepted:
    """Every tool is as it was accepted."""

    def state(self, server: str, tool: RemoteTool) -> Any:
        return "accepted"


def allow(card: ApprovalRequested) -> Command:
    return Approve(approval_id=card.approval_id)


def deny(card: ApprovalRequested) -> Command:
    return Reject(approval_id=card.approval_id, message="not now")


def edit(text: str) -> Decide:
    return lambda card: Approve(approval_id=card.approval_id, edited=text)


@dataclass
class Bench:
    """An agent with a built-in tool and those of a real server, and a scripted model."""

    folder: Path
    model: ScriptedModel
    mcp: McpToolset
    permissions: Permissions
    client: LLMClient
    conversation: Conversation
    dialect: DialectName = "openai"

    @property
    def server_model(self) -> Model:
        base = self.model.url.removesuffix("/v1") if self.dialect == "ollama" else self.model.url
        return Model(server=ModelServer("scripted", base, dialect=self.dialect), name="scripted", alias="scripted")

    async def run(
        self, decide: Decide = allow, terms: RunTerms | None = None, *, interrupt_at: type[Event] | None = None
    ) -> list[Event]:
        agent = Agent(
            name="default",
            model=self.server_model,
            client=self.client,
            tools=JoinedToolsets(StaticToolset([TodoTool()]), self.mcp),
            permissions=self.permissions,
            middleware=[TurnLimit(10)],
            instructions="You are under test.",
            redactor=Redactor(),
        )
        run = start_run(agent, self.conversation, "Go on.", terms=terms or RunTerms())
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                run.send(decide(event))
            if interrupt_at is not None and isinstance(event, interrupt_at):
                run.send(Interrupt())
        return events

    def told(self) -> str:
        """What the model was told of the last call."""
        return str(self.model.requests[-1].messages[-1]["content"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerPool]:
    servers = ServerPool(tmp_path_factory.mktemp("project"), {"PATH": "/usr/bin:/bin"})
    contents = forked(HERE / "contents_server.py")
    servers.declare([declared("contents", contents), declared("hasty", contents, tool_timeout=0.5)])
    assert await servers.start(["contents", "hasty"]) == []
    yield servers
    await servers.close()


@pytest.fixture
def dialect() -> DialectName:
    return "openai"


@pytest.fixture
def model(dialect: DialectName) -> Iterator[ScriptedModel]:
    with ScriptedModel([], dialect=dialect) as model:
        yield model


@pytest_asyncio.fixture(loop_scope="module")
async def bench(
    tmp_path: Path, servers: ServerPool, model: ScriptedModel, dialect: DialectName
) -> AsyncIterator[Bench]:
    client = LLMClient(user_agent="vibe-jupyter/test", affinity="s1")
    journal = Journal.create(tmp_path / "session", session_id="s1")
    mcp = McpToolset(servers, AllAccepted(), ToolWays(OpenCalls(), lambda: False), taken=lambda: ("todo",))
    yield Bench(tmp_path, model, mcp, Permissions(Workspace(tmp_path)), client, Conversation(journal), dialect=dialect)
    await client.close()
    journal.close()


def kinds(events: list[Event]) -> list[str]:
    return [event.type for event in events if isinstance(event, ApprovalRequested | ToolStarted | ToolFinished)]


def shape(value: object) -> object:
    """The kinds of everything in a message, without what is said."""
    if isinstance(value, Mapping):
        return {key: shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.requirement("mcp.runs.both-dialects", "mcp.call.transparent", "project.tools.mcp-beside-builtin")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_servers_tool_and_a_built_in_one_look_the_same_in_every_dialect(bench: Bench) -> None:
    bench.model.will_reply(
        answer(calls=(call("todo", action="read"), call(WORDS, text="from outside"))), say("Both done.")
    )
    events = await bench.run()
    first, second = bench.model.requests
    tools = {tool["function"]["name"]: tool for tool in first.body["tools"]}
    assert list(shape(tools["todo"])) == list(shape(tools[WORDS]))  # type: ignore[call-overload]
    assert set(tools["todo"]["function"]) == set(tools[WORDS]["function"])
    said, own, outside = second.messages[-3:]
    built_in_call, outside_call = said["tool_calls"]
    assert list(built_in_call) == list(outside_call)
    assert list(built_in_call["function"]) == list(outside_call["function"])
    assert shape(own) == shape(outside)
    assert "from outside" in outside["content"]
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert [(event.name, event.outcome) for event in finished] == [("todo", "ok"), (WORDS, "ok")]
    last = bench.conversation.history[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == "Both done."


@pytest.mark.parametrize("dialect", ["openai", "mistral"])
async def test_a_request_may_choose_a_servers_tool_by_any_of_its_names(bench: Bench) -> None:
    bench.model.will_reply(say("x"))
    request = ModelRequestTerms(
        model=bench.server_model,
        messages=(UserMessage(parts=(TextPart(text="Go"),)),),
        tools=tuple(bench.mcp.specs()),
        tool_choice=bench.mcp.directory.resolve("contents_words"),
    )
    async for _ in bench.client.answer(request):
        pass
    assert bench.model.requests[-1].body["tool_choice"] == {"type": "function", "function": {"name": WORDS}}


@pytest.mark.requirement("mcp.schema.validate")
async def test_arguments_that_do_not_fit_the_servers_schema_are_an_error_result_and_nobody_is_asked(
    bench: Bench,
) -> None:
    bench.model.will_reply(call(WORDS, text=5), say("Sorry."))
    events = await bench.run()
    assert kinds(events) == ["tool_finished"]
    assert bench.told() == (
        f"Wrong arguments for {WORDS}: text: 5 is not of type 'string'. Nothing was run. "
        f"{WORDS} takes text: string (required)."
    )


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ('{"text": "a\\ud83d"}', "half a character"),
        ('{"text": "a", "more": [1e999]}', "a number is beyond the largest"),
    ],
)
async def test_what_no_server_can_be_sent_is_named_and_nobody_is_asked(bench: Bench, sent: str, problem: str) -> None:
    bench.model.will_reply(Call(WORDS, sent), say("Sorry."))
    assert kinds(await bench.run()) == ["tool_finished"]
    assert problem in bench.told()
    assert "Nothing was run." in bench.told()


async def test_a_call_waits_for_the_person_and_shows_all_of_it(bench: Bench) -> None:
    bench.model.will_reply(call(WORDS, text="a\nb"), say("Well."))
    events = await bench.run(deny)
    (card,) = [event for event in events if isinstance(event, ApprovalRequested)]
    assert card.reason == "calls an outside tool"
    assert json.loads(card.preview.text) == {"text": "a\nb"}
    assert card.preview.edits == WHOLE
    assert (card.remember_as, card.keepable) == (WORDS, False)
    assert kinds(events) == ["approval_requested", "tool_finished"]
    assert "not now" in bench.told()


async def test_the_person_may_change_all_arguments_on_the_card(bench: Bench) -> None:
    bench.model.will_reply(call(WORDS, text="sent"), say("Done."))
    events = await bench.run(edit('{"text": "changed"}'))
    assert "\nchanged\n" in bench.told()
    assert 'The user edited the call before allowing it; what ran: {"text": "changed"}' in bench.told()
    assert kinds(events) == ["approval_requested", "tool_started", "tool_finished"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"text": ', "The user edited the call, but it is no longer one JSON object"),
        (
            "[1]",
            "The user edited the call, but it is no longer one JSON object: expected a JSON object, got a list",
        ),
        ('{"text": 7}', f"The user edited the call, but: Wrong arguments for {WORDS}: text: 7 is not of type"),
    ],
)
async def test_an_edit_that_cannot_be_called_is_told_and_not_called(bench: Bench, text: str, reason: str) -> None:
    bench.model.will_reply(call(WORDS, text="sent"), say("Oh."))
    assert kinds(await bench.run(edit(text))) == ["approval_requested", "tool_finished"]
    assert bench.told().startswith(reason)


@pytest.mark.requirement("permission.mcp.same", "mcp.filter.permission")
@pytest.mark.parametrize("name", [WORDS, "contents_words"])
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("always", ["tool_started", "tool_finished"]),
        ("ask", ["approval_requested", "tool_started", "tool_finished"]),
        ("never", ["tool_finished"]),
        (None, ["approval_requested", "tool_started", "tool_finished"]),
    ],
)
async def test_permissions_hold_under_both_forms_of_the_name(
    bench: Bench, name: str, level: Level | None, expected: list[str]
) -> None:
    bench.permissions.levels = {name: level} if level is not None else {}
    bench.model.will_reply(call(WORDS, text="x"), say("Done."))
    assert kinds(await bench.run()) == expected


@pytest.mark.requirement("mcp.filter.permission")
@pytest.mark.parametrize(
    ("lists", "text", "expected"),
    [
        (ToolLists(allow=("text=public*",)), "public words", ["tool_started", "tool_finished"]),
        (ToolLists(allow=("text=public*",)), "other", ["approval_requested", "tool_started", "tool_finished"]),
        (ToolLists(deny=("text=*secret*",)), "a secret", ["tool_finished"]),
        (ToolLists(deny=("text=*secret*",)), "none", ["approval_requested", "tool_started", "tool_finished"]),
    ],
)
async def test_lists_of_a_tool_match_its_arguments(
    bench: Bench, lists: ToolLists, text: str, expected: list[str]
) -> None:
    bench.permissions.lists = {"contents_words": lists}
    bench.model.will_reply(call(WORDS, text=text), say("Done."))
    assert kinds(await bench.run()) == expected


async def test_a_grant_for_the_session_covers_this_tool_alone(bench: Bench) -> None:
    def for_session(card: ApprovalRequested) -> Command:
        return Approve(approval_id=card.approval_id, remember="session")

    other = call("mcp__contents__nothing")
    bench.model.will_reply(call(WORDS, text="1"), call("contents_words", text="2"), other, say("Done."))
    cards = [event for event in await bench.run(for_session) if isinstance(event, ApprovalRequested)]
    assert [card.call.name for card in cards] == [WORDS, "mcp__contents__nothing"]


@pytest.mark.parametrize("name", [WORDS, "contents_words"])
async def test_a_tool_named_beforehand_runs_where_nobody_can_answer(bench: Bench, name: str) -> None:
    bench.model.will_reply(call(WORDS, text="1"), say("Done."))
    events = await bench.run(terms=RunTerms(attended=False, allowed=frozenset({name})))
    assert kinds(events) == ["tool_started", "tool_finished"]


async def test_how_far_a_call_is_comes_as_events_of_the_run(bench: Bench) -> None:
    bench.permissions.levels = {"contents_count": "always"}
    bench.model.will_reply(call("mcp__contents__count", steps=3), say("Done."))
    steps = [event for event in await bench.run() if isinstance(event, ToolProgress)]
    assert steps
    assert {step.total for step in steps} == {3.0}
    assert steps[0].text.startswith("step ")


async def test_an_interrupt_in_a_call_ends_the_run_answers_the_call_and_cancels_it_on_the_server(
    bench: Bench, tmp_path: Path
) -> None:
    bench.permissions.levels = {"contents_measure": "always"}
    gone = tmp_path / "gone"
    bench.model.will_reply(call("mcp__contents__measure", gate=str(tmp_path / "never"), cancelled=str(gone)))
    events = await bench.run(interrupt_at=ToolProgress)
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.reason, finished.seconds < PROMPT_BACK) == ("interrupted", True)
    assert isinstance(bench.conversation.history[-1], ToolMessage)
    await until(gone.exists, "the server was not told")


@pytest.mark.requirement("mcp.timeout.tool")
async def test_a_call_that_takes_longer_than_its_server_may_take_is_an_error_for_the_model(
    bench: Bench, tmp_path: Path
) -> None:
    assert McpServer("any", ServerProgram(("any",))).tool_timeout == 60
    bench.permissions.levels = {"hasty_measure": "always"}
    bench.model.will_reply(call("mcp__hasty__measure", gate=str(tmp_path / "never")), say("Too slow."))
    events = await bench.run()
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.outcome == "error"
    assert 0.5 <= finished.seconds < 0.5 + PROMPT_BACK
    assert "did not answer within 0.5 s" in bench.told()


class Namesakes:
    """Servers of which two have a tool by one short name."""

    def __init__(self, *connections: ServerConnection) -> None:
        self._connections = connections

    def all(self) -> Sequence[ServerConnection]:
        return self._connections


@pytest.mark.parametrize(
    ("level", "lists", "expected"),
    [
        ("always", ToolLists(allow=("text=*",)), ["approval_requested", "tool_started", "tool_finished"]),
        ("never", ToolLists(), ["tool_finished"]),
        ("ask", ToolLists(deny=("text=x",)), ["tool_finished"]),
    ],
)
async def test_under_a_name_that_means_two_tools_nothing_is_allowed_and_all_is_forbidden(
    bench: Bench, level: Level, lists: ToolLists, expected: list[str]
) -> None:
    contents = forked(HERE / "contents_server.py")
    servers = ServerPool(bench.folder, {"PATH": "/usr/bin:/bin"})
    servers.declare([declared("lab_words", contents), declared("lab", contents)])
    lab, other = connection(servers, "lab"), connection(servers, "lab_words")
    lab.tools = (RemoteTool("words_north", "", {}),)
    other.tools = (RemoteTool("north", "", {}),)
    bench.mcp = McpToolset(Namesakes(lab, other), AllAccepted(), ToolWays(OpenCalls(), lambda: False))
    bench.permissions.levels = {"lab_words_north": level}
    bench.permissions.lists = {"lab_words_north": lists}
    bench.model.will_reply(call("mcp__lab__words_north", text="x"), say("Done."))
    assert kinds(await bench.run()) == expected
    await servers.close()
