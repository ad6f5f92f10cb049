"""Tools as listed by their servers, and the names we publish them under: unique, short and hard to confuse.

A published name depends only on the server's and the tool's own names. It never changes because of other tools, so a
permission granted to a name stays with its tool.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram
from vibe_jupyter.tools.confusables import name_skeleton

PREFIX: Final = "mcp__"
LONGEST: Final = 64  # characters of a name that every model server accepts
LONGEST_GIVEN: Final = 1_000  # characters of a server's own name for a tool; longer ones are rejected
_BETWEEN: Final = "__"
_MARK: Final = 8  # hexadecimal digits that distinguish names which are equal after cleaning
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class RemoteTool:
    """A tool as listed by its server, restricted to what the model or the user sees.

    Contains nothing that grants permission.
    """

    name: str  # the server's own name for it, an arbitrary string
    description: str
    input_schema: Mapping[str, JsonValue]
    title: str = ""
    output_schema: Mapping[str, JsonValue] | None = None
    # Hints such as ``readOnlyHint``; shown but never trusted (docs/mcp.md)
    annotations: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @cached_property
    def digest(self) -> str:
        """Hash of name, description and schema, used to detect a changed definition."""
        said = [self.name, self.description, dict(self.input_schema)]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class PublishedTool:
    """A tool with its published and alternative names."""

    name: str  # name used by the model and in permissions
    # Unambiguous alternatives accepted in calls and permissions, such as ``server_tool``.
    others: tuple[str, ...]
    unclear: tuple[str, ...]  # alternatives that another server's tool has as well
    server: str
    tool: RemoteTool

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names accepted in lists of enabled or disabled tools, the published one first."""
        return (self.name, *other_names(self.server, self.tool.name))


def published_name(server: str, tool: str) -> str:
    """Return ``mcp__server__tool``, with a hash appended if that would be ambiguous, too long or invalid."""
    plain = f"{PREFIX}{server}{_BETWEEN}{tool}"
    clean = _FOREIGN.sub("_", plain)
    leads_back = _BETWEEN not in server and not server.endswith("_")
    if clean == plain and len(plain) <= LONGEST and leads_back:
        return plain
    return f"{clean[: LONGEST - _MARK - 1]}_{_hash_mark(server, tool)}"


def name_prefix(server: str) -> str:
    """Return the common prefix of the published names of a server's tools."""
    return f"{PREFIX}{server}{_BETWEEN}"[: LONGEST - _MARK - 1]


def other_names(server: str, tool: str) -> tuple[str, ...]:
    """Return alternative names as used by other clients: ``server_tool``, cleaned and verbatim."""
    plain = f"{server}_{tool}"
    return tuple(dict.fromkeys((_FOREIGN.sub("_", plain), plain)))


def anonymous_name(at: ServerProgram | ServerAddress) -> str:
    """Derive a stable name for an unnamed server from its host and port, or from a hash of its command."""
    if isinstance(at, ServerProgram):
        stem = _FOREIGN.sub("_", PurePath(at.argv[0]).stem) if at.argv else "server"
        return f"{stem}_{_hash_mark(*at.argv)}"
    parts = urlsplit(at.url)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return _FOREIGN.sub("_", f"{parts.hostname or 'server'}_{port}")


def publish_names(
    listed: Iterable[tuple[str, RemoteTool]], *, taken: Collection[str]
) -> tuple[tuple[PublishedTool, ...], tuple[str, ...]]:
    """Publish the tools of all servers and return them with problems for the user.

    Args:
        listed: server name and tool, in the order in which names are assigned.
        taken: names of built-in tools and of the user's own, which take precedence.
    """
    rolls = _Rolls(taken)
    found: list[PublishedTool] = []
    problems: list[str] = []
    for server, tool in listed:
        problem = rolls.problem(server, tool.name)
        if problem:
            problems.append(f"A tool of the MCP server {server} is left out: {problem}.")
            continue
        found.append(rolls.add(server, tool))
    return _with_clear_names(found, taken), tuple(problems)


class _Rolls:
    """Assigned names, indexed by their confusable skeleton."""

    def __init__(self, taken: Collection[str]) -> None:
        self._given = {name_skeleton(name): name for name in taken}
        self._looks = dict(self._given)  # the same for the servers' own tool names

    def problem(self, server: str, tool: str) -> str:
        """Return why this tool can't be published, or ""."""
        if not tool.strip() or len(tool) > LONGEST_GIVEN:
            return f"its name has {len(tool):,} characters"
        if (before := self._given.get(name_skeleton(published_name(server, tool)))) is not None:
            return f"{tool!r} looks like {before!r}"
        if not tool.isascii() and (like := self._looks.get(name_skeleton(tool))) is not None and like != tool:
            return f"{tool!a} is written to look like {like!r}"
        return ""

    def add(self, server: str, tool: RemoteTool) -> PublishedTool:
        name = published_name(server, tool.name)
        self._given[name_skeleton(name)] = name
        self._looks.setdefault(name_skeleton(tool.name), tool.name)
        return PublishedTool(name, other_names(server, tool.name), (), server, tool)


def _with_clear_names(found: Iterable[PublishedTool], taken: Collection[str]) -> tuple[PublishedTool, ...]:
    """Drop alternative names that are ambiguous or belong to a tool with precedence."""
    found = tuple(found)
    uses = Counter(name for one in found for name in one.names)

    def sorted_out(one: PublishedTool) -> PublishedTool:
        others = [name for name in one.others if name not in taken]
        clear = tuple(name for name in others if uses[name] == 1)
        unclear = tuple(name for name in others if uses[name] > 1)
        return PublishedTool(one.name, clear, unclear, one.server, one.tool)

    return tuple(map(sorted_out, found))


def _hash_mark(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:_MARK]
