"""MCP servers as checked values: what is started or asked, and under which name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vibe_jupyter.config.mcp_servers import STARTUP_TIMEOUT, TOOL_TIMEOUT


@dataclass(frozen=True)
class ServerProgram:
    """Started on this machine, spoken to over its standard input and output."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Beside the small environment every child gets; values may be keys, so they are never shown."""
    cwd: str = ""
    """Where it is started; empty for the project folder."""


@dataclass(frozen=True)
class ServerAddress:
    """A server that runs already, spoken to over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Sent with every request; values may be keys, so they are never shown."""


class ToolServer(NamedTuple):
    """One ``[[mcp_servers]]`` entry, checked and with its name."""

    name: str
    """Unique among the servers, of ``[A-Za-z0-9_-]``."""
    at: ServerProgram | ServerAddress
    prompt: str = ""
    """A hint for the model on when to use it."""
    startup_timeout: float = STARTUP_TIMEOUT
    tool_timeout: float = TOOL_TIMEOUT
    disabled: bool = False
    disabled_tools: tuple[str, ...] = ()
    """Patterns of names that are not offered."""
    sampling: bool = False
    """Whether it may ask for words of the model; each time the user is asked."""
    origin: str = ""
    """Where it is declared, such as ``~/.vibe/config.toml:12``."""
