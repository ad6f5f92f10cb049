"""Which MCP servers the person accepted (security C27): a program by its exact command, an address by its host.

Kept by a hash of what was shown, in the person's own folder and never in a project, so that nothing a folder brings can
accept itself, and whatever changes is asked for again.
"""

import fnmatch
import hashlib
import json
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.policy.secrets import is_secret_name
from vibe_jupyter.tools.mcp.server import Address, Program, Server
from vibe_jupyter.tools.own_file import locked, replace_text

FOLDER_NAME: Final = "mcp"
"""Below the person's folder; the pins of tools are there too."""
FILE_NAME: Final = "accepted.json"

_STEERING: Final = (
    *("path", "ld_*", "dyld_*", "bash_env", "env", "shellopts", "bashopts", "git_*", "ssh_askpass", "editor"),
    *("python*", "node_options", "node_path", "npm_config_*", "uv_*", "pip_*", "perl5*", "perllib", "ruby*", "gem_*"),
    *("java_tool_options", "jdk_java_options", "_java_options", "classpath", "lua_*", "deno_*", "bun_*", "docker_*"),
)
"""Variables, in small letters, by which a known command runs another program, or code that it does not name."""

State = Literal["accepted", "refused", "unknown"]


@dataclass(frozen=True)
class Identity:
    """What is accepted of one server."""

    name: str
    digest: str
    """Of the exact command, its folder and its environment; or of a host and what is sent to it."""
    shown: tuple[str, ...]
    """The same in lines for the person; keys are named, never shown."""


def identity(written: Server, filled: Server, *, variables: Sequence[str], folder: Path) -> Identity:
    """What a server is accepted as.

    Args:
        written: as its file has it.
        filled: the same with the values of variables in it.
        variables: those that it gets.
        folder: where a program starts that names no other.
    """
    if isinstance(filled.at, Program) and isinstance(written.at, Program):
        hidden = [name for name in variables if is_secret_name(name)]
        return _program(written, filled.at, folder, hidden)
    assert isinstance(filled.at, Address)
    assert isinstance(written.at, Address)
    return _address(written, written.at, filled.at, variables)


def _program(server: Server, filled: Program, folder: Path, hidden: Collection[str]) -> Identity:
    written = server.at
    assert isinstance(written, Program)
    place = str(folder / Path(filled.cwd).expanduser())
    environment = ", ".join(_named(name, value) for name, value in sorted(written.env.items()))
    now = [_open(*words, hidden) for words in zip(written.argv, filled.argv, strict=True)]
    lines = [
        f"{server.name} runs {visible(shlex.join(written.argv))}",
        f"  which is now {visible(shlex.join(now))}" if now != list(written.argv) else "",
        f"  in {visible(place)}{f', with {environment}' if environment else ''}",
        *(
            f"  {visible(f'{name}={value}')} may change what it runs"
            for name, value in sorted(written.env.items())
            if _steers(name)
        ),
        f"  from {visible(server.origin)}",
    ]
    digest = _digest("program", filled.argv, place, sorted(written.env.items()))
    return Identity(server.name, digest, tuple(filter(None, lines)))


def _address(server: Server, written: Address, filled: Address, variables: Sequence[str]) -> Identity:
    parts = urlsplit(filled.url)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
    sent = sorted(name.lower() for name in filled.headers)
    told = f"  it is sent {', '.join(map(visible, sorted(filled.headers)))}" if sent else ""
    told += f"{' and ' if told else '  it is sent '}the value of {', '.join(variables)}" if variables else ""
    now = f"  which is now at {visible(host)}" if "${" in written.url or "@" in written.url else ""
    lines = [f"{server.name} is at {visible(written.url)}", now, told, f"  from {visible(server.origin)}"]
    return Identity(server.name, _digest("address", host, sent, sorted(variables)), tuple(filter(None, lines)))


class AcceptedServers:
    """The person's decisions, in a file that other kernels use too."""

    def __init__(self, home: Path) -> None:
        self.path = home / FOLDER_NAME / FILE_NAME

    def state(self, server: Identity) -> State:
        """What was decided.

        Raises:
            ConfigError: the file cannot be read.
        """
        kept = self._read()
        return (
            "accepted" if server.digest in kept.accepted else "refused" if server.digest in kept.refused else "unknown"
        )

    def remember(self, servers: Iterable[Identity], *, accepted: bool) -> None:
        """Keep a decision.

        Raises:
            ConfigError: it cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            with locked(self.path):
                kept = self._read()
                for server in servers:
                    kept.accepted.pop(server.digest, None)
                    kept.refused.pop(server.digest, None)
                    (kept.accepted if accepted else kept.refused)[server.digest] = f"{server.name}, {now}"
                replace_text(self.path, f"{kept.model_dump_json(indent=2)}\n")
        except OSError as error:
            raise ConfigError(f"The decision cannot be kept in {self.path}: {error}.") from error

    def _read(self) -> "_Kept":
        try:
            return _Kept.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return _Kept()
        except (OSError, ValidationError) as error:
            raise ConfigError(f"Cannot read {self.path}: {error}. Mend or remove it, then run again.") from error


class _Kept(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid")

    accepted: dict[str, str] = {}
    """Digest to the server's name and the time; for people who look into the file."""
    refused: dict[str, str] = {}


def visible(text: str) -> str:
    """The text in one line, with whatever would not be seen written out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _named(name: str, value: str) -> str:
    """A variable and where its value comes from, never the value."""
    return visible(f"{name} from {value}" if value.startswith("${") and value.endswith("}") else name)


def _open(written: str, filled: str, hidden: Collection[str]) -> str:
    """A word as it will be run, but as it is written where a key is in it."""
    has_key = any(f"{opening}{name}" in written for name in hidden for opening in ("${", "${env:"))
    return written if has_key else filled


def _steers(name: str) -> bool:
    """Whether a variable decides which code a command is. One that is a key by its name is none of these to show."""
    return not is_secret_name(name) and any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in _STEERING)


def _digest(*what: object) -> str:
    return hashlib.sha256(json.dumps(what).encode("utf-8", "replace")).hexdigest()
