"""``[[mcp_servers]]``: servers of further tools (seed 001, MCP Server Discovery)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vibe_jupyter.config.entry import Entry
from vibe_jupyter.config.patterns import Patterns


class _McpServer(Entry):
    """What every server has."""

    unused: ClassVar = frozenset({"sampling_enabled"})

    name: str = Field(min_length=1)
    prompt: str = ""
    """A hint for the model on when to use it."""
    disabled: bool = False
    disabled_tools: Patterns = ()
    startup_timeout_sec: float = Field(default=10.0, gt=0)
    tool_timeout_sec: float = Field(default=60.0, gt=0)


class McpStdio(_McpServer):
    """A program on this machine."""

    transport: Literal["stdio"]
    command: str | tuple[str, ...]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    """Where it is started; None for the folder of the kernel."""


class McpHttp(_McpServer):
    """A server elsewhere; both names of the transport mean the same."""

    unused: ClassVar = frozenset({"auth", "sampling_enabled"})

    transport: Literal["http", "streamable-http"]
    url: str = Field(min_length=1)
    headers: dict[str, str] = {}
    api_key_env: str = ""
    """Name of the environment variable that holds its key."""
    api_key_header: str = "Authorization"
    api_key_format: str = "Bearer {token}"


McpServer = Annotated[McpStdio | McpHttp, Field(discriminator="transport")]
