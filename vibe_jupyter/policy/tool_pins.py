"""Definitions of MCP tools as they were when their server was accepted (security C29).

A tool that is not what it was is not offered until the person has seen the change. A tool that is new is offered: it
asks at each call like every other, and what it says of itself was never promised to be otherwise. It is named once,
and pinned from then on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.policy.accepted_servers import FOLDER_NAME
from vibe_jupyter.tools.edit.diff import unified
from vibe_jupyter.tools.mcp.remote_tool import RemoteTool
from vibe_jupyter.tools.own_file import locked, replace_text

LONGEST: Final = 100_000
"""Characters kept of one definition, to show what changed; its hash is of all of it."""
MOST: Final = 4_000
"""Tools of one server that are pinned, also those it lists no more; further ones are not offered."""
ALL_OF_THEM: Final = 8 * 1024 * 1024
"""Characters kept of the definitions of one server; of further tools there is the hash alone."""
_NAME_LENGTH: Final = 32
"""Characters of the hash that a file is named by."""

PinState = Literal["accepted", "new", "changed"]


@dataclass(frozen=True)
class Settled:
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
            pins = {name: self._read(digest) for name, digest in digests.items()}
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

    def settle(self, server: str, tools: Sequence[RemoteTool]) -> Settled:
        """Pin what is new, and say what is new and what changed.

        Raises:
            ConfigError: the pins cannot be read or written.
        """
        digest = self._digests.get(server)
        if digest is None:
            return Settled()
        known = self._read(digest)
        new = [tool for tool in tools if tool.name not in known][: max(0, MOST - len(known))]
        changed = [tool.name for tool in tools if tool.name in known and known[tool.name].digest != tool.digest]
        if new:
            self._pin(server, new)
        else:
            self._pins[server] = known
        return Settled(tuple(tool.name for tool in new) if known else (), tuple(changed))

    def accept(self, server: str, tools: Sequence[RemoteTool]) -> None:
        """Take the tools as they are now.

        Raises:
            ConfigError: the pins cannot be read or written.
        """
        self._pin(server, tools)

    def change(self, server: str, tools: Sequence[RemoteTool]) -> str:
        """What is different, tool by tool, as a diff; empty where nothing is."""
        pins = self._pins.get(server, {})
        parts: list[str] = []
        for tool in tools:
            if self.state(server, tool) == "changed" and tool.name in pins:
                parts.append(f"--- {tool.name}, as accepted\n+++ {tool.name}, as it is now")
                parts.append(unified(pins[tool.name].definition, _definition(tool)) or _BEYOND)
        return "\n".join(parts)

    def names(self, server: str) -> tuple[str, ...]:
        """The tools a server had when it was seen last, also while it does not run."""
        return tuple(self._pins.get(server, {}))

    def _pin(self, server: str, tools: Sequence[RemoteTool]) -> None:
        digest = self._digests[server]
        path = self._path(digest)
        try:
            with locked(path):
                pins = self._read(digest)
                pins = _joined(pins, tools)
                replace_text(path, f"{_Kept(server=server, tools=pins).model_dump_json(indent=2)}\n")
        except OSError as error:
            raise ConfigError(f"The tools of {server} cannot be kept in {path}: {error}.") from error
        self._pins[server] = pins

    def _read(self, digest: str) -> "dict[str, _Pin]":
        path = self._path(digest)
        try:
            return _Kept.model_validate_json(path.read_bytes()).tools
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            raise ConfigError(f"Cannot read {path}: {error}. Mend or remove it, then run again.") from error

    def _path(self, digest: str) -> Path:
        return self._folder / f"tools-{digest[:_NAME_LENGTH]}.json"


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


_BEYOND: Final = f"(it changed beyond the first {LONGEST:,} characters)"


def _joined(pins: Mapping[str, _Pin], tools: Sequence[RemoteTool]) -> dict[str, _Pin]:
    """The pins with those of some tools as they are now."""
    renewed = {tool.name for tool in tools}
    joined = {name: pin for name, pin in pins.items() if name not in renewed}
    room = ALL_OF_THEM - sum(len(pin.definition) for pin in joined.values())
    for tool in tools:
        definition = _definition(tool)[: max(0, room)]
        room -= len(definition)
        joined[tool.name] = _Pin(digest=tool.digest, definition=definition)
    return joined


def _definition(tool: RemoteTool) -> str:
    """All that a digest is of, in lines."""
    schema = json.dumps(dict(tool.input_schema), indent=2, sort_keys=True, ensure_ascii=False)
    text = f"{tool.name}\n{tool.description}\n{schema}"
    # Half a surrogate pair cannot be written.
    return text.encode("utf-8", "replace").decode("utf-8")[:LONGEST]
