"""The MCP servers of a kernel's app: approved by the user first, and started when a run needs them."""

import concurrent.futures
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from vibe_jupyter import config
from vibe_jupyter.agent.agent import HookContext, PreparedPrompt, RunHooks
from vibe_jupyter.agent.approval import StandaloneApproval, StandaloneApprovalRun
from vibe_jupyter.app.kernel_parts import McpParts
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.app.run_view import CLOSE_WAIT, BegunRun, RunView
from vibe_jupyter.config.tables import is_chosen
from vibe_jupyter.config.tool_servers import ToolServer
from vibe_jupyter.context.mention_syntax import mentioned_resources
from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.mcp.acceptance import AcceptedServers, PlannedServer, ServerIdentity, ServerPlan, plan_servers
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.pins import PinWatch, ToolPins
from vibe_jupyter.mcp.resources import TabOffers, parse_prompt_call
from vibe_jupyter.mcp.server_requests import McpRunHooks, ServerRequests
from vibe_jupyter.mcp.server_requests import NamedOnServers as WantedOfServers
from vibe_jupyter.mcp.token_store import KeyringStore
from vibe_jupyter.mcp.tool import ToolWays
from vibe_jupyter.mcp.tool_names import PREFIX, RemoteTool, name_prefix, other_names, published_name
from vibe_jupyter.mcp.toolset import McpToolset, WantTool
from vibe_jupyter.permissions.grants import Grants
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import Headline, Preview
from vibe_jupyter.ui.front_end import EVERYTHING
from vibe_jupyter.ui.text import plural_text

T = TypeVar("T")

# Placeholder for the tools of a server that never ran, for settings that enable or disable all of a server's tools.
_UNKNOWN_TOOL: Final = "unknown"
_LOOK: Final = 0.1  # seconds between checks for an interrupt

_UNDECIDED: Final = "Interrupted before you decided on the MCP servers. Nothing was sent; try again."


