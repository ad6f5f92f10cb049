"""An agent with servers of ours: runs over a scripted model by HTTP, cards answered by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.mcp.conftest import declared, forked, served
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.limits import PriceLimit, TurnLimit
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.agent.run import Run
from vibe_jupyter.config.tool_servers import ServerAddress, ToolServer
from vibe_jupyter.context.mention_syntax import mentioned_resources
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.llm.request import Server as ModelServer
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.resources import parse_prompt_call
from vibe_jupyter.mcp.server_requests import McpRunHooks, NamedOnServers, ServerRequests
from vibe_jupyter.mcp.token_store import SecretStore
from vibe_jupyter.mcp.tool import ToolWays
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.mcp.toolset import McpToolset
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import ApprovalRequested, Approve, Event
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import Journal
from vibe_jupyter.testing import ScriptedModel

WAIT = 60.0
"""Seconds any run of these tests may take, on a machine that is busy."""
ASKING = Path(__file__).with_name("asking_server.py")

OnEvent = Callable[[Event, Run], None]


class AllAccepted:
    """The user has accepted every tool."""

    def state(self, server: str, tool: RemoteTool) -> Literal["accepted", "new", "changed"]:
        return "accepted"


def asking(*arguments: str, name: str = "asking", sampling: bool = True) -> ToolServer:
    """The server that asks, declared."""
    return declared(name, forked(ASKING, *arguments), sampling=sampling)


@contextmanager
def asking_over_http() -> Iterator[str]:
    """The server that asks, behind an address; many may speak to it."""
    with served(ASKING, "http") as url:
        yield url


def asking_at(url: str, *, name: str = "asking", sampling: bool = True) -> ToolServer:
    """The same, declared by its address."""
    return declared(name, ServerAddress(url), sampling=sampling)


class McpBench:
    """Everything of one agent with servers."""

    def __init__(self, folder: Path, model: ScriptedModel, *, store: SecretStore | None = None) -> None:
        self.model = model
        self.requests = ServerRequests(folder, store)
        self.servers = ServerPool(folder, {}, self.requests)
        self.permissions = Permissions(Workspace(folder))
        self.client = LLMClient(user_agent="vibe-jupyter/test", affinity="s1")
        self.conversation = Conversation(Journal.create(folder / "session", session_id="s1"))
        self.sees_images = False
        self.schema_only = False
        self.prices: dict[str, float] = {}
        self.price_limit = 0.0
        ways = ToolWays(self.requests.calls, lambda: self.sees_images)
        self.tools = McpToolset(self.servers, AllAccepted(), ways)

    def declare(self, *servers: ToolServer) -> None:
        self.servers.declare(servers)

    def agent(self) -> Agent:
        server = ModelServer(name="scripted", api_base=self.model.url)
        return Agent(
            name="default",
            model=Model(server=server, name="scripted", alias="scripted", sees_images=self.sees_images, **self.prices),
            client=self.client,
            tools=self.tools,
            permissions=self.permissions,
            middleware=[TurnLimit(50), PriceLimit(self.price_limit)],
            instructions="You are under test.",
            redactor=Redactor(),
            schema_only=self.schema_only,
        )

    async def ask(self, prompt: str, on_event: OnEvent | None = None, *, attended: bool = True) -> list[Event]:
        """Drive one run to its end; cards of calls are allowed, the rest is the test's to answer."""
        names = [one.server.name for one in self.servers.all()]
        wanted = NamedOnServers(
            [(one.server, one.uri) for one in mentioned_resources(prompt)], parse_prompt_call(prompt)
        )
        run_hooks = McpRunHooks(self.servers, self.requests, names, wanted=wanted, sees_images=self.sees_images)
        terms = RunTerms(attended=attended, approve_all=True)  # calls run at once; what servers ask still asks
        run = start_run(self.agent(), self.conversation, prompt, terms=terms, run_hooks=run_hooks)
        events: list[Event] = []
        async with asyncio.timeout(WAIT):
            async for event in run:
                events.append(event)
                if on_event is not None:
                    on_event(event, run)
        return events

    async def close(self) -> None:
        await self.servers.close()
        await self.client.close()
        self.conversation.journal.close()


@asynccontextmanager
async def mcp_bench(folder: Path, *, store: SecretStore | None = None) -> AsyncIterator[McpBench]:
    with ScriptedModel([]) as model:
        bench = McpBench(folder, model, store=store)
        try:
            yield bench
        finally:
            await bench.close()


def all_of(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    """The events of a kind, without the step in which servers start."""
    return [event for event in events if isinstance(event, kind) and getattr(event, "name", "") != "start_servers"]


def one(events: Sequence[Event], kind: type[Any]) -> Any:
    """The only event of a kind."""
    (found,) = all_of(events, kind)
    return found


def allowing(event: Event, run: Run) -> None:
    """Says yes to every card."""
    if isinstance(event, ApprovalRequested):
        run.send(Approve(approval_id=event.approval_id))
