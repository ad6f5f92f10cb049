"""What the servers list now, under the names it is published by."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from vibe_jupyter.tools.mcp.connection import Connection
from vibe_jupyter.tools.mcp.names import Published, publish
from vibe_jupyter.tools.mcp.remote_tool import RemoteTool
from vibe_jupyter.tools.mcp.server import Server

DEFINITION_LIMIT: Final = 30_000
"""Characters of one definition; a larger one is left out."""


class Connections(Protocol):
    """The servers of a project."""

    def all(self) -> Sequence[Connection]:
        """Every declared one, in the order of declaration."""
        ...


class Directory:
    """Looks at the servers each time, and works only where something changed."""

    def __init__(self, servers: Connections, taken: Callable[[], Collection[str]]) -> None:
        self.edition = 0
        """Another one whenever something changed."""
        self._servers = servers
        self._taken = taken
        self._seen: tuple[object, object] = ((), ())
        self._published: tuple[Published, ...] = ()
        self._connections: Mapping[str, Connection] = {}
        self._sizes: Mapping[str, int] = {}
        self._problems: tuple[str, ...] = ()
        self._told: set[str] = set()

    def published(self) -> tuple[Published, ...]:
        """Every tool that has a name."""
        taken = self._taken()
        listed = [(one, one.tools) for one in self._servers.all() if one.tools]
        if (listed, taken) != self._seen:
            self._renew(listed, taken)
            self._seen = (listed, taken)
        return self._published

    def named(self, name: str) -> Published | None:
        """The tool that goes by this name; the published name of one counts more than another name of another."""
        tools = self.published()
        by_name = next((one for one in tools if name == one.name), None)
        return by_name or next((one for one in tools if name in one.others), None)

    def resolve(self, name: str) -> str:
        """The published name behind any form of it, such as in a request's tool_choice; empty if there is none."""
        found = self.named(name)
        return found.name if found is not None else ""

    def connection(self, one: Published) -> Connection:
        """The way to its server."""
        return self._connections[one.server]

    def size(self, one: Published) -> int:
        """Characters of its definition."""
        return self._sizes[one.name]

    def left_out(self) -> list[str]:
        """Sentences about the tools that nothing can be made of, or that get no name."""
        self.published()
        return [*(problem for one in self._servers.all() for problem in one.left_out), *self._problems]

    def news(self) -> list[str]:
        """What is to be told of them, each once."""
        fresh = [problem for problem in self.left_out() if problem not in self._told]
        self._told.update(fresh)
        return fresh

    def _renew(self, listed: Sequence[tuple[Connection, tuple[RemoteTool, ...]]], taken: Collection[str]) -> None:
        usable: list[tuple[str, RemoteTool]] = []
        problems: list[str] = []
        for connection, tools in listed:
            for tool in tools:
                if problem := _problem(connection.server, tool):
                    problems.append(problem)
                else:
                    usable.append((connection.server.name, tool))
        self._published, more = publish(usable, taken=taken)
        self._problems = (*problems, *more)
        self._connections = {connection.server.name: connection for connection, _ in listed}
        self._sizes = {one.name: _size(one.tool) for one in self._published}
        self.edition += 1


def _size(tool: RemoteTool) -> int:
    return len(tool.description) + len(json.dumps(dict(tool.input_schema)))


def _problem(server: Server, tool: RemoteTool) -> str:
    """Why a tool cannot be offered at all; empty if it can."""
    problem = ""
    kind = tool.input_schema.get("type", "object")
    if "object" not in (kind if isinstance(kind, list) else [kind]):
        problem = f"its arguments are no object but {kind!r}"
    elif (size := _size(tool)) > DEFINITION_LIMIT:
        problem = f"its definition has {size:,} characters, more than {DEFINITION_LIMIT:,}"
    return f"The tool {tool.name[:80]!r} of the MCP server {server.name} is left out: {problem}." if problem else ""
