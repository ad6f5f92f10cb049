"""Pinned definitions of MCP tools, as of when their server was accepted, and the detection of changes.

A changed tool is not offered until the user has seen the change. A new tool is offered: like any other it asks for
approval at each call, and its description was never accepted as something else. It is announced once and pinned.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from vibe_jupyter.agent.call_context import CallContext
from vibe_jupyter.errors import ConfigError, VibeError
from vibe_jupyter.files.access import unified_diff
from vibe_jupyter.files.atomic_write import locked_file, replace_text
from vibe_jupyter.mcp.acceptance import FOLDER_NAME
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.mcp.toolset import McpToolset
from vibe_jupyter.protocol import Notice
from vibe_jupyter.ui.text import one_line, readable_text

LONGEST: Final = 100_000  # characters kept of one definition to show a diff; its hash covers all of it
MOST: Final = 4_000  # pinned tools of one server, including those it no longer lists; further ones are not offered
ALL_OF_THEM: Final = 8 * 1024 * 1024  # characters kept of one server's definitions; beyond that only hashes are stored
_FILE_NAME_LENGTH: Final = 32  # characters of the hash in a file name

PinState = Literal["accepted", "new", "changed"]

_BEYOND: Final = f"(it changed beyond the first {LONGEST:,} characters)"

_NAMED: Final = 10  # tools named in one sentence
_NAME_LENGTH: Final = 80  # characters of each name


@dataclass(frozen=True)
class PinChanges:
    """Differences between a server's tools and their pins."""

    # Tools added since the last check and pinned now; empty at the first check, where all are new
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # tools whose definition changed; not offered


class ToolPins:
    """Tool pins of one kernel's servers. Call `bind` first; reading a state opens no file."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER_NAME
        self._digests: Mapping[str, str] = {}
        self._pins: dict[str, dict[str, _Pin]] = {}

    def bind(self, digests: Mapping[str, str]) -> None:
        """Load the pins that belong to the accepted servers.

        Args:
            digests: digest of each accepted server, by name.

        Raises:
            ConfigError: pins cannot be read. Nothing is bound, and no tool is offered.
        """
        try:
            pins = {name: self._read_pins(digest) for name, digest in digests.items()}
        except ConfigError:
            self._digests, self._pins = {}, {}
            raise
        self._digests, self._pins = dict(digests), pins

    def state(self, server: str, tool: RemoteTool) -> PinState:
        """Compare a tool with its pin. Thread-safe."""
        pins = self._pins.get(server)
        if pins is None:
            return "changed"  # the server has not been accepted
        pin = pins.get(tool.name)
        if pin is None and len(pins) >= MOST:
            return "changed"  # the server lists different tools each time
        return "new" if pin is None else "accepted" if pin.digest == tool.digest else "changed"

    def settle(self, server: str, tools: Sequence[RemoteTool]) -> PinChanges:
        """Pin new tools and return what is new and what changed.

        Raises:
            ConfigError: the pins cannot be read or written.
        """
        digest = self._digests.get(server)
        if digest is None:
            return PinChanges()
        known = self._read_pins(digest)
        new = [tool for tool in tools if tool.name not in known][: max(0, MOST - len(known))]
        changed = [tool.name for tool in tools if tool.name in known and known[tool.name].digest != tool.digest]
        if new:
            self._write_pins(server, new)
        else:
            self._pins[server] = known
        return PinChanges(tuple(tool.name for tool in new) if known else (), tuple(changed))

    def accept(self, server: str, tools: Sequence[RemoteTool]) -> None:
        """Pin the current definitions of these tools.

        Raises:
            ConfigError: the pins cannot be read or written.
        """
        self._write_pins(server, tools)

    def change(self, server: str, tools: Sequence[RemoteTool]) -> str:
        """Return a diff of the changed tools, or "" if there are none."""
        pins = self._pins.get(server, {})
        parts: list[str] = []
        for tool in tools:
            if self.state(server, tool) == "changed" and tool.name in pins:
                parts.append(f"--- {tool.name}, as accepted\n+++ {tool.name}, as it is now")
                parts.append(unified_diff(pins[tool.name].definition, _definition_text(tool)) or _BEYOND)
        return "\n".join(parts)

    def names(self, server: str) -> tuple[str, ...]:
        """Return the tools that a server last listed, even if it isn't running."""
        return tuple(self._pins.get(server, {}))

    def _write_pins(self, server: str, tools: Sequence[RemoteTool]) -> None:
        digest = self._digests[server]
        path = self._pins_path(digest)
        try:
            with locked_file(path):
                pins = self._read_pins(digest)
                pins = _join_pins(pins, tools)
                replace_text(path, f"{_Kept(server=server, tools=pins).model_dump_json(indent=2)}\n")
        except OSError as error:
            raise ConfigError(f"The tools of {server} cannot be kept in {path}: {error}.") from error
        self._pins[server] = pins

    def _read_pins(self, digest: str) -> "dict[str, _Pin]":
        path = self._pins_path(digest)
        try:
            return _Kept.model_validate_json(path.read_bytes()).tools
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            raise ConfigError(f"Cannot read {path}: {error}. Fix or remove it, then run again.") from error

    def _pins_path(self, digest: str) -> Path:
        return self._folder / f"tools-{digest[:_FILE_NAME_LENGTH]}.json"


