"""The MCP servers of the settings, each checked and with its name, and changes of that list."""

import asyncio
import hashlib
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from vibe_jupyter.config.loading import SettingsReading
from vibe_jupyter.config.mcp_servers import McpHttp, McpOther, McpStdio
from vibe_jupyter.config.model_choice import find_api_key
from vibe_jupyter.config.toml_file import Entry, SettingOrigin, changed_config, put_entry
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.mcp.tool_names import anonymous_name
from vibe_jupyter.permissions.secret_shapes import is_secret_name

_LOCAL_NAMES: Final = ("localhost",)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH: Final = 6
"""Characters of a hash in a name."""
_SSE: Final = "sse"
_CREDENTIALS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that hold a secret, whatever else is in their names."""

_KEY = "mcp_servers"

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")
_FOREIGN: Final = re.compile(r"\$\{(?!env:)[A-Za-z]+:[A-Za-z][^}]*\}")
"""What means something in one program alone, such as ``${input:key}``, which asks for it."""


def problem_with(url: str) -> str:
    """Why no server is spoken to at this address; empty where nothing speaks against it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        return f"cannot be reached at {url}: {problem}"
    if parts.scheme not in ("http", "https") or not host:
        return f"has no web address: {url}"
    if parts.scheme == "http" and not is_loopback(url):
        return (
            f"is at an http: address on another machine ({host}), whose traffic anybody on the way can read and change"
        )
    return ""


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine, by its spelling."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host in _LOCAL_NAMES or host.endswith(".localhost") or _is_loopback(host)


