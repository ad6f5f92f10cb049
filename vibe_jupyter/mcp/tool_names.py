"""A tool as its server lists it, and the name it goes by here: unique, short, never mistaken for another.

A name is made of its server's name and its own alone, so that it never changes because of what else is there: a
permission given to a name stays with its tool.
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
LONGEST: Final = 64
"""Characters of a name that every model server takes."""
LONGEST_GIVEN: Final = 1_000
"""Characters of a server's own name for a tool; a longer one is no name."""
_BETWEEN: Final = "__"
_MARK: Final = 8
"""Hexadecimal digits that keep apart what would be the same after cleaning."""
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class RemoteTool:
    """Everything of a tool that the model or the user is shown, and nothing that grants."""

    name: str
    """The server's own name for it; anything at all."""
    description: str
    input_schema: Mapping[str, JsonValue]
    title: str = ""
    output_schema: Mapping[str, JsonValue] | None = None
    annotations: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Hints such as ``readOnlyHint``: shown, never trusted (docs/mcp.md)."""

    @cached_property
    def digest(self) -> str:
        """What a change of definition changes: hash of name, description and schema."""
        said = [self.name, self.description, dict(self.input_schema)]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class PublishedTool:
    """A tool under the names it goes by."""

    name: str
    """What the model is shown and the policy knows."""
    others: tuple[str, ...]
    """What a call and its permission may say instead, such as ``server_tool``; nothing that means another tool too."""
    unclear: tuple[str, ...]
    """Such names that another tool of a server has too."""
    server: str
    tool: RemoteTool

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a list of enabled or disabled tools may say, the published one first."""
        return (self.name, *other_names(self.server, self.tool.name))


def published_name(server: str, tool: str) -> str:
    """``mcp__server__tool``; with a hash behind it where that would not lead back to this tool alone."""
    plain = f"{PREFIX}{server}{_BETWEEN}{tool}"
    clean = _FOREIGN.sub("_", plain)
    leads_back = _BETWEEN not in server and not server.endswith("_")
    if clean == plain and len(plain) <= LONGEST and leads_back:
        return plain
    return f"{clean[: LONGEST - _MARK - 1]}_{_hash_mark(server, tool)}"


def name_prefix(server: str) -> str:
    """How the published names of a server's tools begin."""
    return f"{PREFIX}{server}{_BETWEEN}"[: LONGEST - _MARK - 1]


def other_names(server: str, tool: str) -> tuple[str, ...]:
    """The forms that other clients use: ``server_tool``, as it is and with the characters of a published name."""
    plain = f"{server}_{tool}"
    return tuple(dict.fromkeys((_FOREIGN.sub("_", plain), plain)))


def anonymous_name(at: ServerProgram | ServerAddress) -> str:
    """A name for a server that has none, the same each time: from host and port, or from a hash of its command."""
    if isinstance(at, ServerProgram):
        stem = _FOREIGN.sub("_", PurePath(at.argv[0]).stem) if at.argv else "server"
        return f"{stem}_{_hash_mark(*at.argv)}"
    parts = urlsplit(at.url)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return _FOREIGN.sub("_", f"{parts.hostname or 'server'}_{port}")


def publish_names(
    listed: Iterable[tuple[str, RemoteTool]], *, taken: Collection[str]
) -> tuple[tuple[PublishedTool, ...], tuple[str, ...]]:
    """Names for the tools of all servers, and what is to be said of those that get none.

    Args:
        listed: server's name and tool, in the order in which names are given.
        taken: names of built-in tools and of the user's own, which always win.
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
    """The names given so far, by how they look."""

    def __init__(self, taken: Collection[str]) -> None:
        self._given = {name_skeleton(name): name for name in taken}
        self._looks = dict(self._given)
        """The same, with servers' own names for their tools instead of published ones."""

    def problem(self, server: str, tool: str) -> str:
        """Why this tool gets no name; empty if it gets one."""
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
    """The same, without other names that mean two tools or belong to a tool that wins."""
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
