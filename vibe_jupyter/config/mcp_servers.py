"""``[[mcp_servers]]``: MCP servers as they are written."""

import shlex
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self, cast

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from vibe_jupyter.config.tables import Entry, Patterns

MOST_PATIENCE: Final = 86_400.0
"""Seconds that a time-out may be at the most."""

STARTUP_TIMEOUT: Final = 10.0
"""Seconds a server may take until its tools are listed; Mistral Vibe's default."""
TOOL_TIMEOUT: Final = 60.0
"""Seconds one call may take; Mistral Vibe's default."""


class McpServer(Entry):
    """What every server has."""

    unused: ClassVar = frozenset({"type"})

    name: str = ""
    """Empty for one that is made of its host, or of its command."""
    prompt: str = ""
    """A hint for the model on when to use it."""
    disabled: bool = False
    disabled_tools: Patterns = ()
    startup_timeout_sec: float = Field(default=STARTUP_TIMEOUT, gt=0, le=MOST_PATIENCE)
    tool_timeout_sec: float = Field(default=TOOL_TIMEOUT, gt=0, le=MOST_PATIENCE)
    sampling: bool = False
    """Whether it may ask for words of the model; each time the user is asked."""
    sampling_enabled: bool = False
    """The same, as Mistral Vibe calls it; there it is on unless it is switched off."""


class McpStdio(McpServer):
    """A program on this machine."""

    transport: Literal["stdio"] = "stdio"
    command: str | tuple[str, ...]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    """Where it is started; empty for the folder of the kernel."""

    @field_validator("command")
    @classmethod
    def _names_a_program(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        words = shlex.split(command) if isinstance(command, str) else command
        if not words or not words[0]:
            raise ValueError("expected the name of a program; it is empty")
        return command

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments; a command of one text is split like a shell does, and runs in none."""
        words = shlex.split(self.command) if isinstance(self.command, str) else self.command
        return (*words, *self.args)


class McpAuth(Entry):
    """How an address is spoken to, as Mistral Vibe writes it. Signing in needs nothing of it: the server says how."""

    unused: ClassVar = frozenset({"client_id", "client_metadata_url", "redirect_port", "scopes"})

    type: str = "static"
    headers: dict[str, str] = {}
    api_key_env: str = ""
    api_key_header: str = "Authorization"
    api_key_format: str = "Bearer {token}"


_AUTH_KEYS: Final = frozenset(McpAuth.model_fields) - {"type"}


class McpHttp(McpServer):
    """A remote server; both names of the transport mean the same."""

    transport: Literal["http", "streamable-http"] = "http"
    url: str = Field(min_length=1)
    headers: dict[str, str] = {}
    api_key_env: str = ""
    """Name of the environment variable that holds its key."""
    api_key_header: str = "Authorization"
    api_key_format: str = "Bearer {token}"
    auth: McpAuth | None = None

    @model_validator(mode="after")
    def _take_keys_of_auth(self) -> Self:
        """Where ``auth`` holds keys, they count as if they stood beside it, unless others stand there."""
        if self.auth is None:
            return self
        found = self.auth.model_dump(include={*_AUTH_KEYS.intersection(self.auth.model_fields_set)})
        return self.model_copy(update={key: found[key] for key in found if key not in self.model_fields_set})

    @field_validator("api_key_format")
    @classmethod
    def _has_a_place(cls, form: str) -> str:
        if "{token}" not in form:
            raise ValueError("expected {token} where the key goes")
        return form


class McpOther(McpServer):
    """An unsupported transport. It is reported, and stops no other server."""

    unused: ClassVar = McpServer.unused.union(McpStdio.model_fields, McpHttp.model_fields)

    transport: str


def server_kind(entry: object) -> str:
    """Which of `MODELS` a table is; one without a transport is what its keys say."""
    if isinstance(entry, McpServer):
        return next(kind for kind, model in MODELS.items() if isinstance(entry, model))
    if not isinstance(entry, Mapping):
        return "stdio"
    table = cast("Mapping[str, object]", entry)
    said = table.get("transport", "http" if "url" in table and "command" not in table else "stdio")
    return {"stdio": "stdio", "http": "http", "streamable-http": "http"}.get(str(said), "other")


MODELS: Final[Mapping[str, type[McpServer]]] = {"stdio": McpStdio, "http": McpHttp, "other": McpOther}
"""What an entry may be: a program, an address, or something that is not spoken here."""

AnyMcpServer = Annotated[
    Annotated[McpStdio, Tag("stdio")] | Annotated[McpHttp, Tag("http")] | Annotated[McpOther, Tag("other")],
    Discriminator(server_kind),
]
