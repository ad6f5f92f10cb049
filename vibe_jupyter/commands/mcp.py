"""`%vibe mcp …`: list MCP servers, their tools and logs, and change them."""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.app.mcp import McpServers, unused_server
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.config.mcp_servers import MOST_PATIENCE
from vibe_jupyter.config.project import FILE_NAME
from vibe_jupyter.config.tool_servers import ServerProgram
from vibe_jupyter.errors import ConfigError, ServerError
from vibe_jupyter.mcp.acceptance import PlannedServer, ServerPlan, visible_text
from vibe_jupyter.mcp.connection import ServerConnection, ServerPool, State
from vibe_jupyter.mcp.declared import add_server, remove_server, switch_server
from vibe_jupyter.mcp.pins import ToolPins
from vibe_jupyter.mcp.tool_names import RemoteTool, published_name
from vibe_jupyter.mcp.toolset import McpToolset
from vibe_jupyter.options import SERVER_ACTIONS
from vibe_jupyter.ui.text import one_line, plural_text, readable_text

LOG_LINES: Final = 200  # lines of a log that are shown

# Notes on servers that list no tools.
_WITHOUT: Final[Mapping[State, str]] = {
    "stopped": "not started yet; it starts with the next prompt",
    "starting": "starting",
    "ready": "it has no tools",
    "failed": "failed; %vibe mcp says why",
}
_LONG: Final = 100  # characters of a tool's description
NONE: Final = (
    "No MCP server is declared. %vibe mcp add NAME COMMAND… declares a program, %vibe mcp add NAME URL a server "
    "elsewhere; a project's .mcp.json is read when you trust its folder."
)

USAGE: Final = (
    "%vibe mcp add NAME [--env NAME[=VALUE]] [--cwd FOLDER] COMMAND… for a program, or "
    "%vibe mcp add NAME [--header NAME=VALUE] [--key VARIABLE] URL for a remote server; both take --startup SECONDS"
)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_URL: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# `--startup` is the number of seconds the server may take to start.
_OPTIONS: Final = ("--env", "--header", "--cwd", "--key", "--startup")
# Accepted because other programs require it; here the transport follows from the other arguments.
_TRANSPORT: Final = "--transport"
_SAME: Final[Mapping[str, str]] = {"-e": "--env", "-H": "--header", "-t": _TRANSPORT}
# Names of transports, keyed by whether the server has a URL.
_SPOKEN: Final = {True: ("http", "streamable-http"), False: ("stdio",)}


def mcp_command(
    line: str, mcp: McpServers, setup: KernelSettings, *, say: Callable[[str], None], is_agreed: bool = False
) -> str:
    """Run a `%vibe mcp` command. Returns the message to print.

    Args:
        line: The arguments after `%vibe mcp`; quotes group words.
        mcp: The servers.
        setup: The settings.
        say: Prints progress of slow commands.
        is_agreed: Whether the user has already agreed to what `accept` would ask.

    Raises:
        ConfigError: No such command or server, or an invalid setting.
        NotebookError: The user interrupted a card.
    """
    commands = _Commands(mcp, setup, say)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"Cannot parse the command: {error}. Close every quote, then try again.") from None
    match words:
        case []:
            return commands.listing()
        case ["tools", *names] if len(names) < 2:
            return commands.tools(*names)
        case ["add", *rest]:
            return commands.add(rest)
        case ["remove", name]:
            return commands.remove(name)
        case [("on" | "off") as how, name]:
            return commands.switch(name, on=how == "on")
        case ["restart", name]:
            return commands.restart(name)
        case ["log", name]:
            return commands.log(name)
        case ["accept", name]:
            return commands.agree(name) if is_agreed else commands.accept(name)
        case _:
            wants = " It requires the name of a server." if words[0] in SERVER_ACTIONS else ""
            raise ConfigError(
                f"There is no command %vibe mcp {' '.join(words)}.{wants} There is %vibe mcp, and with it: "
                f"{', '.join(SERVER_ACTIONS)}. To send it as a prompt, write it below %%vibe."
            )


