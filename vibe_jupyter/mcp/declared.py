"""MCP servers in the settings, validated and named, and functions that edit the list."""

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
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: IPv4 addresses embedded in IPv6

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH: Final = 6  # characters of the hash in a name
_SSE: Final = "sse"
# Headers whose values are always secret
_CREDENTIALS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})

_KEY = "mcp_servers"

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")
# Variables of other programs, such as ``${input:key}``
_FOREIGN: Final = re.compile(r"\$\{(?!env:)[A-Za-z]+:[A-Za-z][^}]*\}")


def problem_with(url: str) -> str:
    """Return why this address must not be contacted, or "" if it may."""
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
    """Return whether a URL's host is spelled as a loopback address. The name is not resolved."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host in _LOCAL_NAMES or host.endswith(".localhost") or _is_loopback(host)


async def public_address(host: str, port: int) -> str:
    """Resolve a host that a server named, and return an address to connect to directly.

    Connecting to the checked address rather than the name rules out DNS rebinding.

    Raises:
        OSError: the host is unknown, or one of its addresses is not public.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not _is_public(ipaddress.ip_address(address.partition("%")[0])):
            raise OSError(f"{host} is {address}, which is not a public address")
    return addresses[0]


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address is publicly routable, including an IPv4 address embedded in an IPv6 one."""
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
    """A server as written in the settings. Keys are looked up when it is started."""

    written: ToolServer  # with ``${NAME}`` unexpanded
    key_variable: str = ""  # variable with the API key, or ""
    key_header: str = ""
    key_format: str = ""
    of_project: bool = False  # True if the project declares it rather than the user

    @property
    def name(self) -> str:
        return self.written.name

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables whose values the server receives."""
        match self.written.at:
            case ServerProgram(argv=argv, env=env, cwd=cwd):
                texts: Iterable[str] = (*argv, *env.values(), cwd)
            case ServerAddress(url=url, headers=headers):
                texts = (url, *headers.values())
        return tuple(dict.fromkeys((*variable_names(texts), *filter(None, (self.key_variable,)))))

    def filled(self, environ: Mapping[str, str]) -> ToolServer:
        """Return the server with variables expanded.

        Raises:
            ConfigError: a variable is not set, or the URL is invalid. The message includes the next step.
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
        """Return the secret values that the server receives, by label."""
        try:
            at = self.filled(environ).at
        except ConfigError:
            return {}
        given = at.env if isinstance(at, ServerProgram) else at.headers
        hidden = {name: value for name, value in given.items() if is_secret_name(name) or name.lower() in _CREDENTIALS}
        # A header value may be a scheme and a key; redact the bare key as well.
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
    """All declared servers."""

    servers: tuple[DeclaredServer, ...] = ()
    problems: tuple[str, ...] = ()  # sentences for the user about servers that can't be used


def mcp_servers(reading: SettingsReading) -> DeclaredServers:
    """Return the declared servers, including disabled ones. Starts and opens nothing."""
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
    """Return the working directory. Relative paths start at the folder that the settings file belongs to."""
    if not cwd or "${" in cwd or origin.path is None:
        return cwd
    beside = origin.path.parent
    base = beside.parent if origin.layer == "project" and beside.name == ".vibe" else beside
    return str(base / Path(cwd).expanduser())


def clean_name(name: str) -> str:
    """Replace characters that aren't allowed in tool names."""
    if not name:
        return ""
    return _NOT_IN_NAMES.sub("_", name).strip("_") or f"server_{_short_hash(name)}"


def _made_name(at: ServerProgram | ServerAddress, taken: Mapping[str, DeclaredServer]) -> str:
    """Name a server without a name. A second server on the same host gets a hash appended."""
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
    """Write a named server to the user's settings and return the file's path.

    Raises:
        ConfigError: the file is not valid TOML or cannot be written. Nothing was changed.
    """
    with changed_config(environ) as (path, document):
        put_entry(document, _KEY, entry, ("name",))
    return path


def remove_server(name: str, environ: Mapping[str, str]) -> Path:
    """Remove a server from the user's settings and return the file's path.

    Raises:
        ConfigError: the server is not in the user's file, or the file cannot be written. Nothing was changed.
    """
    with changed_config(environ) as (path, document):
        entries, place = _find_server(document, name, path)
        del entries[place]
        if not entries:
            del document[_KEY]
    return path


def switch_server(name: str, environ: Mapping[str, str], *, on: bool) -> Path:
    """Enable or disable a server and return the file's path.

    Raises:
        ConfigError: the server is not in the user's file, or the file cannot be written. Nothing was changed.
    """
    with changed_config(environ) as (path, document):
        entries, place = _find_server(document, name, path)
        if on:
            entries[place].pop("disabled", None)
        else:
            entries[place]["disabled"] = True
    return path


def _find_server(document: Any, name: str, path: Path) -> tuple[Any, int]:
    """Return the list of servers and the index of this one."""
    entries = document.get(_KEY, [])
    for place, entry in enumerate(entries):
        if clean_name(str(entry.get("name", ""))) == name:
            return entries, place
    raise ConfigError(f"{path} names no MCP server {name}. %vibe mcp says where each is declared; change it there.")


def variable_names(texts: Iterable[str]) -> list[str]:
    """Return the names of the variables used in these texts, without duplicates."""
    return list(dict.fromkeys(match["name"] for text in texts for match in _VARIABLE.finditer(text)))


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """Expand ``${NAME}``, ``${env:NAME}`` and ``${NAME:-default}``.

    Raises:
        ConfigError: a variable is not set and has no default, or belongs to another program.
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