class McpServers:
    """MCP servers of one kernel. Main thread only, except for coroutines it submits.

    Rereads the settings at each prompt. Servers whose settings didn't change keep running.
    """

    def __init__(self, setup: KernelSettings, around: McpParts) -> None:
        home = config.vibe_home(setup.environ)
        self.accepted = AcceptedServers(home)
        self.pins = ToolPins(home)
        self.requests = ServerRequests(setup.project.folder, KeyringStore())
        self.servers = ServerPool(setup.project.folder, setup.environ, self.requests)
        self.offers = TabOffers(self.servers, around.kernel.engine)
        self.toolset = McpToolset(
            self.servers, self.pins, ToolWays(self.requests.calls, around.sees_images), taken=around.taken
        )
        self.approval = McpApproval(self.accepted, around.run_view, setup.strike, around.grants)
        self.plan = ServerPlan()  # plan by the settings as last read
        self.attended = lambda: around.kernel.host.attended  # returns whether a user can answer a card
        self._setup = setup
        self._around = around
        self.watch = PinWatch(self.servers, self.pins, self.toolset)
        self._used = False

    def look(self, reading: config.SettingsReading | None = None) -> ServerPlan:
        """Plan the servers declared now, without asking the user or starting any.

        Raises:
            ConfigError: A setting is invalid, or a stored decision can't be read.
        """
        reading = reading or self._setup.read()
        self.toolset.wanted = _wanted_filter(reading)
        self.toolset.permitted = lambda _server, _tool, names: not reading.forbids_tool(*names)
        folder = self._setup.project.folder
        self.plan = plan_servers(reading, self._setup.environ, folder=folder, accepted=self.accepted)
        self.pins.bind(self.plan.identities)
        return self.plan

    def before_prompt(self, reading: config.SettingsReading) -> list[str]:
        """Ask the user, if attending, about servers without a decision. Returns messages to show.

        Raises:
            ConfigError: A decision can't be read or saved.
            NotebookError: The user interrupted instead of deciding; nothing was sent.
        """
        waiting = self.look(reading).at("unknown")
        told: list[str] = []
        if waiting and self.attended():
            self.approval.servers(waiting)
            self.look(reading)
        for one in self.plan.at("unknown"):
            told.append(
                f"The MCP server {one.name} is not started: nobody has accepted it yet. %vibe mcp accept {one.name} "
                "shows what it would run and asks, where somebody can answer."
            )
        return [*self.plan.problems, *told]

    def offering(self, reading: config.SettingsReading) -> list[str]:
        """Return the accepted servers with a tool for the selected agent.

        This covers sub-agents: they are never offered a tool that their caller isn't.
        """
        found: list[str] = []
        for one in self.plan.at("accepted"):
            known = self.pins.names(one.name) or (_UNKNOWN_TOOL,)
            off = one.filled.disabled_tools if one.filled is not None else ()
            offered = [
                name
                for name in known
                if is_chosen((name,), enabled=(), disabled=off)
                and reading.offers_tool(published_name(one.name, name), *other_names(one.name, name))
            ]
            if offered:
                found.append(one.name)
        return found

    def run_hooks(self, text: str) -> RunHooks | None:
        """Return hooks that start the servers with the run and fetch what the prompt mentions, or None without servers.

        Args:
            text: The user's prompt.
        """
        if not self.plan.servers and not self._used:
            return None
        self._used = True
        named = [(one.server, one.uri) for one in mentioned_resources(text) if self.plan.find(one.server) is not None]
        wanted = WantedOfServers(named, parse_prompt_call(text))
        names = [one.name for one in self.plan.at("accepted")]
        inner = McpRunHooks(self.servers, self.requests, names, wanted=wanted, sees_images=self._around.sees_images())
        return _Watched(self, inner)

    def declare(self) -> None:
        """Declare exactly the accepted servers to the pool. Engine loop only."""
        self.servers.declare([one.filled for one in self.plan.at("accepted") if one.filled is not None])

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine loop and wait for its result.

        Raises:
            NotebookError: The user interrupted, which cancels the coroutine.
        """
        self._used = True
        future = self._around.kernel.engine.submit(work)
        try:
            while not concurrent.futures.wait([future], timeout=_LOOK).done:
                pass
            return future.result()
        except KeyboardInterrupt:
            raise NotebookError("Interrupted before it was done.") from None
        finally:
            future.cancel()

    def names(self) -> list[str]:
        """Return the names of the declared servers.

        Raises:
            ConfigError: A setting is invalid.
        """
        return [one.name for one in self.look().servers]

    def tool_names(self) -> list[str]:
        """Return the known tool names of accepted servers, running or not."""
        try:
            known = self.plan if self.plan.servers else self.look()
        except ConfigError:  # the next prompt reports the invalid setting
            return []
        return [published_name(one.name, tool) for one in known.at("accepted") for tool in self.pins.names(one.name)]

    def may_have(self, name: str) -> bool:
        """Return whether a server that hasn't started yet may offer a tool of this name."""
        return any(_may_be_of(one.name, name) for one in self.plan.at("accepted"))

    def why_unused(self, name: str) -> str:
        """Return why the server of such a tool isn't in use, or "" if no declared server matches."""
        return next((unused_server(one) for one in self.plan.servers if _may_be_of(one.name, name)), "")

    def close(self) -> None:
        """Stop all servers."""
        if self._used:
            closing = self._around.kernel.engine.submit(self.servers.close())
            concurrent.futures.wait([closing], timeout=CLOSE_WAIT)


def unused_server(one: PlannedServer) -> str:
    """Return why a declared server isn't in use and what to do, or "" if it is."""
    match one.standing:
        case "accepted":
            return ""
        case "disabled":
            return f"{one.name} is switched off. %vibe mcp on {one.name} switches it on."
        case "incomplete":
            return one.problem
        case "unknown" | "refused":
            return f"{one.name} is not accepted yet. %vibe mcp accept {one.name} asks for it."


def _may_be_of(server: str, name: str) -> bool:
    """Return whether a tool's name has the prefix of a server."""
    return name.startswith((f"{PREFIX}{server}__", f"{server}_"))