class _Commands:
    def __init__(self, mcp: McpServers, setup: KernelSettings, say: Callable[[str], None]) -> None:
        self._mcp = mcp
        self._setup = setup
        self._say = say
        self._redact = setup.strike()

    def listing(self) -> str:
        reading = self._setup.read()
        table = server_table(self._mcp.look(reading), self._mcp.servers, self._mcp.pins)
        file = str(self._setup.project.folder / FILE_NAME)
        left_out = (f"! {warning}" for warning in reading.warnings if warning.startswith(file))
        return self._redact("\n".join([table, *left_out]))

    def tools(self, name: str = "") -> str:
        if name:
            self._find_planned(name)
        return tool_table(self._mcp.look(), self._mcp.servers, self._mcp.pins, self._mcp.toolset, only=name)

    def add(self, words: Sequence[str]) -> str:
        """Write the entry to the settings. Typing the exact command counts as accepting the server."""
        entry = parse_server_entry(words)
        name = str(entry["name"])
        there = self._mcp.look().find(name)
        if there is not None:
            raise ConfigError(
                f"There is an MCP server {name} already, in {there.declared.written.origin}. Choose another name, or "
                f"remove that one: %vibe mcp remove {name}."
            )
        path = add_server(entry, self._setup.environ)
        added = self._find_planned(name)
        if added.identity is not None:
            self._mcp.approval.remember([added.identity], accepted=True)
            self._mcp.look()
        problem = f"\n{added.problem}" if added.problem else ""
        return (
            f"Added {name} to {path}. It starts with the next prompt; %vibe mcp restart {name} starts it now.{problem}"
        )

    def remove(self, name: str) -> str:
        """Remove the entry and its sign-in tokens, because a later server of this name may use another account."""
        one = self._find_planned(name)
        path = remove_server(name, self._setup.environ)
        self._close_others()
        if one.filled is not None:
            self._mcp.requests.sign_ins.forget(one.filled)
        return f"Removed {name} from {path}."

    def switch(self, name: str, *, on: bool) -> str:
        self._find_planned(name)
        path = switch_server(name, self._setup.environ, on=on)
        self._close_others()
        return f"{name} is {'on' if on else 'off'} now; saved in {path}."

    def restart(self, name: str) -> str:
        one = self._find_usable(name)
        self._say(f"Starting {name}…")
        try:
            self._mcp.wait(_restart_server(self._mcp, name))
        except ServerError as error:
            raise ConfigError(self._redact(str(error))) from error
        tools = _tools_of(self._mcp, one)
        settled = self._mcp.pins.settle(name, tools)
        new = f" New since you accepted it: {_tool_names_text(settled.new)}." if settled.new else ""
        changed = f" Changed, and so not offered: {_tool_names_text(settled.changed)}." if settled.changed else ""
        return f"{name} is ready: {plural_text(len(tools), 'tool')}.{new}{changed}"

    def log(self, name: str) -> str:
        self._find_planned(name)
        lines = self._mcp.wait(_log_lines(self._mcp, name))
        if not lines:
            return f"{name} has written nothing to its log."
        left_out = len(lines) - LOG_LINES
        head = [f"… {left_out:,} earlier lines"] if left_out > 0 else []
        return "\n".join([*head, *map(readable_text, self._redact("\n".join(lines)).split("\n")[-LOG_LINES:])])

    def accept(self, name: str) -> str:
        """Ask on a card to accept the server, or its changed tools."""
        one = self._find_planned(name)
        if one.standing in ("unknown", "refused"):
            _check_somebody_is_here(self._mcp, name)
            self._mcp.approval.servers([one])
            self._mcp.look()
            return ""
        self._find_usable(name)
        tools = _tools_of(self._mcp, one)
        diff = self._mcp.pins.change(name, tools)
        if not diff:
            return _nothing_waits(name)
        _check_somebody_is_here(self._mcp, name)
        if self._mcp.approval.change(name, diff):
            self._mcp.pins.accept(name, tools)
        self._mcp.watch.forget(name)
        return ""

    def agree(self, name: str) -> str:
        """Accept the server, or its changed tools, without a card: the caller has been shown what it accepts."""
        one = self._find_planned(name)
        if one.standing in ("unknown", "refused") and one.identity is not None:
            self._mcp.approval.remember([one.identity], accepted=True)
            self._mcp.look()
            return f"{name} is accepted as shown."
        tools = _tools_of(self._mcp, self._find_usable(name))
        diff = self._mcp.pins.change(name, tools)
        if not diff:
            return _nothing_waits(name)
        self._mcp.approval.forget_grants(name)
        self._mcp.pins.accept(name, tools)
        self._mcp.watch.forget(name)
        return f"{self._redact(diff)}\nThe changed tools of {name} are accepted as shown."

    def _find_planned(self, name: str) -> PlannedServer:
        return find_server(self._mcp, name)

    def _find_usable(self, name: str) -> PlannedServer:
        one = self._find_planned(name)
        if unused := unused_server(one):
            raise ConfigError(unused)
        return one

    def _close_others(self) -> None:
        self._mcp.look()
        self._mcp.wait(_wait_until_declared(self._mcp))


