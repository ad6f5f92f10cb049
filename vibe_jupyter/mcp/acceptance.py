"""Declared MCP servers and the user's decision on each: local programs by command, remote servers by host.

Decisions are stored by a hash of what the user was shown, in the user's own folder and never in the project. A project
therefore can't accept its own servers, and any change to a server asks again.
"""

import fnmatch
import hashlib
import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from vibe_jupyter import config
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.atomic_write import locked_file, replace_text
from vibe_jupyter.mcp.declared import DeclaredServer, mcp_servers
from vibe_jupyter.mcp.tool_names import PREFIX
from vibe_jupyter.permissions.secret_shapes import is_secret_name
from vibe_jupyter.protocol import Level

# incomplete: a required variable is not set
Standing = Literal["accepted", "refused", "unknown", "disabled", "incomplete"]

FOLDER_NAME: Final = "mcp"  # below the user's folder; shared with the tool pins
FILE_NAME: Final = "accepted.json"

# Environment variables (lower case) that make a known command run another program, or code it doesn't name.
_STEERING: Final = (
    *("path", "ld_*", "dyld_*", "bash_env", "env", "shellopts", "bashopts", "git_*", "ssh_askpass", "editor"),
    *("python*", "node_options", "node_path", "npm_config_*", "uv_*", "pip_*", "perl5*", "perllib", "ruby*", "gem_*"),
    *("java_tool_options", "jdk_java_options", "_java_options", "classpath", "lua_*", "deno_*", "bun_*", "docker_*"),
)

State = Literal["accepted", "refused", "unknown"]


@dataclass(frozen=True)
class ServerIdentity:
    """The user-visible definition of one server that a decision applies to."""

    name: str
    digest: str  # hash of the command, its folder and environment; or of the host and the names of what is sent to it
    shown: tuple[str, ...]  # lines for the user; secrets appear by name only


@dataclass(frozen=True)
class PlannedServer:
    """A declared server with its status."""

    declared: DeclaredServer
    standing: Standing
    filled: ToolServer | None = None  # with secrets filled in; None if the server must not be used
    identity: ServerIdentity | None = None  # None if a variable is missing or the server is disabled
    problem: str = ""

    @property
    def name(self) -> str:
        return self.declared.name


@dataclass(frozen=True)
class ServerPlan:
    """All declared servers under the current settings."""

    servers: tuple[PlannedServer, ...] = ()
    problems: tuple[str, ...] = ()  # sentences for the user
    # Values given to servers and never shown, by label
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def at(self, *standings: Standing) -> tuple[PlannedServer, ...]:
        """Return the servers with any of these statuses."""
        return tuple(one for one in self.servers if one.standing in standings)

    def find(self, name: str) -> PlannedServer | None:
        """Return the server with this name, or None."""
        return next((one for one in self.servers if one.name == name), None)

    @property
    def identities(self) -> dict[str, str]:
        """Digests of accepted servers, by server name."""
        return {one.name: one.identity.digest for one in self.at("accepted") if one.identity is not None}


