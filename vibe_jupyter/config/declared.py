"""The MCP servers of the settings, each checked and with its name."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from vibe_jupyter.config.keys import key_of
from vibe_jupyter.config.mcp_servers import McpHttp, McpOther, McpStdio
from vibe_jupyter.config.node import Origin
from vibe_jupyter.config.reading import Reading
from vibe_jupyter.config.variables import expanded, named
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.policy.secrets import is_secret_name
from vibe_jupyter.tools.mcp.names import anonymous
from vibe_jupyter.tools.mcp.server import Address, Program, Server

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH: Final = 6
"""Characters of a hash in a name."""
_SSE: Final = "sse"
_CREDENTIALS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that hold a secret, whatever else is in their names."""


@dataclass(frozen=True)
class Declared:
    """One server as it is written. Its keys are looked up when it is started, and no earlier."""

    written: Server
    """With ``${NAME}`` where the file has it."""
    key_variable: str = ""
    """Of the key that is sent to it; empty for none."""
    key_header: str = ""
    key_format: str = ""
    of_project: bool = False
    """Whether the folder brings it, and not the person."""

    @property
    def name(self) -> str:
        return self.written.name

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables whose values it gets."""
        match self.written.at:
            case Program(argv=argv, env=env, cwd=cwd):
                texts: Iterable[str] = (*argv, *env.values(), cwd)
            case Address(url=url, headers=headers):
                texts = (url, *headers.values())
        return tuple(dict.fromkeys((*named(texts), *filter(None, (self.key_variable,)))))

    def filled(self, environ: Mapping[str, str]) -> Server:
        """The server with the values in place.

        Raises:
            ConfigError: a variable is not set, or the address is none; the next step is in it.
        """
        match self.written.at:
            case Program() as program:
                at: Program | Address = replace(
                    program,
                    argv=tuple(self._value(word, environ) for word in program.argv),
                    env={name: self._value(value, environ) for name, value in program.env.items()},
                    cwd=self._value(program.cwd, environ),
                )
            case Address() as address:
                headers = {name: self._value(value, environ) for name, value in address.headers.items()}
                at = Address(self._value(address.url, environ), headers | self._key(environ))
                if urlsplit(at.url).scheme not in ("http", "https") or not urlsplit(at.url).hostname:
                    raise ConfigError(
                        f"{self.written.origin}: the MCP server {self.name} wants a url with http or https."
                    )
        return replace(self.written, at=at)

    def secrets(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What it gets that nobody may read, by what it is called."""
        try:
            at = self.filled(environ).at
        except ConfigError:
            return {}
        given = at.env if isinstance(at, Program) else at.headers
        hidden = {name: value for name, value in given.items() if is_secret_name(name) or name.lower() in _CREDENTIALS}
        # A header is a word for its kind and the key; the key alone may be met elsewhere.
        bare = {f"{name} of {self.name}": value.rpartition(" ")[2] for name, value in hidden.items()}
        return bare | {f"{name} for {self.name}": value for name, value in hidden.items()}

    def _key(self, environ: Mapping[str, str]) -> dict[str, str]:
        if not self.key_variable:
            return {}
        key = key_of(self.key_variable, environ)
        if not key:
            raise ConfigError(
                f"{self.written.origin}: the MCP server {self.name} wants a key, and the variable {self.key_variable} "
                "is not set. Set it, or write it into .env beside your settings."
            )
        return {self.key_header: self.key_format.replace("{token}", key)}

    def _value(self, text: str, environ: Mapping[str, str]) -> str:
        try:
            return expanded(text, environ)
        except ConfigError as error:
            raise ConfigError(f"{self.written.origin}: the MCP server {self.name}: {error}.") from None


@dataclass(frozen=True)
class Declarations:
    """All of them."""

    servers: tuple[Declared, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences for the person on those that cannot be used."""


def mcp_servers(reading: Reading) -> Declarations:
    """The servers that are declared, those that are switched off among them; nothing is started or opened."""
    servers: dict[str, Declared] = {}
    problems: list[str] = []
    nodes = reading.tree.table.get("mcp_servers")
    origins = [node.origin for node in nodes.items] if nodes is not None else []
    for entry, origin in zip(reading.settings.mcp_servers, origins, strict=False):
        if isinstance(entry, McpOther):
            problems.append(_not_spoken(entry, origin))
            continue
        one = _declared(entry, origin)
        if not entry.name:
            one = replace(one, written=replace(one.written, name=_made_name(one.written.at, servers)))
        other = servers.get(one.name)
        if other is None:
            servers[one.name] = one
        elif entry.name or other.written.at != one.written.at:
            first = other.written.origin
            problems.append(f"{origin}: an MCP server is named {one.name} already, in {first}; this one is left out.")
    return Declarations(tuple(servers.values()), tuple(problems))


def _declared(entry: McpStdio | McpHttp, origin: Origin) -> Declared:
    if isinstance(entry, McpStdio):
        at: Program | Address = Program(entry.argv, dict(entry.env), _folder(entry.cwd, origin))
    else:
        at = Address(entry.url, dict(entry.headers))
    server = Server(
        name=clean_name(entry.name),
        at=at,
        prompt=entry.prompt,
        startup_timeout=entry.startup_timeout_sec,
        tool_timeout=entry.tool_timeout_sec,
        disabled=entry.disabled,
        disabled_tools=entry.disabled_tools,
        sampling=entry.sampling or entry.sampling_enabled,
        origin=str(origin),
    )
    of_project = origin.layer == "project"
    if isinstance(entry, McpStdio):
        return Declared(server, of_project=of_project)
    return Declared(server, entry.api_key_env, entry.api_key_header, entry.api_key_format, of_project)


def _folder(cwd: str, origin: Origin) -> str:
    """Where it is started; a relative path begins at what its file belongs to."""
    if not cwd or "${" in cwd or origin.path is None:
        return cwd
    beside = origin.path.parent
    base = beside.parent if origin.layer == "project" and beside.name == ".vibe" else beside
    return str(base / Path(cwd).expanduser())


def clean_name(name: str) -> str:
    """The name as it may stand in the name of a tool."""
    if not name:
        return ""
    return _NOT_IN_NAMES.sub("_", name).strip("_") or f"server_{_hash(name)}"


def _made_name(at: Program | Address, taken: Mapping[str, Declared]) -> str:
    """A name for a server without one; a second one of the same host gets a longer name."""
    name = anonymous(at)
    if isinstance(at, Address) and name in taken and taken[name].written.at != at:
        return f"{name}_{_hash(at.url)}"
    return name


def _hash(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def _not_spoken(entry: McpOther, origin: Origin) -> str:
    name = f" {entry.name}" if entry.name else ""
    if entry.transport == _SSE:
        why = "speaks the older transport sse, which is no longer used; most servers offer http under another address"
    else:
        why = f"has the transport {entry.transport!r}; there is stdio, http and streamable-http"
    return f"{origin}: the MCP server{name} is left out: it {why}."
