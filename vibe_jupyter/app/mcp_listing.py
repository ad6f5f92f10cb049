"""What `%vibe mcp` and `%vibe mcp tools` print."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from vibe_jupyter.app.mcp_plan import Plan, Planned
from vibe_jupyter.policy.accepted_servers import visible
from vibe_jupyter.policy.tool_pins import ToolPins
from vibe_jupyter.tools.mcp.connection import Connection, State
from vibe_jupyter.tools.mcp.names import published
from vibe_jupyter.tools.mcp.server import Program
from vibe_jupyter.tools.mcp.servers import Servers
from vibe_jupyter.tools.mcp.toolset import MCPTools
from vibe_jupyter.ui.text import one_line, plural, readable

_WITHOUT: Final[Mapping[State, str]] = {
    "stopped": "not started yet; it starts with the next prompt",
    "starting": "starting",
    "ready": "it has no tools",
    "failed": "failed; %vibe mcp says why",
}
"""What is said of a server that lists no tools."""
_LONG: Final = 100
"""Characters of one line about a tool."""
NONE: Final = (
    "No MCP server is declared. %vibe mcp add NAME COMMAND… declares a program, %vibe mcp add NAME URL a server "
    "elsewhere; a project's .mcp.json is read when you trust its folder."
)


def server_table(plan: Plan, servers: Servers, pins: ToolPins) -> str:
    """A line for each server, and below it what is wrong with it."""
    rows = [(one, _state(one, servers.get(one.name))) for one in plan.servers]
    names = max((len(one.name) for one, _ in rows), default=0)
    states = max((len(state) for _, state in rows), default=0)
    lines: list[str] = []
    for one, state in rows:
        lines.append(f"{one.name:<{names}}  {state:<{states}}  {_place(one)}  # {visible(one.declared.written.origin)}")
        lines += [f"  {line}" for line in _words(one, servers.get(one.name), pins)]
    told = [problem for problem in plan.problems if problem not in {one.problem for one in plan.servers}]
    return "\n".join([*(lines or [NONE]), *(f"! {problem}" for problem in told)])


def tool_table(plan: Plan, servers: Servers, pins: ToolPins, tools: MCPTools, *, only: str = "") -> str:
    """A line for each tool, below the name of its server."""
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
            lines += [f"  {published(one.name, tool)}" for tool in known]
            continue
        lines.append(f"{one.name}: {plural(len(listed), 'tool')}")
        for tool in listed:
            name = published(one.name, tool.name)
            note = "" if name in offered else _why_not(pins.state(one.name, tool), is_named=name in named)
            lines.append(f"  {name}{note}  {readable(one_line(tool.description, _LONG))}".rstrip())
    about = f"MCP server {only} " if only else ""
    lines += [f"! {readable(one_line(problem))}" for problem in tools.directory.left_out() if about in problem]
    return "\n".join(lines) or (NONE if not plan.servers else "No server is in use. %vibe mcp says why.")


def _why_not(state: str, *, is_named: bool) -> str:
    if state == "changed":
        return " (changed since you accepted it, not offered)"
    return " (left out by your settings)" if is_named else " (left out, see below)"


def _state(one: Planned, connection: Connection | None) -> str:
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
                return f"ready, {plural(len(connection.tools), 'tool')}"
            return connection.state


def _words(one: Planned, connection: Connection | None, pins: ToolPins) -> Iterator[str]:
    if one.problem:
        yield one.problem
    if one.standing in ("unknown", "refused"):
        yield f"%vibe mcp accept {one.name} shows it and asks"
    if one.standing == "disabled":
        yield f"%vibe mcp on {one.name} switches it on"
    if connection is None or one.standing != "accepted":
        return
    if connection.state == "failed":
        yield from map(readable, connection.error.splitlines())
    changed = [tool.name for tool in connection.tools if pins.state(one.name, tool) == "changed"]
    if changed:
        yield f"changed since you accepted it, not offered: {_names(changed)}; %vibe mcp accept {one.name} shows it"


def _names(names: Sequence[str]) -> str:
    return ", ".join(readable(one_line(name)) for name in names)


def _place(one: Planned) -> str:
    """The program without its arguments, which may hold keys; or the address without what may."""
    at = one.declared.written.at
    if isinstance(at, Program):
        program, *arguments = at.argv
        return visible(program) + (" …" if arguments else "")
    return visible(at.url.partition("?")[0].rpartition("@")[2] or at.url)
