"""`[[mcp_servers]]`: entries for MCP servers as written in the settings."""

import shlex
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self, cast

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from vibe_jupyter.config.tables import Entry, Patterns

MOST_PATIENCE: Final = 86_400.0  # seconds; upper bound of timeouts

STARTUP_TIMEOUT: Final = 10.0  # seconds a server may take to list its tools; Mistral Vibe's default
TOOL_TIMEOUT: Final = 60.0  # seconds a call may take; Mistral Vibe's default


class McpServer(Entry):
    """Keys common to all servers."""

    unused: ClassVar = frozenset({"type"})

    name: str = ""
    """Name of the server, or "" to derive it from its host or command."""
    prompt: str = ""
    """Hint for the model on when to use it."""
    disabled: bool = False
    disabled_tools: Patterns = ()
    startup_timeout_sec: float = Field(default=STARTUP_TIMEOUT, gt=0, le=MOST_PATIENCE)
    tool_timeout_sec: float = Field(default=TOOL_TIMEOUT, gt=0, le=MOST_PATIENCE)
    sampling: bool = False
    """Whether it may request completions from the model. The user approves each request."""
    sampling_enabled: bool = False
    """Mistral Vibe's key for `sampling`; there it is on by default."""


class McpStdio(McpServer):
    """A server that is started on this machine."""

    transport: Literal["stdio"] = "stdio"
    command: str | tuple[str, ...]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    """Folder that it is started in, or "" for the kernel's."""

    @field_validator("command")
    @classmethod
    def _names_a_program(cls, command: str | tuple[str, ...]) -> str | tuple[str, ...]:
        words = shlex.split(command) if isinstance(command, str) else command
        if not words or not words[0]:
            raise ValueError("expected the name of a program; it is empty")
        return command

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments. A command string is split like in a shell, but isn't run by one."""
        words = shlex.split(self.command) if isinstance(self.command, str) else self.command
        return (*words, *self.args)


class McpAuth(Entry):
    """Authentication for a remote server, as Mistral Vibe writes it.

    OAuth needs none of it, because the server announces what it requires.
    """

    unused: ClassVar = frozenset({"client_id", "client_metadata_url", "redirect_port", "scopes"})

    type: str = "static"
    headers: dict[str, str] = {}
    api_key_env: str = ""
    api_key_header: str = "Authorization"
    api_key_format: str = "Bearer {token}"


_AUTH_KEYS: Final = frozenset(McpAuth.model_fields) - {"type"}


class McpHttp(McpServer):
    """A remote server. Both names of the transport are equivalent."""

    transport: Literal["http", "streamable-http"] = "http"
    url: str = Field(min_length=1)
    headers: dict[str, str] = {}
    api_key_env: str = ""
    """Name of the environment variable with its key."""
    api_key_header: str = "Authorization"
    api_key_format: str = "Bearer {token}"
    auth: McpAuth | None = None

    @model_validator(mode="after")
    def _take_keys_of_auth(self) -> Self:
        """Copy keys of `auth` to the entry itself, unless it sets them."""
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
    """A server with an unsupported transport, which is reported without affecting other servers."""

    unused: ClassVar = McpServer.unused.union(McpStdio.model_fields, McpHttp.model_fields)

    transport: str


def server_kind(entry: object) -> str:
    """Return the key in `MODELS` for an entry. Without a transport, the kind follows from the entry's keys."""
    if isinstance(entry, McpServer):
        return next(kind for kind, model in MODELS.items() if isinstance(entry, model))
    if not isinstance(entry, Mapping):
        return "stdio"
    table = cast("Mapping[str, object]", entry)
    said = table.get("transport", "http" if "url" in table and "command" not in table else "stdio")
    return {"stdio": "stdio", "http": "http", "streamable-http": "http"}.get(str(said), "other")


# Models of entries: a program, a URL, or an unsupported transport.
MODELS: Final[Mapping[str, type[McpServer]]] = {"stdio": McpStdio, "http": McpHttp, "other": McpOther}

AnyMcpServer = Annotated[
    Annotated[McpStdio, Tag("stdio")] | Annotated[McpHttp, Tag("http")] | Annotated[McpOther, Tag("other")],
    Discriminator(server_kind),
]
