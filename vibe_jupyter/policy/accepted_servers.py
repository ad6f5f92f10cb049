"""Which MCP servers the person accepted (security C27): a program by its exact command, an address by its host.

Kept by a hash of what was shown, in the person's own folder and never in a project, so that nothing a folder brings can
accept itself, and whatever changes is asked for again.
"""

import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.tools.mcp.server import Address, Program, Server
from vibe_jupyter.tools.own_file import locked, replace_text

FOLDER_NAME: Final = "mcp"
"""Below the person's folder; the pins of tools are there too."""
FILE_NAME: Final = "accepted.json"

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
        return _program(written, written.at, filled.at, folder)
    assert isinstance(filled.at, Address)
    assert isinstance(written.at, Address)
    return _address(written, written.at, filled.at, variables)


def _program(server: Server, written: Program, filled: Program, folder: Path) -> Identity:
    place = str(folder / Path(filled.cwd).expanduser())
    environment = ", ".join(_named(name, value) for name, value in sorted(written.env.items()))
    lines = [
        f"{server.name} runs {visible(shlex.join(written.argv))}",
        f"  in {visible(place)}{f', with {environment}' if environment else ''}",
        f"  from {visible(server.origin)}",
    ]
    digest = _digest("program", filled.argv, place, sorted(written.env.items()))
    return Identity(server.name, digest, tuple(lines))


def _address(server: Server, written: Address, filled: Address, variables: Sequence[str]) -> Identity:
    parts = urlsplit(filled.url)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
    sent = sorted(name.lower() for name in filled.headers)
    told = f"  it is sent {', '.join(map(visible, sorted(filled.headers)))}" if sent else ""
    told += f"{' and ' if told else '  it is sent '}the value of {', '.join(variables)}" if variables else ""
    lines = [f"{server.name} is at {visible(written.url)}", told, f"  from {visible(server.origin)}"]
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


def _digest(*what: object) -> str:
    return hashlib.sha256(json.dumps(what).encode("utf-8", "replace")).hexdigest()