def find_server(mcp: McpServers, name: str) -> PlannedServer:
    """Return the declared server of this name.

    Raises:
        ConfigError: It isn't declared, or a setting is invalid.
    """
    plan = mcp.look()
    found = plan.find(name)
    if found is None:
        known = ", ".join(one.name for one in plan.servers) or "none"
        raise ConfigError(f"There is no MCP server {name}. Declared: {known}. %vibe mcp add declares one.")
    return found


def _nothing_waits(name: str) -> str:
    return f"Nothing of {name} waits for you: it is accepted, and its tools are as you accepted them."


def _check_somebody_is_here(mcp: McpServers, name: str) -> None:
    if not mcp.attended():
        raise ConfigError(f"Nobody can answer here, so {name} stays as it is. Run it where you see its card.")


def _tools_of(mcp: McpServers, one: PlannedServer) -> Sequence[RemoteTool]:
    connection = mcp.servers.get(one.name)
    return connection.tools if connection is not None else ()


def _tool_names_text(tools: Sequence[str]) -> str:
    return readable_text(one_line(", ".join(tools)))


async def _restart_server(mcp: McpServers, name: str) -> None:
    mcp.declare()
    mcp.requests.sign_ins.ask_again(name)
    await mcp.servers.restart(name)


async def _wait_until_declared(mcp: McpServers) -> None:
    mcp.declare()
    await mcp.servers.start(())


async def _log_lines(mcp: McpServers, name: str) -> list[str]:
    connection = mcp.servers.get(name)
    return connection.log_lines() if connection is not None else []


def server_table(plan: ServerPlan, servers: ServerPool, pins: ToolPins) -> str:
    """List the servers, each followed by its problems."""
    rows = [(one, _server_state(one, servers.get(one.name))) for one in plan.servers]
    names = max((len(one.name) for one, _ in rows), default=0)
    states = max((len(state) for _, state in rows), default=0)
    lines: list[str] = []
    for one, state in rows:
        lines.append(
            f"{one.name:<{names}}  {state:<{states}}  {_place_text(one)}  # {visible_text(one.declared.written.origin)}"
        )
        lines += [f"  {line}" for line in _server_remarks(one, servers.get(one.name), pins)]
    told = [problem for problem in plan.problems if problem not in {one.problem for one in plan.servers}]
    return "\n".join([*(lines or [NONE]), *(f"! {problem}" for problem in told)])


class ServerRow(NamedTuple):
    """A server as listed in the side panel."""

    name: str
    state: str
    action: str  # the `%vibe mcp` command that resolves the problem, or ""
    why: str  # the problem in one line, or ""


def server_rows(mcp: McpServers) -> list[ServerRow]:
    """Return a row for each declared server.

    Raises:
        ConfigError: A setting is invalid.
    """
    found = [(one, mcp.servers.get(one.name)) for one in mcp.look().servers]
    return [
        ServerRow(
            name=one.name,
            state=_server_state(one, it),
            action=_next_action(one, it, mcp.pins),
            why=one_line(next(_server_faults(one, it, mcp.pins), "")),
        )
        for one, it in found
    ]


def _next_action(one: PlannedServer, connection: ServerConnection | None, pins: ToolPins) -> str:
    match one.standing:
        case "disabled":
            return "on"
        case "unknown" | "refused":
            return "accept"
        case "incomplete":
            return ""
        case "accepted":
            if connection is None or connection.state in ("stopped", "failed"):
                return "restart"
            changed = any(pins.state(one.name, tool) == "changed" for tool in connection.tools)
            return "accept" if changed else "off" if connection.state == "ready" else ""


