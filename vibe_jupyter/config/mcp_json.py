"""``.mcp.json``: servers as other programs keep them for a project. Read as a layer like the project's own settings.

Only this file of a project is read. Each program keeps a person's own servers in a place of its own; here that is
``~/.vibe/config.toml``.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from vibe_jupyter.config.mcp_servers import AnyMcpServer
from vibe_jupyter.config.node import Node, Origin, node_of
from vibe_jupyter.config.problems import said

FILE_NAME: Final = ".mcp.json"
_KEPT: Final = (
    *("command", "args", "env", "cwd", "url", "headers", "disabled"),
    *("startup_timeout_sec", "tool_timeout_sec"),
)
"""What means the same here. Whatever else such files hold, nothing of it may allow anything."""
_PLACES: Final = ("${workspaceFolder}", "${workspaceRoot}", "${CLAUDE_PROJECT_DIR}")
"""What some programs call the folder that the file is in."""
_TRANSPORTS: Final[Mapping[str, str]] = {"streamableHttp": "streamable-http", "streamable_http": "streamable-http"}
_ENTRY: Final[TypeAdapter[AnyMcpServer]] = TypeAdapter(AnyMcpServer)


def json_layer(text: str, path: Path) -> tuple[Node, list[str]]:
    """The servers of such a file, and what was left out of it, in words: it belongs to others, so it stops nothing."""
    origin = Origin("project", path)
    problems: list[str] = []
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Node({}, origin), [f"{path} is not JSON: {error}. Its servers are left out."]
    servers = value.get("mcpServers", value.get("servers")) if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        return Node({}, origin), [f"{path} has no table mcpServers; nothing of it is used."]
    entries = list(_entries(servers, path, problems))
    return Node({"mcp_servers": node_of(cast("list[JsonValue]", entries), origin)} if entries else {}, origin), problems


def _entries(servers: dict[str, JsonValue], path: Path, problems: list[str]) -> Iterator[dict[str, JsonValue]]:
    for name, written in servers.items():
        if not isinstance(written, dict):
            problems.append(f"{path}: mcpServers.{name}: expected a table. This server is left out.")
            continue
        entry = cast("dict[str, JsonValue]", _placed(_entry(name, written), str(path.parent)))
        try:
            _ENTRY.validate_json(json.dumps(entry), strict=True)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            key = ".".join(map(str, problem["loc"][1:]))
            problems.append(f"{path}: mcpServers.{name}.{key}: {said(problem)}. This server is left out.")
            continue
        yield entry


def _placed(value: JsonValue, folder: str) -> JsonValue:
    """The same with the folder in place."""
    if isinstance(value, dict):
        return {key: _placed(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_placed(item, folder) for item in value]
    if isinstance(value, str):
        for name in _PLACES:
            value = value.replace(name, folder)
    return value


def _entry(name: str, written: dict[str, JsonValue]) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"name": name} | {key: written[key] for key in _KEPT if key in written}
    if isinstance(command := entry.get("command"), str):
        entry["command"] = [command]  # the name of a program, which may hold blanks; never split
    kind = written.get("type", written.get("transport"))
    if kind is not None:
        entry["transport"] = _TRANSPORTS.get(str(kind), str(kind))
    return entry
