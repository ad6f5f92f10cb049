"""Which tools go along with one request, and whose the calls are that come back."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import JsonValue

from vibe_jupyter.app.project import CurrentSettings
from vibe_jupyter.config.settings import McpMode
from vibe_jupyter.gateway.agents import AgentParts
from vibe_jupyter.gateway.chat_request import ChatRequest
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.tools.contract import FilteredToolset, JoinedToolsets, Tool, Toolset


class HeldToolset:
    """A set that is listed again only after a tool of it was looked up: what a call may change is changed by then."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools
        self._listed: Sequence[ToolSpec] | None = None

    def specs(self) -> Sequence[ToolSpec]:
        if self._listed is None:
            self._listed = self._tools.specs()
        return self._listed

    def find(self, name: str) -> Tool[Any] | None:
        self._listed = None
        return self._tools.find(name)


class RequestTools:
    """Of one request. A tool that the client defines is its own, whatever else has that name."""

    def __init__(self, agents: AgentParts, current: CurrentSettings, request: ChatRequest, own: Toolset) -> None:
        """
        Args:
            agents: has those of MCP servers.
            current: settings that say what is done with calls of these.
            request: says it too.
            own: tools that are the gateway's own.
        """
        runs_own = request.fields.mcp_mode in (None, "execute")

        def forbids(name: str) -> bool:
            return agents.forbids_tool(name, current)

        kept = FilteredToolset(own, lambda name: runs_own and name not in request.own_tools, forbids=forbids)
        self.has_own = bool(kept.specs()) and not request.passes_plainly
        """Whether the gateway's own are offered."""
        mcp = HeldToolset(agents.mcp)
        run = FilteredToolset(mcp, lambda name: self._mode(name) == "execute", forbids=forbids)
        self.run_here: Toolset = HeldToolset(JoinedToolsets(run, kept))
        """Those whose calls are answered here."""
        self._returned = HeldToolset(
            FilteredToolset(mcp, lambda name: self._mode(name) == "passthrough", forbids=forbids)
        )
        self._agents = agents
        self._settings = current.reading.settings
        self._request = request

    def is_ours(self, name: str) -> bool:
        """Whether a call of that name is answered here."""
        if self._request.passes_plainly or name in self._request.own_tools:
            return False
        return self.run_here.find(name) is not None

    def offered(self, specs: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """Some that are run here, and all whose calls are returned."""
        if self._request.passes_plainly:
            return ()
        return [*specs, *self._returned.specs()]

    def choice(self) -> JsonValue:
        """The request's tool_choice, with the name that a tool of ours goes by; None where it stays as it came."""
        choice = self._request.fields.tool_choice
        function = choice.get("function") if isinstance(choice, dict) else None
        name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or name in self._request.own_tools:
            return None
        published = self._agents.mcp.directory.resolve(name)
        return {"type": "function", "function": {"name": published}} if published else None

    def _mode(self, tool: str) -> McpMode:
        if tool in self._request.own_tools:
            return "off"
        return self._agents.mode_of(tool, self._settings, self._request.fields.mcp_mode)