class AcceptedServers:
    """The user's decisions, stored in a file shared with other kernels."""

    def __init__(self, home: Path) -> None:
        self.path = home / FOLDER_NAME / FILE_NAME

    def state(self, server: ServerIdentity) -> State:
        """Return the decision about a server.

        Raises:
            ConfigError: the file cannot be read.
        """
        kept = self._read_file()
        return (
            "accepted" if server.digest in kept.accepted else "refused" if server.digest in kept.refused else "unknown"
        )

    def remember(self, servers: Iterable[ServerIdentity], *, accepted: bool) -> None:
        """Store a decision.

        Raises:
            ConfigError: the file cannot be read or written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            with locked_file(self.path):
                kept = self._read_file()
                for server in servers:
                    kept.accepted.pop(server.digest, None)
                    kept.refused.pop(server.digest, None)
                    (kept.accepted if accepted else kept.refused)[server.digest] = f"{server.name}, {now}"
                replace_text(self.path, f"{kept.model_dump_json(indent=2)}\n")
        except OSError as error:
            raise ConfigError(f"The decision cannot be kept in {self.path}: {error}.") from error

    def _read_file(self) -> "_Kept":
        try:
            return _Kept.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return _Kept()
        except (OSError, ValidationError) as error:
            raise ConfigError(f"Cannot read {self.path}: {error}. Fix or remove it, then run again.") from error


def plan_servers(
    reading: config.SettingsReading, environ: Mapping[str, str], *, folder: Path, accepted: AcceptedServers
) -> ServerPlan:
    """Check the declared servers without starting any.

    Args:
        reading: the settings.
        environ: the process's environment.
        folder: the project.
        accepted: the user's decisions.

    Raises:
        ConfigError: the decisions cannot be read.
    """
    declared = mcp_servers(reading)
    if not declared.servers:
        return ServerPlan(problems=declared.problems)
    known = config.effective_environment(environ)
    found = (_plan_server(one, known, folder, accepted) for one in declared.servers)
    levels = reading.settings.levels()
    servers = tuple(_with_allowed(one, levels) if one.declared.of_project else one for one in found)
    secrets: dict[str, str] = {}
    for one in declared.servers:
        if not one.written.disabled:
            secrets |= one.secrets(known)
    return ServerPlan(servers, (*declared.problems, *(one.problem for one in servers if one.problem)), secrets)


def _plan_server(
    one: DeclaredServer, environ: Mapping[str, str], folder: Path, accepted: AcceptedServers
) -> PlannedServer:
    if one.written.disabled:
        return PlannedServer(one, "disabled")
    try:
        filled = one.filled(environ)
    except ConfigError as error:
        return PlannedServer(one, "incomplete", problem=str(error))
    what = server_identity(one.written, filled, variables=one.variables, folder=folder)
    return PlannedServer(one, accepted.state(what), filled, what)


def _with_allowed(one: PlannedServer, levels: Mapping[str, Level]) -> PlannedServer:
    """Add the tools that run without approval to what the user accepts of a project's server.

    The permission may have been granted to a different server with the same name.
    """
    forms = (f"{PREFIX}{one.name}__", f"{one.name}_")
    unasked = sorted(name for name, level in levels.items() if level == "always" and name.startswith(forms))
    if not unasked or one.identity is None:
        return one
    told = f"  without asking each time, as your settings say: {', '.join(unasked)}"
    return replace(one, identity=replace(one.identity, shown=(*one.identity.shown, told)))


def server_identity(
    written: ToolServer, filled: ToolServer, *, variables: Sequence[str], folder: Path
) -> ServerIdentity:
    """Describe and hash a server as it has to be accepted.

    Args:
        written: the server as written in its file.
        filled: the server with variables expanded.
        variables: names of the variables whose values it receives.
        folder: default working directory of a local program.
    """
    if isinstance(filled.at, ServerProgram) and isinstance(written.at, ServerProgram):
        hidden = [name for name in variables if is_secret_name(name)]
        return _program_identity(written, filled.at, folder, hidden)
    assert isinstance(filled.at, ServerAddress)
    assert isinstance(written.at, ServerAddress)
    return _address_identity(written, written.at, filled.at, variables)


def _program_identity(
    server: ToolServer, filled: ServerProgram, folder: Path, hidden: Collection[str]
) -> ServerIdentity:
    written = server.at
    assert isinstance(written, ServerProgram)
    place = str(folder / Path(filled.cwd).expanduser())
    environment = ", ".join(_named_variable(name, value) for name, value in sorted(written.env.items()))
    now = [_open_word(*words, hidden) for words in zip(written.argv, filled.argv, strict=True)]
    lines = [
        f"{server.name} runs {visible_text(shlex.join(written.argv))}",
        f"  which is now {visible_text(shlex.join(now))}" if now != list(written.argv) else "",
        f"  in {visible_text(place)}{f', with {environment}' if environment else ''}",
        *(
            f"  {visible_text(f'{name}={value}')} may change what it runs"
            for name, value in sorted(written.env.items())
            if _steers_code(name)
        ),
        f"  from {visible_text(server.origin)}",
    ]
    digest = _json_digest("program", filled.argv, place, sorted(written.env.items()))
    return ServerIdentity(server.name, digest, tuple(filter(None, lines)))


def _address_identity(
    server: ToolServer, written: ServerAddress, filled: ServerAddress, variables: Sequence[str]
) -> ServerIdentity:
    parts = urlsplit(filled.url)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
    sent = sorted(name.lower() for name in filled.headers)
    told = f"  it is sent {', '.join(map(visible_text, sorted(filled.headers)))}" if sent else ""
    told += f"{' and ' if told else '  it is sent '}the value of {', '.join(variables)}" if variables else ""
    now = f"  which is now at {visible_text(host)}" if "${" in written.url or "@" in written.url else ""
    lines = [f"{server.name} is at {visible_text(written.url)}", now, told, f"  from {visible_text(server.origin)}"]
    return ServerIdentity(
        server.name, _json_digest("address", host, sent, sorted(variables)), tuple(filter(None, lines))
    )


class _Kept(BaseModel):
    """Contents of the decisions file."""

    model_config = ConfigDict(extra="forbid")

    accepted: dict[str, str] = {}  # digest to the server's name and the time, for people who read the file
    refused: dict[str, str] = {}


def visible_text(text: str) -> str:
    """Put a text on one line and escape unprintable characters."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _named_variable(name: str, value: str) -> str:
    """Describe a variable and the source of its value, never the value itself."""
    return visible_text(f"{name} from {value}" if value.startswith("${") and value.endswith("}") else name)


def _open_word(written: str, filled: str, hidden: Collection[str]) -> str:
    """Return an argument with variables expanded, or as written if it contains a secret."""
    has_key = any(f"{opening}{name}" in written for name in hidden for opening in ("${", "${env:"))
    return written if has_key else filled


def _steers_code(name: str) -> bool:
    """Return whether a variable decides which code a command runs.

    Variables whose names suggest a secret are excluded, since these are displayed.
    """
    return not is_secret_name(name) and any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in _STEERING)


def _json_digest(*what: object) -> str:
    return hashlib.sha256(json.dumps(what).encode("utf-8", "replace")).hexdigest()