def tool_table(plan: ServerPlan, servers: ServerPool, pins: ToolPins, tools: McpToolset, *, only: str = "") -> str:
    """List the tools below the names of their servers."""
    offered = {one.name for one in tools.offered()}
    named = {one.name for one in tools.directory.published()}
    lines: list[str] = []
    for one in plan.at("accepted"):
        connection = servers.get(one.name)
        if only not in ("", one.name):
            continue
        listed = connection.tools if connection is not None else ()
        if not listed:
            known = pins.names(one.name)
            lines.append(f"{one.name}: {_WITHOUT[connection.state if connection is not None else 'stopped']}")
            lines += [f"  {published_name(one.name, tool)}" for tool in known]
            continue
        lines.append(f"{one.name}: {plural_text(len(listed), 'tool')}")
        for tool in listed:
            name = published_name(one.name, tool.name)
            note = "" if name in offered else _why_not(pins.state(one.name, tool), is_named=name in named)
            lines.append(f"  {name}{note}  {readable_text(one_line(tool.description, _LONG))}".rstrip())
    about = f"MCP server {only} " if only else ""
    lines += [f"! {readable_text(one_line(problem))}" for problem in tools.directory.left_out() if about in problem]
    return "\n".join(lines) or (NONE if not plan.servers else "No server is in use. %vibe mcp says why.")


def _why_not(state: str, *, is_named: bool) -> str:
    if state == "changed":
        return " (changed since you accepted it, not offered)"
    return " (left out by your settings)" if is_named else " (left out, see below)"


def _server_state(one: PlannedServer, connection: ServerConnection | None) -> str:
    match one.standing:
        case "disabled":
            return "off"
        case "unknown":
            return "not accepted yet"
        case "refused":
            return "refused"
        case "incomplete":
            return "incomplete"
        case "accepted":
            if connection is None or connection.state == "stopped":
                return "not started yet"
            if connection.state == "ready":
                return f"ready, {plural_text(len(connection.tools), 'tool')}"
            return connection.state


def _server_remarks(one: PlannedServer, connection: ServerConnection | None, pins: ToolPins) -> Iterator[str]:
    yield from _server_faults(one, connection, pins)
    if one.standing in ("unknown", "refused"):
        yield f"%vibe mcp accept {one.name} shows it and asks"
    if one.standing == "disabled":
        yield f"%vibe mcp on {one.name} switches it on"


def _server_faults(one: PlannedServer, connection: ServerConnection | None, pins: ToolPins) -> Iterator[str]:
    if one.problem:
        yield one.problem
    if connection is None or one.standing != "accepted":
        return
    if connection.state == "failed":
        yield from map(readable_text, connection.error.splitlines())
    changed = [tool.name for tool in connection.tools if pins.state(one.name, tool) == "changed"]
    if changed:
        yield f"changed since you accepted it, not offered: {_name_list(changed)}; %vibe mcp accept {one.name} shows it"


def _name_list(names: Sequence[str]) -> str:
    return ", ".join(readable_text(one_line(name)) for name in names)


def _place_text(one: PlannedServer) -> str:
    """Return the program without its arguments, or the URL without credentials and query: these may contain keys."""
    at = one.declared.written.at
    if isinstance(at, ServerProgram):
        program, *arguments = at.argv
        return visible_text(program) + (" …" if arguments else "")
    return visible_text(at.url.partition("?")[0].rpartition("@")[2] or at.url)


