"""Definitions of MCP tools as they were when their server was accepted, and the watch for changes.

A tool that is not what it was is not offered until the user has seen the change. A tool that is new is offered: it
asks at each call like every other, and what it says of itself was never promised to be otherwise. It is named once,
and pinned from then on.
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

LONGEST: Final = 100_000
"""Characters kept of one definition, to show what changed; its hash is of all of it."""
MOST: Final = 4_000
"""Tools of one server that are pinned, also those it lists no more; further ones are not offered."""
ALL_OF_THEM: Final = 8 * 1024 * 1024
"""Characters kept of the definitions of one server; of further tools there is the hash alone."""
_FILE_NAME_LENGTH: Final = 32
"""Characters of the hash that a file is named by."""

PinState = Literal["accepted", "new", "changed"]

_BEYOND: Final = f"(it changed beyond the first {LONGEST:,} characters)"

_NAMED: Final = 10
"""Tools named in one sentence."""
_NAME_LENGTH: Final = 80
"""Characters of each name."""


@dataclass(frozen=True)
class PinChanges:
    """What a look at a server's tools found."""

    new: tuple[str, ...] = ()
    """Tools that it did not have before; pinned now. Empty at the first look, where all are new."""
    changed: tuple[str, ...] = ()
    """Tools that are not what they were; not offered."""


class ToolPins:
    """The pins of the servers of one kernel. `bind` first; looking at a state opens no file."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER_NAME
        self._digests: Mapping[str, str] = {}
        self._pins: dict[str, dict[str, _Pin]] = {}

    def bind(self, digests: Mapping[str, str]) -> None:
        """Say what each server is accepted as, by its name; what is pinned belongs to that.

        Raises:
            ConfigError: pins cannot be read; nothing is bound, and no tool is offered.
        """
        try:
            pins = {name: self._read_pins(digest) for name, digest in digests.items()}
        except ConfigError:
            self._digests, self._pins = {}, {}
            raise
        self._digests, self._pins = dict(digests), pins

    def state(self, server: str, tool: RemoteTool) -> PinState:
        """Whether a tool is what was accepted. Callable from any thread."""
        pins = self._pins.get(server)
        if pins is None:
            return "changed"  # nobody accepted this server
        pin = pins.get(tool.name)
        if pin is None and len(pins) >= MOST:
            return "changed"  # it lists ever other ones
        return "new" if pin is None else "accepted" if pin.digest == tool.digest else "changed"

    def settle(self, server: str, tools: Sequence[RemoteTool]) -> PinChanges:
        """Pin what is new, and say what is new and what changed.

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
        """Take the tools as they are now.

        Raises:
            ConfigError: the pins cannot be read or written.
        """
        self._write_pins(server, tools)

    def change(self, server: str, tools: Sequence[RemoteTool]) -> str:
        """What is different, tool by tool, as a diff; empty where nothing is."""
        pins = self._pins.get(server, {})
        parts: list[str] = []
        for tool in tools:
            if self.state(server, tool) == "changed" and tool.name in pins:
                parts.append(f"--- {tool.name}, as accepted\n+++ {tool.name}, as it is now")
                parts.append(unified_diff(pins[tool.name].definition, _definition_text(tool)) or _BEYOND)
        return "\n".join(parts)

    def names(self, server: str) -> tuple[str, ...]:
        """The tools a server had when it was seen last, also while it does not run."""
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
    """The file of one server."""

    model_config = ConfigDict(extra="forbid")

    server: str
    """Its name, for people who look into the file."""
    tools: dict[str, _Pin] = {}


def _join_pins(pins: Mapping[str, _Pin], tools: Sequence[RemoteTool]) -> dict[str, _Pin]:
    """The pins with those of some tools as they are now."""
    renewed = {tool.name for tool in tools}
    joined = {name: pin for name, pin in pins.items() if name not in renewed}
    room = ALL_OF_THEM - sum(len(pin.definition) for pin in joined.values())
    for tool in tools:
        definition = _definition_text(tool)[: max(0, room)]
        room -= len(definition)
        joined[tool.name] = _Pin(digest=tool.digest, definition=definition)
    return joined


def _definition_text(tool: RemoteTool) -> str:
    """All that a digest is of, in lines."""
    schema = json.dumps(dict(tool.input_schema), indent=2, sort_keys=True, ensure_ascii=False)
    text = f"{tool.name}\n{tool.description}\n{schema}"
    # Half a surrogate pair cannot be written.
    return text.encode("utf-8", "replace").decode("utf-8")[:LONGEST]


class PinWatch:
    """Compares what servers list with what was pinned. Engine loop only."""

    def __init__(self, servers: ServerPool, pins: ToolPins, tools: McpToolset) -> None:
        self._servers = servers
        self._pins = pins
        self._tools = tools
        self._call_context: CallContext | None = None
        """Of the current run."""
        self._told: set[tuple[str, str]] = set()
        """Server and sentence."""
        self._looking: set[asyncio.Task[None]] = set()

    async def begin(self, call_context: CallContext) -> None:
        """A run begins, and the servers are started.

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
        """It is over."""
        self._call_context = None

    def forget(self, server: str) -> None:
        """The user has seen what there was to tell of a server."""
        self._told = {(name, words) for name, words in self._told if name != server}

    def _call_both(self, before: Callable[[], None], server: str) -> Callable[[], None]:
        """What others do when a server's tools are others than before, and then a look of our own."""

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
            await self._compare_pins(server, tell_new=False)  # `ToolChanges` names what came while we look
        except VibeError:  # the next run meets it, and says so
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
