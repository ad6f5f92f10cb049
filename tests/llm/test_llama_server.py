"""The product against a real llama-server with a real model. What the model says is of no account, only its form."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.agent.conftest import one
from tests.app.conftest import running_session
from tests.kernel.matrix import INSTALLED
from tests.llm.llama_server import (
    CALL,
    CONTEXT,
    KEY,
    NO_TOOLS,
    ONE_SYSTEM,
    START,
    LlamaServer,
    started,
    why_left_out,
)
from tests.llm.support import ask, client, failure_of, user
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.limits import TurnLimit
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.app.model_check import check_model
from vibe_jupyter.errors import ModelError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.llm.client import LLMClient, RetryPolicy
from vibe_jupyter.llm.request import ModelReply, ModelRequestTerms, RetryScheduled
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import (
    AssistantMessage,
    Event,
    Headline,
    Level,
    Preview,
    Resource,
    RunFinished,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolFinished,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from vibe_jupyter.session.conversation import Conversation, check_history
from vibe_jupyter.session.journal import Journal
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext, tool_spec

WISH = "Run this code: 6 * 7"
"""What the template makes the model answer with a call."""
LONG = "Count from one to a thousand in words."


class CodeArguments(BaseModel):
    code: str


class Code(Tool[CodeArguments]):
    """The tool of these tests: it keeps the code, and says one result."""

    name = "run_code"
    description = "Run Python code."
    level: Level = "always"
    arguments = CodeArguments

    def __init__(self) -> None:
        self.ran: list[str] = []

    def headline(self, args: CodeArguments) -> Headline:
        return Headline(verb="Ran", doing="Running", asking="Run", target=args.code)

    def preview(self, args: CodeArguments) -> Preview:
        return Preview(kind="text", text=args.code)

    def touches(self, args: CodeArguments) -> Sequence[Resource]:
        return [Resource(kind="code", value=args.code, access="execute")]

    async def run(self, args: CodeArguments, context: ToolContext) -> ToolResult:
        self.ran.append(args.code)
        return ToolResult.text("42", summary="ran")


class Talk:
    """One conversation with the server."""

    def __init__(self, server: LlamaServer, folder: Path) -> None:
        self.tool = Code()
        self.client = client(affinity=folder.name)
        self.journal = Journal.create(folder / "session", session_id="s1")
        self.conversation = Conversation(self.journal)
        self._agent = Agent(
            name="default",
            model=server.model(),
            client=self.client,
            tools=StaticToolset([self.tool]),
            permissions=Permissions(Workspace(folder)),
            middleware=[TurnLimit(3)],
            instructions="You help in a notebook.",
            redactor=Redactor(),
        )

    async def ask(self, wish: str) -> list[Event]:
        async with asyncio.timeout(START):
            return [event async for event in start_run(self._agent, self.conversation, wish, terms=RunTerms())]

    async def close(self) -> None:
        await self.client.close()
        self.journal.close()


@pytest.fixture(scope="module", autouse=True)
def runs_here() -> None:
    """All tests are left out by name where the server does not run."""
    if reason := why_left_out():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    with started() as server:
        server.wait_until_loaded()
        yield server


@pytest.fixture
async def asker() -> AsyncIterator[LLMClient]:
    asker = client()
    yield asker
    await asker.close()


async def talk(server: LlamaServer, folder: Path, wish: str) -> tuple[Talk, list[Event]]:
    """A conversation with one run."""
    folder.mkdir(exist_ok=True)
    one_talk = Talk(server, folder)
    events = await one_talk.ask(wish)
    await one_talk.close()
    return one_talk, events


@pytest.mark.matrix  # test_a_prompt_in_a_notebook_... is the same from the page on
async def test_a_call_is_streamed_run_and_answered(server: LlamaServer, tmp_path: Path) -> None:
    done, events = await talk(server, tmp_path, WISH)
    assert [event.outcome for event in events if isinstance(event, ToolFinished)][:1] == ["ok"]
    pieces = [event for event in events if isinstance(event, ToolCallDelta)]
    assert len(pieces) > 2, "the call came in one piece"
    first = next(message for message in done.conversation.history if isinstance(message, AssistantMessage))
    written = "".join(piece.arguments for piece in pieces if piece.position == 0)
    assert written.startswith(first.calls[0].arguments)
    assert [json.loads(call.arguments)["code"] for call in first.calls] == done.tool.ran[: len(first.calls)]
    kinds = [type(message) for message in done.conversation.history]
    assert kinds[:3] == [UserMessage, AssistantMessage, ToolMessage]
    end = one(events, RunFinished)
    assert end.reason in {"stop", "length", "turn_limit"}
    assert end.turns >= 2
    assert end.usage.prompt_tokens > 100
    assert end.usage.completion_tokens > 0
    assert end.usage.cached_tokens > 0, "the second request does not begin with the first one"
    check_history(done.conversation.history)


@pytest.mark.matrix
async def test_the_conversation_goes_on_with_its_calls_in_the_history(server: LlamaServer, tmp_path: Path) -> None:
    one_talk = Talk(server, tmp_path)
    await one_talk.ask(WISH)
    events = await one_talk.ask("Run this code: 5 + 6")
    await one_talk.close()
    assert one(events, RunFinished).reason in {"stop", "length", "turn_limit"}
    assert len(one_talk.tool.ran) >= 2
    check_history(one_talk.conversation.history)


@pytest.mark.matrix
async def test_two_conversations_at_once_do_not_mix(server: LlamaServer, tmp_path: Path) -> None:
    both = await asyncio.gather(
        talk(server, tmp_path / "one", WISH), talk(server, tmp_path / "two", "Run this code: 5 + 6")
    )
    codes = [done.tool.ran[0] for done, _ in both]
    assert codes == ["6 * 7", "5 + 6"]
    assert "error" not in [one(events, RunFinished).reason for _, events in both]


async def test_broken_arguments_in_the_history_do_not_fail_the_next_request(
    server: LlamaServer, asker: LLMClient
) -> None:
    broken = ToolCall(id="call1", name="run_code", arguments='{"code": "6 *')
    said = (
        user(WISH),
        AssistantMessage(parts=(broken,), stop_reason="tool_calls", model="smollm2"),
        ToolMessage(call_id="call1", name="run_code", parts=(TextPart(text="No JSON."),), is_error=True),
        user("Thanks."),
    )
    items = await ask(asker, ModelRequestTerms(server.model(), said, (tool_spec(Code()),)))
    assert isinstance(items[-1], ModelReply)


async def test_a_conversation_that_is_too_long_is_told_as_such(server: LlamaServer, asker: LLMClient) -> None:
    wish = ModelRequestTerms(server.model(), (user("one two three " * CONTEXT),))
    error, items = await failure_of(asker, wish)
    assert (error.kind, error.status, items) == ("overflow", 400, [])
    assert "%vibe reset" in str(error)


async def test_an_answer_stops_at_its_token_limit(server: LlamaServer, asker: LLMClient) -> None:
    items = await ask(asker, ModelRequestTerms(server.model(max_tokens=8), (user(LONG),)))
    reply = items[-1]
    assert isinstance(reply, ModelReply)
    message = reply.message
    assert message.stop_reason == "length"
    assert message.usage is not None
    assert message.usage.completion_tokens == 8


@pytest.mark.parametrize("key", ["another-key", None])
async def test_a_wrong_key_is_told_as_such_and_not_repeated(
    server: LlamaServer, asker: LLMClient, key: str | None
) -> None:
    error, items = await failure_of(asker, ModelRequestTerms(server.model(key=key), (user("hello"),)))
    assert (error.kind, error.status, items) == ("auth", 401, [])
    assert "another-key" not in str(error)


async def test_closing_the_stream_ends_the_work_of_the_server(server: LlamaServer, asker: LLMClient) -> None:
    answers = asker.answer(ModelRequestTerms(server.model(max_tokens=1500), (user(LONG),)))
    await anext(answers)
    await answers.aclose()
    # Both places of the server are free again: two more answers come, which would wait for 1,500 tokens otherwise.
    async with asyncio.timeout(START / 2):
        short = ModelRequestTerms(server.model(max_tokens=4), (user("hello"),))
        both = await asyncio.gather(*(ask(asker, short) for _ in range(2)))
    assert [type(items[-1]) for items in both] == [ModelReply, ModelReply]


@pytest.mark.requirement("wire.servers.openai-compatible")
def test_a_prompt_in_a_notebook_runs_what_a_real_model_calls(server: LlamaServer, tmp_path: Path) -> None:
    config = f"""
        active_model = "real"
        enabled_tools = ["run_code"]
        max_turns = 2
        [[providers]]
        name = "llamacpp"
        backend = "generic"
        api_base = "{server.url}"
        api_key_env_var = "OFFICE_KEY"
        [[models]]
        name = "smollm2"
        provider = "llamacpp"
        alias = "real"
        temperature = 0
        max_tokens = {CALL}
    """
    assert server.url.endswith(":8080/v1")
    with running_session(INSTALLED, tmp_path) as session:
        (tmp_path / "vibe" / "config.toml").write_text(config, encoding="utf-8")
        (tmp_path / "vibe" / ".env").write_text(f"OFFICE_KEY={KEY}\n", encoding="utf-8")
        request = session.wire.send(f"%vibe --yes=run_code {WISH}", allow_stdin=False)
        end = time.monotonic() + START
        while not session.wire.is_idle(request):
            session.wire.seen.append(session.wire.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic())))
        shown = session.html(session.wire.cell(request))
        assert "Ran code" in shown
        assert "6 * 7" in shown
        assert "42" in shown


def test_the_check_finds_a_real_server_well(server: LlamaServer) -> None:
    lines: list[str] = []
    assert check_model(server.model(), lines.append)
    assert [line[0] for line in lines[1:]] == ["✓", "✓", "✓", "–"]


def checked(server: LlamaServer, most: int) -> dict[str, str]:
    """The lines of the whole check, by the name of the question."""
    lines: list[str] = []
    check_model(server.model(max_tokens=most), lines.append, whole=True)
    return {line[2:15].strip(): line for line in lines[1:]}


@pytest.mark.requirement("models.check.questions")
@pytest.mark.matrix
def test_the_whole_check_asks_a_real_server_everything(server: LlamaServer) -> None:
    lines = checked(server, 120)
    assert len(lines) == 10
    right = ("answers", "streams", "calls a tool", "token limit", "counts tokens")
    assert [lines[name][0] for name in right] == ["✓"] * len(right)


@pytest.mark.requirement("models.check.questions")
@pytest.mark.matrix
async def test_a_template_that_wants_one_system_message_is_given_one(tmp_path: Path, asker: LLMClient) -> None:
    with started(ONE_SYSTEM) as strict:
        strict.wait_until_loaded()
        lines = checked(strict, 120)
        assert [lines[name][0] for name in ("calls a tool", "token limit", "counts tokens")] == ["✓"] * 3
        one_talk = Talk(strict, tmp_path)
        ended = [one(await one_talk.ask(WISH), RunFinished) for _ in range(2)]
        await one_talk.close()
        assert "error" not in [end.reason for end in ended], ended
        assert one_talk.tool.ran
        twice = (SystemMessage(text="a"), user("hello"), SystemMessage(text="b"), user("hello"))
        error, _ = await failure_of(asker, ModelRequestTerms(strict.model(max_tokens=4), twice))
        assert "System message must be at the beginning" in str(error)


@pytest.mark.requirement("models.check.questions")
@pytest.mark.matrix
async def test_a_template_without_tools_drops_them_silently_and_the_check_says_so(tmp_path: Path) -> None:
    with started(NO_TOOLS) as plain:
        plain.wait_until_loaded()
        lines = checked(plain, 60)
        assert lines["calls a tool"][0] == "✗"
        assert "--chat-template-file" in lines["calls a tool"]
        assert lines["two calls"].endswith("not asked, since no call came")
        done, events = await talk(plain, tmp_path, WISH)
        assert done.tool.ran == []
        assert one(events, RunFinished).reason in {"stop", "length"}


@pytest.fixture(scope="module")
def mortal() -> Iterator[LlamaServer]:
    """A server that drops the tools: it is met while it loads, asked, and killed, in this order."""
    with started(None) as server:
        yield server


async def test_a_server_that_loads_its_model_is_asked_again(mortal: LlamaServer) -> None:
    patient = LLMClient(user_agent="vibe-jupyter/test", retry=RetryPolicy(retries=1000, first=0.05, longest=0.05))
    async with asyncio.timeout(START):
        items = await ask(patient, ModelRequestTerms(mortal.model(max_tokens=4), (user("hello"),)))
    await patient.close()
    reasons = {item.reason for item in items if isinstance(item, RetryScheduled)}
    assert any("503" in reason for reason in reasons), reasons
    assert isinstance(items[-1], ModelReply)


def test_the_check_tells_of_a_server_that_drops_the_tools(mortal: LlamaServer) -> None:
    lines: list[str] = []
    mortal.wait_until_loaded()
    assert not check_model(mortal.model(max_tokens=16), lines.append)
    assert [line[0] for line in lines[1:]] == ["✓", "✓", "✗"]
    assert "--jinja" in lines[-1]


async def test_a_server_that_dies_in_mid_answer_is_told_with_what_it_said(
    mortal: LlamaServer, asker: LLMClient
) -> None:
    mortal.wait_until_loaded()
    text = ""
    with pytest.raises(ModelError) as caught:  # noqa: PT012 - the error comes out of the iteration
        async for item in asker.answer(ModelRequestTerms(mortal.model(max_tokens=1500), (user(LONG),))):
            text += item.text if isinstance(item, TextDelta) else ""
            mortal.process.kill()
    assert caught.value.kind == "truncated"
    assert text
    assert caught.value.partial_text == text
