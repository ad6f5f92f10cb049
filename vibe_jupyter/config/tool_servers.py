"""Validated MCP servers: the program or URL, and the name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vibe_jupyter.config.mcp_servers import STARTUP_TIMEOUT, TOOL_TIMEOUT


@dataclass(frozen=True)
class ServerProgram:
    """A program on this machine that speaks MCP over stdin and stdout."""

    argv: tuple[str, ...]
    # Added to the minimal environment of each child; values may be keys, so they are never shown.
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""  # folder that it is started in; "" for the project folder


@dataclass(frozen=True)
class ServerAddress:
    """A running server that speaks MCP over streamable HTTP."""

    url: str
    # Headers of every request; values may be keys, so they are never shown.
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class ToolServer(NamedTuple):
    """A validated `[[mcp_servers]]` entry with its name."""

    name: str  # unique among the servers, of `[A-Za-z0-9_-]`
    at: ServerProgram | ServerAddress
    prompt: str = ""  # hint for the model on when to use it
    startup_timeout: float = STARTUP_TIMEOUT
    tool_timeout: float = TOOL_TIMEOUT
    disabled: bool = False
    disabled_tools: tuple[str, ...] = ()  # patterns of names that aren't offered
    sampling: bool = False  # whether it may request completions from the model; the user approves each request
    origin: str = ""  # where it is declared, such as `~/.vibe/config.toml, at mcp_servers.files`
