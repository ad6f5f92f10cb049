"""The tools of all servers as one set, with `find_tools` if there are too many to offer at once."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.config.tool_servers import ToolServer
from vibe_jupyter.files.truncation import label_as_data
from vibe_jupyter.mcp.connection import ServerConnection
from vibe_jupyter.mcp.tool import McpTool, ToolWays, server_tool_spec
from vibe_jupyter.mcp.tool_names import PublishedTool, RemoteTool, publish_names
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult, ToolSpec
from vibe_jupyter.tools.contract import Tool, ToolContext
from vibe_jupyter.tools.contract import tool_spec as spec_of_built_in

TOOLS_LIMIT: Final = 60  # number of tools up to which each request includes every definition
DEFINITIONS_LIMIT: Final = 80_000  # total characters of definitions up to which it does
HINT_LIMIT: Final = 500  # characters of the user's hint on when to use a server

# Returns whether the settings allow a tool, given all its names
WantTool = Callable[[ToolServer, RemoteTool, Sequence[str]], bool]

DEFINITION_LIMIT: Final = 30_000  # characters of one definition; larger ones are left out

FOUND_LIMIT: Final = 8  # tools in one answer
FOUND_SIZE: Final = 7_000  # characters of one answer, which contains at least one tool
NAMES_SIZE: Final = 6_000  # characters of tool names in the description
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IN_NAME: Final = 4
# Weights of a query word found in the tool's or the server's name; in the description it counts 1.
_IN_SERVER: Final = 2


class PinStates(Protocol):
    """Access to the pinned definitions."""

    def state(self, server: str, tool: RemoteTool) -> Literal["accepted", "new", "changed"]:
        """Compare a tool with its pin. A changed tool is not offered."""
        ...


def want_every(server: ToolServer, tool: RemoteTool, names: Sequence[str]) -> bool:
    """Accept every tool."""
    return True


class ServerConnections(Protocol):
    """The servers of a project."""

    def all(self) -> Sequence[ServerConnection]:
        """Return all connections in declaration order."""
        ...


class McpToolset:
    """Tools of MCP servers. Built-in and user-defined tools take precedence over them."""

    def __init__(
        self,
        servers: ServerConnections,
        pins: PinStates,
        ways: ToolWays,
        *,
        taken: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Create the set. Names in `taken` belong to built-in or user-defined tools."""
        self.wanted: WantTool = want_every  # tools allowed by the settings, as of the next request
        # Tools to offer among those; excludes tools whose every call would be denied
        self.permitted: WantTool = want_every
        self.directory = ToolDirectory(servers, taken)
        self._pins = pins
        self._ways = ways
        # Names in the order they were first offered. A stable order preserves the model server's prompt cache.
        self._order: dict[str, None] = {}
        self._loaded: dict[str, None] = {}  # the same for definitions looked up with `find_tools`
        # True in look-up mode, which is left only when a server goes, to preserve the prompt cache
        self._looked_up = False
        self._servers: set[str] = set()  # servers whose tools were last offered
        self._find_tools = FindToolsTool(self.offered, self._hint_text, self._load_tool)
        self._made: dict[str, McpTool] = {}
        self._specs_made: dict[tuple[str, str], ToolSpec] = {}
        self._edition = 0

    def specs(self) -> Sequence[ToolSpec]:
        offered = {one.name: one for one in self.offered()}
        sizes = [self.directory.size(one) for one in offered.values()]
        servers = {one.server for one in offered.values()}
        if not servers >= self._servers:  # a server is gone, so its tools may have been the excess
            self._looked_up = False
        self._servers = servers
        self._looked_up = self._looked_up or len(sizes) > TOOLS_LIMIT or sum(sizes) > DEFINITIONS_LIMIT
        if not self._looked_up:
            return self._offered_specs(offered, offered)
        return [spec_of_built_in(self._find_tools), *self._offered_specs(offered, self._loaded)]

    def find(self, name: str) -> Tool[Any] | None:
        if self._looked_up and name == self._find_tools.name:
            return self._find_tools
        found = self.directory.named(name)
        if found is None or not self._is_wanted(found):
            return None
        self._renew_tools()
        self._load_tool(found)
        if found.name not in self._made:
            self._made[found.name] = McpTool(
                found, self.directory.connection(found), self._ways, refused=lambda: self._refusal_text(found)
            )
        return self._made[found.name]

    def offered(self) -> Sequence[PublishedTool]:
        """Return the tools that may be called now, in the order they were first offered."""
        fitting = [one for one in self.directory.published() if self._is_offered(one) and not self._refusal_text(one)]
        self._order |= dict.fromkeys(one.name for one in fitting)
        places = {name: place for place, name in enumerate(self._order)}
        return sorted(fitting, key=lambda one: places[one.name])

    def forget(self) -> None:
        """Reset for a new conversation."""
        self._looked_up = False
        self._loaded.clear()
        self._order.clear()

    def _is_wanted(self, one: PublishedTool) -> bool:
        return self.wanted(self.directory.connection(one).server, one.tool, one.names)

    def _is_offered(self, one: PublishedTool) -> bool:
        return self._is_wanted(one) and self.permitted(self.directory.connection(one).server, one.tool, one.names)

    def _refusal_text(self, one: PublishedTool) -> str:
        """Return why a tool must not be called, or ""."""
        if self._pins.state(one.server, one.tool) != "changed":
            return ""
        return (
            f"Not called: the MCP server {one.server} has changed its definition of {one.name} since the user "
            f"accepted it. It can be called once the user has accepted the change: %vibe mcp accept {one.server}."
        )

    def _hint_text(self, one: PublishedTool) -> str:
        """Return the user's hint on when to use the tool's server."""
        return self.directory.connection(one).server.prompt.strip()[:HINT_LIMIT]

    def _load_tool(self, one: PublishedTool) -> None:
        """Include the tool's definition from the next request on."""
        self._loaded.setdefault(one.name)

    def _offered_specs(self, offered: Mapping[str, PublishedTool], names: Collection[str]) -> list[ToolSpec]:
        """Return definitions. The first one of each server includes the user's hint."""
        self._renew_tools()
        hints = {one.server: self._hint_text(one) for one in offered.values()}
        return [self._spec_with_hint(one, hints.pop(one.server, "")) for name in names if (one := offered.get(name))]

    def _spec_with_hint(self, one: PublishedTool, hint: str) -> ToolSpec:
        key = (one.name, hint)
        if key not in self._specs_made:
            self._specs_made[key] = server_tool_spec(one, hint=hint)
        return self._specs_made[key]

    def _renew_tools(self) -> None:
        """Discard what was built from an earlier edition of the tools."""
        if self._edition != self.directory.edition:
            self._edition = self.directory.edition
            self._made.clear()
            self._specs_made.clear()


