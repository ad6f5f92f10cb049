"""Project settings and `.mcp.json`. Until the folder is trusted they may only tighten permissions.

Of a project's MCP files only `.mcp.json` is read. Each program stores a user's own servers elsewhere; here that is
`~/.vibe/config.toml`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from vibe_jupyter.config.mcp_servers import AnyMcpServer
from vibe_jupyter.config.narrowing import NARROWING
from vibe_jupyter.config.settings import DEFAULT_SETTINGS, Settings
from vibe_jupyter.config.toml_file import SettingNode, SettingOrigin, make_node, parse_toml
from vibe_jupyter.config.validation import describe_problem, key_text, move_renamed_keys, validate_settings
from vibe_jupyter.errors import ConfigError

_TIGHTENING: Final = ("disabled_tools", "disabled_agents", "disabled_skills", "allowed_models")
_TIGHTNESS: Final[Mapping[object, int]] = {"always": 0, "ask": 1, "sandbox": 2, "never": 3}
# Tables and keys that a project can't set: they control which data leaves this machine, what runs without approval,
# what cards say about commands, which code describes variables, and which guards a non-interactive run may ignore.
USERS_TABLES: Final = (
    *("command_effects", "gateway", "ignored_guards", "privacy", "sandbox", "session_logging", "variables"),
)
_SHOWN: Final = 200  # characters shown of a value

FILE_NAME: Final = ".mcp.json"
# Keys with the same meaning here; any other key is dropped, since it must not grant anything.
_KEPT: Final = (
    *("command", "args", "env", "cwd", "url", "headers", "disabled"),
    *("startup_timeout_sec", "tool_timeout_sec"),
)
# Placeholders of other programs for the folder of the file.
_PLACES: Final = ("${workspaceFolder}", "${workspaceRoot}", "${CLAUDE_PROJECT_DIR}")
_TRANSPORTS: Final[Mapping[str, str]] = {"streamableHttp": "streamable-http", "streamable_http": "streamable-http"}
_ENTRY: Final[TypeAdapter[AnyMcpServer]] = TypeAdapter(AnyMcpServer, config=ConfigDict(defer_build=True))


class ProjectFile(NamedTuple):
    """Settings of a project as of the trust check."""

    path: Path
    text: str
    trusted: bool


def project_layer(file: ProjectFile, below: SettingNode) -> tuple[SettingNode, list[str]]:
    """Return the effective part of a project's settings over those `below`, and messages for the user.

    Raises:
        ConfigError: A trusted file is invalid. An untrusted one is left out, so that it can't prevent anything.
    """
    if file.trusted:
        layer, told = move_renamed_keys(parse_toml(file.text, file.path, "project"))
        return _without(layer, *USERS_TABLES), [*told, *_unused_tables(file, layer)]
    try:
        layer, _ = move_renamed_keys(parse_toml(file.text, file.path, "project"))
        unused, layer = _unused_tables(file, layer), _without(layer, *USERS_TABLES)
        kept = SettingNode(dict(_tightening_settings(layer, below)), layer.origin)
        validate_settings(kept)
    except (ConfigError, ValidationError):
        return SettingNode({}, below.origin), [f"{file.path} is wrong and was left out; the folder is not trusted."]
    left = [".".join(map(str, path)) for path, _ in _widening_settings(layer, kept)]
    if not left:
        return kept, unused
    names = ", ".join(dict.fromkeys(name.split(".")[0] if name.split(".")[0] != "tools" else name for name in left))
    return kept, [*unused, f"{file.path} is not trusted; ignored: {names}. %vibe trust shows it and asks."]


def written_layer(file: ProjectFile) -> SettingNode:
    """Return all of a project's settings, effective or not, or none if the file is invalid."""
    try:
        return move_renamed_keys(parse_toml(file.text, file.path, "project"))[0]
    except ConfigError:
        return SettingNode({}, SettingOrigin("project", file.path))


def _unused_tables(file: ProjectFile, layer: SettingNode) -> list[str]:
    found = [name for name in USERS_TABLES if name in layer.table]
    return [f"{file.path}: [{name}] is not used; only your file sets it." for name in found]


def list_demands(file: ProjectFile) -> list[str]:
    """List the settings that would take effect if the folder were trusted. Empty if all of them tighten permissions."""
    try:
        layer, _ = move_renamed_keys(parse_toml(file.text, file.path, "project"))
    except ConfigError as error:
        return [f"settings that cannot be read: {error}"]
    layer = _without(layer, *USERS_TABLES)
    kept = SettingNode(dict(_tightening_settings(layer, SettingNode({}, layer.origin))), layer.origin)
    return [
        f"{file.path.name}: {setting_line(key_text(path, layer), node)}"
        for path, node in _widening_settings(layer, kept)
    ]


def list_demanded_servers(file: ProjectFile) -> list[str]:
    """List the servers that a project's `.mcp.json` would start or connect to."""
    layer, problems = json_layer(file.text, file.path)
    lines = [f"{file.path.name}: {setting_line(key_text(path, layer), node)}" for path, node in layer.leaves() if path]
    return [*lines, *problems]


def named_paths(file: ProjectFile, *keys: Literal["agent_paths", "skill_paths", "tool_paths"]) -> list[str]:
    """Return further paths of agents, skills or tools in a project's settings; none if the file is invalid."""
    try:
        layer = parse_toml(file.text, file.path, "project")
    except ConfigError:
        return []
    named = [layer.table[key] for key in keys if key in layer.table]
    return [item.value for node in named for item in node.items if isinstance(item.value, str)]