def parse_server_entry(words: Sequence[str]) -> dict[str, JsonValue]:
    """Parse the arguments of `%vibe mcp add`: a name, options, and a command or URL.

    Raises:
        ConfigError: The arguments are invalid; the message shows the usage.
    """
    options: dict[str, list[str]] = {option: [] for option in (*_OPTIONS, _TRANSPORT)}
    rest = _take_options(list(words), options)  # other programs expect options before the name
    name = rest.pop(0) if rest else ""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"A server's name has letters, digits, _ and -, not {name!r}. {USAGE}.")
    rest = _take_options(rest, options)
    if rest and rest[0] == "--":
        del rest[0]
    if not rest:
        raise ConfigError(f"Neither a command nor an address is given. {USAGE}.")
    is_remote = _ADDRESS.fullmatch(rest[0]) is not None
    if is_remote:  # other programs accept options after the URL
        rest = [rest[0], *_take_options(rest[1:], options)]
    if is_remote and (len(rest) > 1 or not _URL.fullmatch(rest[0])):
        raise ConfigError(f"A remote server requires one http or https address, not {' '.join(rest)!r}. {USAGE}.")
    _check_transport(options.pop(_TRANSPORT), is_remote=is_remote)
    entry = _remote_entry(name, rest[0], options) if is_remote else _program_entry(name, _command_words(rest), options)
    if options["--startup"]:
        entry["startup_timeout_sec"] = _parse_seconds(options["--startup"][-1])
    return entry


def _take_options(words: list[str], options: dict[str, list[str]]) -> list[str]:
    """Parse leading options into `options`. Returns the remaining words."""
    while words and words[0].startswith("-") and words[0] != "--":
        option, given, value = words.pop(0).partition("=")
        option = _SAME.get(option, option)
        if option not in options:
            raise ConfigError(f"There is no option {option}. The options are: {', '.join(_OPTIONS)}. {USAGE}.")
        if not given and not words:
            raise ConfigError(f"The option {option} requires a value. {USAGE}.")
        options[option].append(value if given else words.pop(0))
    return words


def _check_transport(said: list[str], *, is_remote: bool) -> None:
    for transport in said:
        if transport not in _SPOKEN[is_remote]:
            what = "an address" if is_remote else "a command"
            raise ConfigError(f"The transport {transport} is not that of {what}; omit --transport. {USAGE}.")


def _command_words(words: list[str]) -> list[str]:
    """Split a command that was quoted as a whole, unless a program has that name."""
    if len(words) > 1 or Path(words[0]).expanduser().exists():
        return words
    try:
        return shlex.split(words[0]) or words
    except ValueError:
        return words


def _program_entry(name: str, command: list[str], options: dict[str, list[str]]) -> dict[str, JsonValue]:
    _refuse_options(options, ("--header", "--key"), "a program")
    expanded: list[JsonValue] = [
        os.path.expanduser(word) if word.startswith("~/") else word for word in command
    ]  # like a shell
    entry: dict[str, JsonValue] = {"name": name, "transport": "stdio", "command": expanded}
    if options["--env"]:
        entry["env"] = {key: value for key, value in map(_variable_pair, options["--env"])}
    if options["--cwd"]:
        entry["cwd"] = options["--cwd"][-1]
    return entry


def _remote_entry(name: str, url: str, options: dict[str, list[str]]) -> dict[str, JsonValue]:
    _refuse_options(options, ("--env", "--cwd"), "a remote server")
    entry: dict[str, JsonValue] = {"name": name, "transport": "http", "url": url}
    if options["--header"]:
        entry["headers"] = {key: value for key, value in map(_header_pair, options["--header"])}
    if options["--key"]:
        entry["api_key_env"] = options["--key"][-1]
    return entry


def _refuse_options(options: dict[str, list[str]], names: tuple[str, ...], what: str) -> None:
    for name in names:
        if options[name]:
            raise ConfigError(f"The option {name} does not apply to {what}. {USAGE}.")


def _variable_pair(text: str) -> tuple[str, str]:
    """Parse a variable for the program. A name without a value stands for the kernel's own value."""
    name, given, value = text.partition("=")
    if not _VARIABLE.fullmatch(name):
        raise ConfigError(f"The option --env requires NAME or NAME=VALUE, not {name!r}. {USAGE}.")
    return name, value if given else f"${{{name}}}"


def _header_pair(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=" if ":" not in text.partition("=")[0] else ":")
    if not given or not name.strip():
        raise ConfigError(f"The option --header requires NAME=VALUE, not {name!r}. {USAGE}.")
    return name.strip(), value.strip()


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MOST_PATIENCE:
        raise ConfigError(f"The option --startup requires seconds, not {text!r}. {USAGE}.")
    return seconds
