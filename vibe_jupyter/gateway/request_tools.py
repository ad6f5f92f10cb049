"""Selection of the tools offered with one request, and of those whose calls the gateway answers."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import JsonValue

from vibe_jupyter.app.project import CurrentSettings
from vibe_jupyter.config.settings import McpMode
from vibe_jupyter.gateway.agents import AgentParts
from vibe_jupyter.gateway.chat_parts import objects
from vibe_jupyter.gateway.chat_request import ChatRequest, Object, tool_name
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.tools.contract import FilteredToolset, JoinedToolsets, Tool, Toolset


class HeldToolset:
    """Toolset with cached specs, listed again only after a lookup, which precedes a call that may change them."""

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
    """Tools of one request. A tool that the client defines takes precedence over others of the same name."""

    def __init__(self, agents: AgentParts, current: CurrentSettings, request: ChatRequest, own: Toolset) -> None:
        """
        Args:
            agents: provides the tools of MCP servers.
            current: settings, which determine how calls of MCP tools are handled.
            request: the request, which may restrict that further.
            own: the gateway's own tools.

        Raises:
            Refused: the request's list of allowed tools is invalid.
        """
        self._agents = agents
        self._request = request
        self.allowed = self._allowed()  # names of the only tools to offer; None if the request doesn't restrict them
        runs_own = request.fields.mcp_mode in (None, "execute")

        def forbids(name: str) -> bool:
            return agents.forbids_tool(name, current)

        kept = FilteredToolset(own, lambda name: runs_own and self._is_offered(name), forbids=forbids)
        self.has_own = bool(kept.specs()) and not request.passes_plainly  # True if the gateway's own tools are offered
        mcp = HeldToolset(agents.mcp)
        run = FilteredToolset(mcp, lambda name: self._mode(name) == "execute", forbids=forbids)
        self.run_here: Toolset = HeldToolset(JoinedToolsets(run, kept))  # those whose calls the gateway answers
        self._returned = HeldToolset(
            FilteredToolset(mcp, lambda name: self._mode(name) == "passthrough", forbids=forbids)
        )
        self._settings = current.reading.settings

    def is_ours(self, name: str) -> bool:
        """Return whether the gateway answers calls of that name."""
        if self._request.passes_plainly or name in self._request.own_tools:
            return False
        return self.run_here.find(name) is not None

    def offered(self, specs: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """Add the tools whose calls are returned to the client."""
        if self._request.passes_plainly:
            return ()
        return [*specs, *self._returned.specs()]

    def choice(self) -> JsonValue:
        """Return the `tool_choice` with the published name of a gateway tool, or None to leave it unchanged."""
        choice = self._request.fields.tool_choice
        if self.allowed is not None:
            return "required" if _allowed_tools(choice).get("mode") == "required" else "auto"
        function = choice.get("function") if isinstance(choice, dict) else None
        name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or name in self._request.own_tools:
            return None
        published = self._agents.mcp.directory.resolve(name)
        return {"type": "function", "function": {"name": published}} if published else None

    def _allowed(self) -> frozenset[str] | None:
        """Return the names of the allowed tools.

        The choice is applied here, because servers that don't know it would treat it as `auto`.
        """
        allowed = _allowed_tools(self._request.fields.tool_choice)
        if not allowed:
            return None
        names = {tool_name(one) for one in objects(allowed.get("tools"), "tool_choice.allowed_tools.tools")}
        resolve = self._agents.mcp.directory.resolve
        return frozenset(one if one in self._request.own_tools else resolve(one) or one for one in names)

    def _is_offered(self, name: str) -> bool:
        return name not in self._request.own_tools and (self.allowed is None or name in self.allowed)

    def _mode(self, tool: str) -> McpMode:
        if not self._is_offered(tool):
            return "off"
        return self._agents.mode_of(tool, self._settings, self._request.fields.mcp_mode)


def _allowed_tools(choice: object) -> Object:
    """Return the contents of a choice among allowed tools, or {} for any other choice."""
    allowed = cast("Object", choice).get("allowed_tools") if isinstance(choice, dict) else None
    return allowed if isinstance(allowed, dict) else {}