async def public_address(host: str, port: int) -> str:
    """One address of a host that a server named, to be connected to as it is.

    Raises:
        OSError: it is not known, or one of its addresses is not public.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not _is_public(ipaddress.ip_address(address.partition("%")[0])):
            raise OSError(f"{host} is {address}, which is not a public address")
    return addresses[0]


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it leads to the world outside, also where it carries an older address in itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF).is_global
        carried = address.ipv4_mapped or address.sixtofour
        if carried is not None:
            return carried.is_global
    return address.is_global and not address.is_multicast


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class DeclaredServer:
    """One server as it is written. Its keys are looked up when it is started, and no earlier."""

    written: ToolServer
    """With ``${NAME}`` where the file has it."""
    key_variable: str = ""
    """Of the key that is sent to it; empty for none."""
    key_header: str = ""
    key_format: str = ""
    of_project: bool = False
    """Whether the folder brings it, and not the user."""

    @property
    def name(self) -> str:
        return self.written.name

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables whose values it gets."""
        match self.written.at:
            case ServerProgram(argv=argv, env=env, cwd=cwd):
                texts: Iterable[str] = (*argv, *env.values(), cwd)
            case ServerAddress(url=url, headers=headers):
                texts = (url, *headers.values())
        return tuple(dict.fromkeys((*variable_names(texts), *filter(None, (self.key_variable,)))))

    def filled(self, environ: Mapping[str, str]) -> ToolServer:
        """The server with the values in place.

        Raises:
            ConfigError: a variable is not set, or the address is none; the next step is in it.
        """
        match self.written.at:
            case ServerProgram() as program:
                at: ServerProgram | ServerAddress = replace(
                    program,
                    argv=tuple(self._filled_value(word, environ) for word in program.argv),
                    env={name: self._filled_value(value, environ) for name, value in program.env.items()},
                    cwd=self._filled_value(program.cwd, environ),
                )
            case ServerAddress() as address:
                headers = {name: self._filled_value(value, environ) for name, value in address.headers.items()}
                at = ServerAddress(self._filled_value(address.url, environ), headers | self._key_header(environ))
                if urlsplit(at.url).scheme not in ("http", "https") or not urlsplit(at.url).hostname:
                    raise ConfigError(
                        f"{self.written.origin}: the MCP server {self.name} requires a url with http or https."
                    )
        return self.written._replace(at=at)

    def secrets(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What it gets that nobody may read, by what it is called."""
        try:
            at = self.filled(environ).at
        except ConfigError:
            return {}
        given = at.env if isinstance(at, ServerProgram) else at.headers
        hidden = {name: value for name, value in given.items() if is_secret_name(name) or name.lower() in _CREDENTIALS}
        # A header is a word for its kind and the key; the key alone may be met elsewhere.
        bare = {f"{name} of {self.name}": value.rpartition(" ")[2] for name, value in hidden.items()}
        return bare | {f"{name} for {self.name}": value for name, value in hidden.items()}

    def _key_header(self, environ: Mapping[str, str]) -> dict[str, str]:
        if not self.key_variable:
            return {}
        key = find_api_key(self.key_variable, environ)
        if not key:
            raise ConfigError(
                f"{self.written.origin}: the MCP server {self.name} requires a key, and the variable "
                f"{self.key_variable} is not set. Set it, or write it into .env beside your settings."
            )
        return {self.key_header: self.key_format.replace("{token}", key)}

    def _filled_value(self, text: str, environ: Mapping[str, str]) -> str:
        try:
            return expand_variables(text, environ)
        except ConfigError as error:
            raise ConfigError(f"{self.written.origin}: the MCP server {self.name}: {error}.") from None


@dataclass(frozen=True)
class DeclaredServers:
    """All of them."""

    servers: tuple[DeclaredServer, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences for the user on those that cannot be used."""


def mcp_servers(reading: SettingsReading) -> DeclaredServers:
    """The servers that are declared, those that are switched off among them; nothing is started or opened."""
    servers: dict[str, DeclaredServer] = {}
    problems: list[str] = []
    if not reading.settings.enable_mcp:
        return DeclaredServers((), ())
    nodes = reading.tree.table.get("mcp_servers")
    origins = [node.origin for node in nodes.items] if nodes is not None else []
    for entry, origin in zip(reading.settings.mcp_servers, origins, strict=False):
        if isinstance(entry, McpOther):
            problems.append(_not_spoken(entry, origin))
            continue
        one = _declare_server(entry, origin)
        if not entry.name:
            one = replace(one, written=one.written._replace(name=_made_name(one.written.at, servers)))
        other = servers.get(one.name)
        if other is None:
            servers[one.name] = one
        elif entry.name or other.written.at != one.written.at:
            first = other.written.origin
            problems.append(f"{origin}: an MCP server is named {one.name} already, in {first}; this one is left out.")
    return DeclaredServers(tuple(servers.values()), tuple(problems))


def _declare_server(entry: McpStdio | McpHttp, origin: SettingOrigin) -> DeclaredServer:
    if isinstance(entry, McpStdio):
        at: ServerProgram | ServerAddress = ServerProgram(
            entry.argv, dict(entry.env), _working_folder(entry.cwd, origin)
        )
    else:
        at = ServerAddress(entry.url, dict(entry.headers))
    server = ToolServer(
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
        return DeclaredServer(server, of_project=of_project)
    return DeclaredServer(server, entry.api_key_env, entry.api_key_header, entry.api_key_format, of_project)


def _working_folder(cwd: str, origin: SettingOrigin) -> str:
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
    return _NOT_IN_NAMES.sub("_", name).strip("_") or f"server_{_short_hash(name)}"


def _made_name(at: ServerProgram | ServerAddress, taken: Mapping[str, DeclaredServer]) -> str:
    """A name for a server without one; a second one of the same host gets a longer name."""
    name = anonymous_name(at)
    if isinstance(at, ServerAddress) and name in taken and taken[name].written.at != at:
        return f"{name}_{_short_hash(at.url)}"
    return name


def _short_hash(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def _not_spoken(entry: McpOther, origin: SettingOrigin) -> str:
    name = f" {entry.name}" if entry.name else ""
    if entry.transport == _SSE:
        why = "speaks the older transport sse, which is no longer used; most servers offer http under another address"
    else:
        why = f"has the transport {entry.transport!r}; there is stdio, http and streamable-http"
    return f"{origin}: the MCP server{name} is left out: it {why}."


def add_server(entry: Entry, environ: Mapping[str, str]) -> Path:
    """Write a server that has a name; gives the file.

    Raises:
        ConfigError: the file is no TOML, or cannot be written; nothing was changed.
    """
    with changed_config(environ) as (path, document):
        put_entry(document, _KEY, entry, ("name",))
    return path


def remove_server(name: str, environ: Mapping[str, str]) -> Path:
    """Take a server out; gives the file.

    Raises:
        ConfigError: it is not in the user's file, or that cannot be written; nothing was changed.
    """
    with changed_config(environ) as (path, document):
        entries, place = _find_server(document, name, path)
        del entries[place]
        if not entries:
            del document[_KEY]
    return path


def switch_server(name: str, environ: Mapping[str, str], *, on: bool) -> Path:
    """Switch a server on or off; gives the file.

    Raises:
        ConfigError: it is not in the user's file, or that cannot be written; nothing was changed.
    """
    with changed_config(environ) as (path, document):
        entries, place = _find_server(document, name, path)
        if on:
            entries[place].pop("disabled", None)
        else:
            entries[place]["disabled"] = True
    return path


def _find_server(document: Any, name: str, path: Path) -> tuple[Any, int]:
    """The list of servers and the place in it."""
    entries = document.get(_KEY, [])
    for place, entry in enumerate(entries):
        if clean_name(str(entry.get("name", ""))) == name:
            return entries, place
    raise ConfigError(f"{path} names no MCP server {name}. %vibe mcp says where each is declared; change it there.")


def variable_names(texts: Iterable[str]) -> list[str]:
    """The variables in some texts, each once."""
    return list(dict.fromkeys(match["name"] for text in texts for match in _VARIABLE.finditer(text)))


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """The text with the values in it.

    Raises:
        ConfigError: a variable is not set, and the text says no value for that; or it is no variable.
    """
    if foreign := _FOREIGN.search(text):
        raise ConfigError(
            f"{foreign[0]} is a variable of another program; write ${{NAME}}, and set it in .env beside your settings"
        )

    def value(match: re.Match[str]) -> str:
        found = environ.get(match["name"]) or match["otherwise"]
        if found is None:
            raise ConfigError(f"the variable {match['name']} is not set")
        return found

    return _VARIABLE.sub(value, text)