class _Pin(BaseModel):
    model_config = ConfigDict(extra="forbid")

    digest: str
    definition: str


class _Kept(BaseModel):
    """Contents of one server's pin file."""

    model_config = ConfigDict(extra="forbid")

    server: str  # the server's name, for people who read the file
    tools: dict[str, _Pin] = {}


def _join_pins(pins: Mapping[str, _Pin], tools: Sequence[RemoteTool]) -> dict[str, _Pin]:
    """Return the pins, updated with the current definitions of some tools."""
    renewed = {tool.name for tool in tools}
    joined = {name: pin for name, pin in pins.items() if name not in renewed}
    room = ALL_OF_THEM - sum(len(pin.definition) for pin in joined.values())
    for tool in tools:
        definition = _definition_text(tool)[: max(0, room)]
        room -= len(definition)
        joined[tool.name] = _Pin(digest=tool.digest, definition=definition)
    return joined


def _definition_text(tool: RemoteTool) -> str:
    """Return everything that the digest covers, as text."""
    schema = json.dumps(dict(tool.input_schema), indent=2, sort_keys=True, ensure_ascii=False)
    text = f"{tool.name}\n{tool.description}\n{schema}"
    # A lone surrogate can't be encoded.
    return text.encode("utf-8", "replace").decode("utf-8")[:LONGEST]


class PinWatch:
    """Compares listed tools with their pins. Engine loop only."""

    def __init__(self, servers: ServerPool, pins: ToolPins, tools: McpToolset) -> None:
        self._servers = servers
        self._pins = pins
        self._tools = tools
        self._call_context: CallContext | None = None  # context of the current run
        self._told: set[tuple[str, str]] = set()  # (server, sentence) pairs that were reported
        self._looking: set[asyncio.Task[None]] = set()

    async def begin(self, call_context: CallContext) -> None:
        """Start watching at the beginning of a run, once the servers are started.

        Raises:
            ConfigError: pins cannot be read or written.
        """
        self._call_context = call_context
        for connection in self._servers.all():
            connection.on_change = self._call_both(connection.on_change, connection.server.name)
            await self._compare_pins(connection.server.name, tell_new=True)
        for problem in self._tools.directory.news():
            await call_context.emit(Notice(level="warning", text=problem))

    def end(self) -> None:
        """Stop reporting at the end of the run."""
        self._call_context = None

    def forget(self, server: str) -> None:
        """Forget what was reported about a server, since the user has seen it."""
        self._told = {(name, words) for name, words in self._told if name != server}

    def _call_both(self, before: Callable[[], None], server: str) -> Callable[[], None]:
        """Chain a callback on tool changes with a comparison of the pins."""

        def changed() -> None:
            before()
            self._hear_change(server)

        return changed

    def _hear_change(self, server: str) -> None:
        task = asyncio.ensure_future(self._look_again(server))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_again(self, server: str) -> None:
        try:
            await self._compare_pins(server, tell_new=False)  # `ToolChanges` reports tools added during a run
        except VibeError:  # reported by the next run
            return

    async def _compare_pins(self, server: str, *, tell_new: bool) -> None:
        connection = self._servers.get(server)
        if connection is None or not connection.tools:
            return
        settled = await asyncio.to_thread(self._pins.settle, server, connection.tools)
        if settled.new and tell_new:
            await self._tell_user(
                server, "info", f"has new tools since you accepted it: {_tool_name_list(settled.new)}. Each asks."
            )
        if settled.changed:
            await self._tell_user(
                server,
                "warning",
                f"now says something else of {_tool_name_list(settled.changed)} than when you accepted it, so that is "
                "not "
                f"offered. %vibe mcp accept {server} shows the change.",
            )

    async def _tell_user(self, server: str, level: Literal["info", "warning"], words: str) -> None:
        if self._call_context is not None and (server, words) not in self._told:
            self._told.add((server, words))
            await self._call_context.emit(Notice(level=level, text=f"The MCP server {server} {words}"))


def _tool_name_list(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return ", ".join(readable_text(one_line(name, _NAME_LENGTH)) for name in known[:_NAMED]) + more
