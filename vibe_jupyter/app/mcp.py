"""The MCP servers of one kernel: which may be used, which run, and what they offer."""

import concurrent.futures
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from vibe_jupyter import config
from vibe_jupyter.agent.companion import Companion, Prepared, Seat
from vibe_jupyter.agent.mcp_companion import McpCompanion
from vibe_jupyter.agent.mcp_companion import Wanted as WantedOfServers
from vibe_jupyter.agent.mcp_requests import McpRequests
from vibe_jupyter.app.mcp_consent import McpConsent
from vibe_jupyter.app.mcp_later import Around
from vibe_jupyter.app.mcp_offers import McpOffers
from vibe_jupyter.app.mcp_plan import Plan, plan
from vibe_jupyter.app.mcp_watch import McpWatch
from vibe_jupyter.app.setup import Setup
from vibe_jupyter.app.stage import CLOSE_WAIT
from vibe_jupyter.config.patterns import chosen
from vibe_jupyter.config.secret_store import KeyringStore
from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.notebook.mention_syntax import resources
from vibe_jupyter.policy.accepted_servers import AcceptedServers
from vibe_jupyter.policy.tool_pins import ToolPins
from vibe_jupyter.tools.mcp.names import PREFIX, published
from vibe_jupyter.tools.mcp.prompt_call import prompt_call
from vibe_jupyter.tools.mcp.remote_tool import RemoteTool
from vibe_jupyter.tools.mcp.server import Server
from vibe_jupyter.tools.mcp.servers import Servers
from vibe_jupyter.tools.mcp.tool import Ways
from vibe_jupyter.tools.mcp.toolset import MCPTools, Wanted

T = TypeVar("T")

_LOOK: Final = 0.1
"""Seconds between two looks at whether the person wants no more."""


class Mcp:
    """Looks at the settings anew at each prompt; what did not change runs on. Main thread, but for what it submits."""

    def __init__(self, setup: Setup, around: Around) -> None:
        home = config.vibe_home(setup.environ)
        self.accepted = AcceptedServers(home)
        self.pins = ToolPins(home)
        self.requests = McpRequests(setup.project.folder, KeyringStore())
        self.servers = Servers(setup.project.folder, setup.environ, self.requests)
        self.offers = McpOffers(self.servers, around.engine)
        self.toolset = MCPTools(
            self.servers, self.pins, Ways(self.requests.calls, around.sees_images), taken=around.taken
        )
        self.consent = McpConsent(self.accepted, around.stage, setup.strike, around.grants)
        self.plan = Plan()
        """As the settings were when they were looked at last."""
        self.attended = lambda: around.host.attended
        """Whether somebody can answer a card."""
        self._setup = setup
        self._around = around
        self.watch = McpWatch(self.servers, self.pins, self.toolset)
        self._used = False

    def look(self, reading: config.Reading | None = None) -> Plan:
        """See what is declared now; asks nobody and starts nothing.

        Raises:
            ConfigError: a setting is wrong, or a decision cannot be read.
        """
        reading = reading or self._setup.read()
        self.toolset.wanted = _wanted(reading.settings)
        folder = self._setup.project.folder
        self.plan = plan(reading, self._setup.environ, folder=folder, accepted=self.accepted)
        self.pins.bind(self.plan.identities)
        return self.plan

    def before_prompt(self, reading: config.Reading) -> list[str]:
        """Ask for servers that nobody decided on, if somebody is here; gives what is to be told.

        Raises:
            ConfigError: a decision cannot be read or kept.
            NotebookError: the person interrupted instead of deciding; nothing was sent.
        """
        waiting = self.look(reading).at("unknown")
        told: list[str] = []
        if waiting and self.attended():
            self.consent.servers(waiting)
            self.look(reading)
        for one in self.plan.at("unknown"):
            told.append(
                f"The MCP server {one.name} is not started: nobody has accepted it yet. %vibe mcp accept {one.name} "
                "shows what it would run and asks, where somebody can answer."
            )
        return [*self.plan.problems, *told]

    def companion(self, text: str) -> Companion | None:
        """What starts the servers when a run begins, and fetches what the prompt names on them; None without servers.

        Args:
            text: the person's prompt.
        """
        if not self.plan.servers and not self._used:
            return None
        self._used = True
        named = [(one.server, one.uri) for one in resources(text) if self.plan.find(one.server) is not None]
        wanted = WantedOfServers(named, prompt_call(text))
        names = [one.name for one in self.plan.at("accepted")]
        inner = McpCompanion(self.servers, self.requests, names, wanted=wanted, sees_images=self._around.sees_images())
        return _Watched(self, inner)

    def declare(self) -> None:
        """Have the accepted servers, and no others. Engine loop."""
        self.servers.declare([one.filled for one in self.plan.at("accepted") if one.filled is not None])

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the engine loop and wait for it.

        Raises:
            NotebookError: the person interrupted, which ends it.
        """
        self._used = True
        future = self._around.engine.submit(work)
        try:
            while not concurrent.futures.wait([future], timeout=_LOOK).done:
                pass
            return future.result()
        except KeyboardInterrupt:
            raise NotebookError("Interrupted before it was done.") from None
        finally:
            future.cancel()

    def names(self) -> list[str]:
        """The servers that are declared.

        Raises:
            ConfigError: a setting is wrong.
        """
        return [one.name for one in self.look().servers]

    def tool_names(self) -> list[str]:
        """The tools of accepted servers that are known, whether they run just now or not."""
        try:
            known = self.plan if self.plan.servers else self.look()
        except ConfigError:  # the prompt says what is wrong
            return []
        return [published(one.name, tool) for one in known.at("accepted") for tool in self.pins.names(one.name)]

    def may_have(self, name: str) -> bool:
        """Whether a tool of this name may come with a server that was not started yet."""
        return any(name.startswith((f"{PREFIX}{one.name}__", f"{one.name}_")) for one in self.plan.at("accepted"))

    def close(self) -> None:
        """End all servers."""
        if self._used:
            closing = self._around.engine.submit(self.servers.close())
            concurrent.futures.wait([closing], timeout=CLOSE_WAIT)


def _wanted(settings: config.Settings) -> Wanted:
    """Which tools the settings leave, by any of their names."""

    def wanted(server: Server, tool: RemoteTool, names: Sequence[str]) -> bool:
        left = chosen((tool.name, *names), enabled=(), disabled=server.disabled_tools)
        return left and settings.offers_tool(*names)

    return wanted


class _Watched:
    """Goes along with a run, and sees to it that no tool is another than the one that was accepted."""

    def __init__(self, mcp: Mcp, inner: Companion) -> None:
        self._mcp = mcp
        self._inner = inner

    async def begin(self, seat: Seat) -> Prepared:
        self._mcp.declare()
        prepared = await self._inner.begin(seat)
        await self._mcp.watch.begin(seat.desk)
        return prepared

    async def end(self) -> None:
        self._mcp.watch.end()
        await self._inner.end()