class ToolDirectory:
    """Index of the servers' tools. Checks for changes on each access and rebuilds only if there are any."""

    def __init__(self, servers: ServerConnections, taken: Callable[[], Collection[str]]) -> None:
        self.edition = 0  # incremented on each change
        self._servers = servers
        self._taken = taken
        self._seen: tuple[object, object] = ((), ())
        self._published: tuple[PublishedTool, ...] = ()
        self._connections: Mapping[str, ServerConnection] = {}
        self._sizes: Mapping[str, int] = {}
        self._problems: tuple[str, ...] = ()
        self._told: set[str] = set()

    def published(self) -> tuple[PublishedTool, ...]:
        """Return every tool that has a published name."""
        taken = self._taken()
        listed = [(one, one.tools) for one in self._servers.all() if one.tools]
        if (listed, taken) != self._seen:
            self._renew_names(listed, taken)
            self._seen = (listed, taken)
        return self._published

    def named(self, name: str) -> PublishedTool | None:
        """Find a tool by name. A published name takes precedence over an alternative name."""
        tools = self.published()
        by_name = next((one for one in tools if name == one.name), None)
        return by_name or next((one for one in tools if name in one.others), None)

    def resolve(self, name: str) -> str:
        """Return the published name for any form of it, e.g. in a request's tool_choice, or ""."""
        found = self.named(name)
        return found.name if found is not None else ""

    def connection(self, one: PublishedTool) -> ServerConnection:
        """Return the connection to the tool's server."""
        return self._connections[one.server]

    def size(self, one: PublishedTool) -> int:
        """Return the size of the tool's definition in characters."""
        return self._sizes[one.name]

    def left_out(self) -> list[str]:
        """Return sentences about tools that are unusable or can't be named."""
        self.published()
        return [*(problem for one in self._servers.all() for problem in one.left_out), *self._problems]

    def news(self) -> list[str]:
        """Return those sentences that weren't returned before."""
        fresh = [problem for problem in self.left_out() if problem not in self._told]
        self._told.update(fresh)
        return fresh

    def _renew_names(
        self, listed: Sequence[tuple[ServerConnection, tuple[RemoteTool, ...]]], taken: Collection[str]
    ) -> None:
        usable: list[tuple[str, RemoteTool]] = []
        problems: list[str] = []
        for connection, tools in listed:
            for tool in tools:
                if problem := _offer_problem(connection.server, tool):
                    problems.append(problem)
                else:
                    usable.append((connection.server.name, tool))
        self._published, more = publish_names(usable, taken=taken)
        self._problems = (*problems, *more)
        self._connections = {connection.server.name: connection for connection, _ in listed}
        self._sizes = {one.name: _definition_size(one.tool) for one in self._published}
        self.edition += 1