def _without(layer: SettingNode, *keys: str) -> SettingNode:
    return SettingNode({name: node for name, node in layer.table.items() if name not in keys}, layer.origin)


def _tightening_settings(layer: SettingNode, below: SettingNode) -> Iterator[tuple[str, SettingNode]]:
    table = layer.table
    for key in _TIGHTENING:
        if key in table:
            yield key, table[key]
    for key, value in NARROWING.items():
        if key in table and table[key].value == value:
            yield key, table[key]
    turns = table.get("max_turns")
    if turns is not None and _is_less(turns, below.table.get("max_turns")):
        yield "max_turns", turns
    tools = {name: _tighter_tool(tool, below.at(("tools", name))) for name, tool in _tool_tables(layer).items()}
    if any(node.table for node in tools.values()):
        yield "tools", SettingNode({name: node for name, node in tools.items() if node.table}, layer.origin)


def _tighter_tool(tool: SettingNode, below: SettingNode) -> SettingNode:
    lists = ((key, tool.table.get(key)) for key in ("denylist", "sensitive_patterns"))
    kept = {key: node for key, node in lists if node is not None and node.value != []}  # an empty list adds nothing
    outside = tool.table.get("outside_workdir")
    if outside is not None and outside.value == "deny":
        kept["outside_workdir"] = outside
    level = tool.table.get("permission")
    if level is not None and isinstance(level.value, str):
        present = below.table.get("permission")
        # An invalid level in the user's own file is reported when all layers are validated.
        least = _TIGHTNESS.get(present.value, 1) if present is not None and isinstance(present.value, str) else 1
        if _TIGHTNESS.get(level.value, 0) >= max(1, least):
            kept["permission"] = level
    return SettingNode(kept, tool.origin)


def _tool_tables(layer: SettingNode) -> dict[str, SettingNode]:
    tools = layer.table.get("tools")
    return {} if tools is None else {name: tool for name, tool in tools.table.items() if tool.is_table}


def _is_less(turns: SettingNode, below: SettingNode | None) -> bool:
    limit = DEFAULT_SETTINGS.max_turns if below is None else below.value
    return isinstance(turns.value, int) and isinstance(limit, int) and 1 <= turns.value <= limit


def _widening_settings(layer: SettingNode, kept: SettingNode) -> Iterator[tuple[tuple[str | int, ...], SettingNode]]:
    tight = {path for path, _ in kept.leaves()}
    for path, node in layer.leaves():
        if path and path not in tight and path[0] in Settings.model_fields and not _is_empty(node):
            yield path, node


def _is_empty(node: SettingNode) -> bool:
    return (node.is_table or node.is_list) and not node.plain()


def setting_line(key: str, node: SettingNode) -> str:
    """Format a setting as a user would write it."""
    value = repr(node.plain())
    shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}… ({len(value):,} characters)"
    return f"{key if key.isprintable() else repr(key)} = {shown}"


def json_layer(text: str, path: Path) -> tuple[SettingNode, list[str]]:
    """Return the servers in a `.mcp.json`, and messages about entries left out.

    Invalid contents raise no error, because the file may be meant for other programs.
    """
    origin = SettingOrigin("project", path)
    problems: list[str] = []
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        return SettingNode({}, origin), [f"{path} is not JSON: {error}. Its servers are left out."]
    servers = value.get("mcpServers", value.get("servers")) if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        return SettingNode({}, origin), [f"{path} has no table mcpServers; it is ignored."]
    entries = list(_json_entries(servers, path, problems))
    return SettingNode(
        {"mcp_servers": make_node(cast("list[JsonValue]", entries), origin)} if entries else {}, origin
    ), problems


def _json_entries(servers: dict[str, JsonValue], path: Path, problems: list[str]) -> Iterator[dict[str, JsonValue]]:
    for name, written in servers.items():
        if not isinstance(written, dict):
            problems.append(f"{path}: mcpServers.{name}: expected a table. This server is left out.")
            continue
        entry = cast("dict[str, JsonValue]", _resolve_folder(_checked_entry(name, written), str(path.parent)))
        try:
            _ENTRY.validate_json(json.dumps(entry), strict=True)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            key = ".".join(map(str, problem["loc"][1:]))
            problems.append(f"{path}: mcpServers.{name}.{key}: {describe_problem(problem)}. This server is left out.")
            continue
        yield entry


def _resolve_folder(value: JsonValue, folder: str) -> JsonValue:
    """Replace placeholders for the folder in all strings."""
    if isinstance(value, dict):
        return {key: _resolve_folder(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve_folder(item, folder) for item in value]
    if isinstance(value, str):
        for name in _PLACES:
            value = value.replace(name, folder)
    return value


def _checked_entry(name: str, written: dict[str, JsonValue]) -> dict[str, JsonValue]:
    entry: dict[str, JsonValue] = {"name": name} | {key: written[key] for key in _KEPT if key in written}
    if isinstance(command := entry.get("command"), str):
        entry["command"] = [command]  # a program's name, which may contain blanks, so it must not be split
    kind = written.get("type", written.get("transport"))
    if kind is not None:
        entry["transport"] = _TRANSPORTS.get(str(kind), str(kind))
    return entry
