"""An agent with small real tools, a scripted model over real HTTP, and a driver that answers its cards."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from tests.patience import patient
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.limits import TurnLimit
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.agent.run import Run
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import ApprovalRequested, Command, Event, Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import Journal
from vibe_jupyter.testing import ScriptedModel
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext

WAIT = patient(30.0)
"""Seconds any run of these tests may take."""


class EchoArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    times: int = 1


class Echo(Tool[EchoArguments]):
    """A tool that says what it was told; it can fail, crash or wait on demand."""

    arguments = EchoArguments

    def __init__(self, name: str, level: Level) -> None:
        self.name = name
        self.description = "Says the text."
        self.level: Level = level
        self.ran: list[str] = []
        self.waiting = asyncio.Event()

    def headline(self, args: EchoArguments) -> Headline:
        return Headline(verb="Said", doing="Saying", asking="Say", target=args.text)

    def preview(self, args: EchoArguments) -> Preview:
        return Preview(kind="text", text=args.text, edits="text")

    def touches(self, args: EchoArguments) -> Sequence[Resource]:
        return [Resource(kind="code", value=args.text, access="execute")]

    async def run(self, args: EchoArguments, context: ToolContext) -> ToolResult:
        self.ran.append(args.text)
        if args.text == "fail":
            raise ToolError("It failed. Say something else.")
        if args.text == "crash":
            raise ZeroDivisionError("by zero")
        if args.text == "slow":
            context.progress("half of it")
        if args.text == "wait":
            self.waiting.set()
            await asyncio.Event().wait()
        return ToolResult.text(args.text * args.times, summary="said")


class Bench:
    """Everything of one agent under test."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.folder = folder
        self.model = model
        self.quiet = Echo("quiet", "always")
        self.risky = Echo("risky", "ask")
        self.tools = StaticToolset([self.quiet, self.risky])
        self.permissions = Permissions(Workspace(folder))
        self.client = LLMClient(user_agent="vibe-jupyter/test", affinity="s1")
        self.journal = Journal.create(folder / "session", session_id="s1")
        self.conversation = Conversation(self.journal)
        self.turns = 50
        self.stream = True
        self.run: Run | None = None

    def agent(self) -> Agent:
        return Agent(
            name="default",
            model=Model(server=Server(name="scripted", api_base=self.model.url), name="scripted", alias="scripted"),
            client=self.client,
            tools=self.tools,
            permissions=self.permissions,
            middleware=[TurnLimit(self.turns)],
            instructions="You are under test.",
            redactor=Redactor(),
            stream=self.stream,
        )

    async def ask(
        self,
        prompt: str,
        *,
        decide: Callable[[ApprovalRequested], Command] | None = None,
        on_event: Callable[[Event], None] | None = None,
        terms: RunTerms | None = None,
    ) -> list[Event]:
        """Drive one run to its end; `decide` answers every card."""
        self.run = run = start_run(self.agent(), self.conversation, prompt, terms=terms or RunTerms())
        events: list[Event] = []
        async with asyncio.timeout(WAIT):
            async for event in run:
                events.append(event)
                if on_event is not None:
                    on_event(event)
                if isinstance(event, ApprovalRequested) and decide is not None:
                    run.send(decide(event))
        return events


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
async def bench(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path, model)
    yield bench
    await bench.client.close()
    bench.journal.close()


def one(events: Sequence[Event], kind: type[Any]) -> Any:
    """The only event of a kind."""
    (found,) = [event for event in events if isinstance(event, kind)]
    return found