def _definition_size(tool: RemoteTool) -> int:
    return len(tool.description) + len(json.dumps(dict(tool.input_schema)))


def _offer_problem(server: ToolServer, tool: RemoteTool) -> str:
    """Return why a tool can't be offered at all, or ""."""
    problem = ""
    kind = tool.input_schema.get("type", "object")
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        problem = f"its arguments are not an object but {kind!r}"
    elif (size := _definition_size(tool)) > DEFINITION_LIMIT:
        problem = f"its definition has {size:,} characters, more than {DEFINITION_LIMIT:,}"
    return f"The tool {tool.name[:80]!r} of the MCP server {server.name} is left out: {problem}." if problem else ""


class FindToolsArgs(BaseModel):
    """What is looked for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1)


class FindToolsTool(Tool[FindToolsArgs]):
    """Returns definitions of matching tools and includes them from the next request on."""

    name = "find_tools"
    level = "always"
    arguments = FindToolsArgs

    def __init__(
        self,
        known: Callable[[], Sequence[PublishedTool]],
        hint: Callable[[PublishedTool], str],
        load: Callable[[PublishedTool], None],
    ) -> None:
        self._known = known
        self._hint = hint
        self._load = load

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - changes as servers connect
        return (
            "Look up tools of MCP servers by words or by name. It answers with their parameters; then call them by "
            f"name.\n{self._names_text()}"
        )

    def headline(self, args: FindToolsArgs) -> Headline:
        return Headline(verb="Looked up", doing="Looking up", asking="Look up", target=args.query, note="in MCP tools")

    def preview(self, args: FindToolsArgs) -> Preview:
        return Preview(kind="text", text="Look up tools of MCP servers.")

    def touches(self, args: FindToolsArgs) -> Sequence[Resource]:
        return ()

    async def run(self, args: FindToolsArgs, context: ToolContext) -> ToolResult:
        fitting = rank_tools(args.query, self._known())
        told: list[str] = []
        for one in fitting[:FOUND_LIMIT]:
            spec = server_tool_spec(one)
            text = json.dumps(spec.model_dump(mode="json"), ensure_ascii=False)
            if told and sum(map(len, told)) + len(text) > FOUND_SIZE:
                break
            self._load(one)
            told.append(text)
        if not told:
            return ToolResult.text(f"No tool fits {args.query!r}.\n{self._names_text()}", summary="none")
        left = len(fitting) - len(told)
        more = f"\n{left} more fit: {', '.join(one.name for one in fitting[len(told) :][:FOUND_LIMIT])}" if left else ""
        names = [one.name for one in fitting[: len(told)]]
        return ToolResult(
            parts=(TextPart(text=f"{label_as_data(chr(10).join(told), 'Definitions by MCP servers')}{more}"),),
            summary=f"{len(told)} found",
            display={"text/plain": "\n".join(names)},
        )

    def _names_text(self) -> str:
        """List all names by server, with the user's hints, up to the size limit."""
        servers: dict[str, list[str]] = {}
        for one in self._known():
            hint = self._hint(one)
            servers.setdefault(f"{one.server} ({hint})" if hint else one.server, []).append(one.name)
        text = "\n".join(f"{server}: {', '.join(names)}" for server, names in servers.items())
        return text if len(text) <= NAMES_SIZE else f"{text[:NAMES_SIZE].rpartition(',')[0]}, and others"


def rank_tools(query: str, known: Sequence[PublishedTool]) -> list[PublishedTool]:
    """Rank the tools that match words of a query, best first."""
    wanted = _query_words(query)
    scored = [(_match_score(wanted, query.strip(), one), place) for place, one in enumerate(known)]
    return [known[place] for score, place in sorted(scored, key=lambda each: (-each[0], each[1])) if score]


def _match_score(wanted: frozenset[str], query: str, one: PublishedTool) -> int:
    if query in one.names or query == one.tool.name:
        return 1_000
    name, server, said = _query_words(one.tool.name), _query_words(one.server), _query_words(one.tool.description)
    return _IN_NAME * _word_hits(wanted, name) + _IN_SERVER * len(wanted & server) + _word_hits(wanted, said)


def _word_hits(wanted: frozenset[str], words: frozenset[str]) -> int:
    """Count the query words that equal a word or the beginning of one."""
    return sum(any(word.startswith(one) for word in words) for one in wanted)


def _query_words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text)))