def _wanted_filter(reading: config.SettingsReading) -> WantTool:
    """Return a filter that keeps the tools enabled in the settings under any of their names."""

    def wanted(server: ToolServer, tool: RemoteTool, names: Sequence[str]) -> bool:
        left = is_chosen((tool.name, *names), enabled=(), disabled=server.disabled_tools)
        return left and reading.leaves_tool(*names)

    return wanted


class _Watched:
    """Run hooks that also watch for tools that differ from what the user accepted."""

    def __init__(self, mcp: McpServers, inner: RunHooks) -> None:
        self._mcp = mcp
        self._inner = inner

    async def begin(self, hook_context: HookContext) -> PreparedPrompt:
        self._mcp.declare()
        prepared = await self._inner.begin(hook_context)
        await self._mcp.watch.begin(hook_context.call_context)
        return prepared

    async def end(self) -> None:
        self._mcp.watch.end()
        await self._inner.end()


class McpApproval:
    """Approval of servers and changed tools. Saves the decisions. Main thread only."""

    def __init__(
        self, accepted: AcceptedServers, run_view: RunView, strike: Callable[[], Redactor], grants: Grants
    ) -> None:
        self._accepted = accepted
        self._grants = grants
        self._strike = strike  # redacts known keys, because the card stays in the notebook
        self._run_view = run_view

    def servers(self, waiting: Sequence[PlannedServer]) -> bool:
        """Ask for approval of all servers on one card. Returns whether the user accepts.

        Raises:
            ConfigError: The decision can't be saved.
            NotebookError: The user interrupted instead.
        """
        asked = [one.identity for one in waiting if one.identity is not None]
        allowed = self._ask_approval(_servers_approval(asked, self._strike()))
        self.remember(asked, accepted=allowed)
        return allowed

    def remember(self, asked: Sequence[ServerIdentity], *, accepted: bool) -> None:
        """Save the decision, and revoke permissions that were granted to earlier servers of these names.

        Raises:
            ConfigError: The decision can't be saved.
        """
        self._accepted.remember(asked, accepted=accepted)
        for one in asked:
            self.forget_grants(one.name)

    def change(self, server: str, diff: str) -> bool:
        """Ask for approval of tools that differ from those accepted.

        Raises:
            NotebookError: The user interrupted instead.
        """
        allowed = self._ask_approval(_change_approval(server, self._strike()(diff)))
        if allowed:
            self.forget_grants(server)
        return allowed

    def forget_grants(self, server: str) -> None:
        """Revoke permissions of the server's tools: they were granted to earlier versions of them."""
        self._grants.forget_beginning(name_prefix(server))

    def _ask_approval(self, approval: StandaloneApproval) -> bool:
        self._run_view.check_free()
        asked = StandaloneApprovalRun(approval)
        self._run_view.show(BegunRun(asked.run, "nothing was decided."), EVERYTHING)
        if asked.allowed is None:
            raise NotebookError(_UNDECIDED)
        return asked.allowed


def _servers_approval(asked: Sequence[ServerIdentity], strike: Redactor) -> StandaloneApproval:
    names = ", ".join(one.name for one in asked)
    return StandaloneApproval(
        name="use_mcp_servers",
        headline=Headline(
            verb="Asked to use MCP servers", doing="Asking to use MCP servers", asking="Use MCP servers", target=names
        ),
        preview=Preview(kind="text", text=strike("\n".join(line for one in asked for line in one.shown))),
        reason="new here, or changed since you accepted them; a program runs with your permissions",
        allow=f"Accept {plural_text(len(asked), 'server')}",
        bound_to="\n".join(one.digest for one in asked),
        yes="accepted as shown",
        no="not started; `mcp accept NAME` asks again",
    )


def _change_approval(server: str, diff: str) -> StandaloneApproval:
    return StandaloneApproval(
        name="accept_mcp_tools",
        headline=Headline(
            verb="Asked for changed tools of",
            doing="Asking for changed tools of",
            asking="Accept the changed tools of",
            target=server,
        ),
        preview=Preview(kind="diff", text=diff),
        reason="what the server says of these tools differs from what you accepted; the model would read it",
        allow="Accept the change",
        bound_to=server,
        yes="accepted as they are now",
        no="not offered",
    )
