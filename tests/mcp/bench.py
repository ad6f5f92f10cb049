"""An agent with servers of ours: runs over a scripted model by HTTP, cards answered by the test."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.mcp.conftest import declared, served
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.loop import start
from vibe_jupyter.agent.mcp_companion import McpCompanion, Wanted
from vibe_jupyter.agent.mcp_requests import McpRequests
from vibe_jupyter.agent.middleware.price_limit import PriceLimit
from vibe_jupyter.agent.middleware.turn_limit import TurnLimit
from vibe_jupyter.agent.run import Run
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.llm.request import Server as ModelServer
from vibe_jupyter.notebook.mention_syntax import resources
from vibe_jupyter.policy.permissions import Permissions, RunTerms
from vibe_jupyter.protocol import ApprovalRequested, Approve, Event
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import Journal
from vibe_jupyter.testing import ScriptedModel
from vibe_jupyter.tools.mcp.prompt_call import prompt_call
from vibe_jupyter.tools.mcp.remote_tool import RemoteTool
from vibe_jupyter.tools.mcp.secret_store import SecretStore
from vibe_jupyter.tools.mcp.server import Address, Program, Server
from vibe_jupyter.tools.mcp.servers import Servers
from vibe_jupyter.tools.mcp.tool import Ways
from vibe_jupyter.tools.mcp.toolset import MCPTools
from vibe_jupyter.tools.workspace import Workspace

WAIT = 60.0
"""Seconds any run of these tests may take, on a machine that is busy."""
ASKING = Path(__file__).with_name("asking_server.py")

OnEvent = Callable[[Event, Run], None]


class AllAccepted:
    """The person has accepted every tool."""

    def state(self, server: str, tool: RemoteTool) -> Literal["accepted", "new", "changed"]:
        return "accepted"


def asking(*arguments: str, name: str = "asking", sampling: bool = True) -> Server:
    """The server that asks, declared."""
    return declared(name, Program((sys.executable, "-W", "ignore", str(ASKING), *arguments)), sampling=sampling)


@contextmanager
def asking_over_http() -> Iterator[str]:
    """The server that asks, behind an address; many may speak to it."""
    with served("-W", "ignore", ASKING, "http") as url:
        yield url


def asking_at(url: str, *, name: str = "asking", sampling: bool = True) -> Server:
    """The same, declared by its address."""
    return declared(name, Address(url), sampling=sampling)


class McpBench:
    """Everything of one agent with servers."""

    def __init__(self, folder: Path, model: ScriptedModel, *, store: SecretStore | None = None) -> None:
        self.model = model
        self.requests = McpRequests(folder, store)
        self.servers = Servers(folder, {}, self.requests)
        self.permissions = Permissions(Workspace(folder))
        self.client = LLMClient(user_agent="vibe-jupyter/test", affinity="s1")
        self.conversation = Conversation(Journal.create(folder / "session", session_id="s1"))
        self.sees_images = False
        self.prices: dict[str, float] = {}
        self.price_limit = 0.0
        ways = Ways(self.requests.calls, lambda: self.sees_images)
        self.tools = MCPTools(self.servers, AllAccepted(), ways)

    def declare(self, *servers: Server) -> None:
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
        )

    async def ask(self, prompt: str, on_event: OnEvent | None = None, *, attended: bool = True) -> list[Event]:
        """Drive one run to its end; cards of calls are allowed, the rest is the test's to answer."""
        names = [one.server.name for one in self.servers.all()]
        wanted = Wanted([(one.server, one.uri) for one in resources(prompt)], prompt_call(prompt))
        companion = McpCompanion(self.servers, self.requests, names, wanted=wanted, sees_images=self.sees_images)
        terms = RunTerms(attended=attended, approve_all=True)  # calls run at once; what servers ask still asks
        run = start(self.agent(), self.conversation, prompt, terms=terms, companion=companion)
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
    """The events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def one(events: Sequence[Event], kind: type[Any]) -> Any:
    """The only event of a kind."""
    (found,) = all_of(events, kind)
    return found


def allowing(event: Event, run: Run) -> None:
    """Says yes to every card."""
    if isinstance(event, ApprovalRequested):
        run.send(Approve(approval_id=event.approval_id))
