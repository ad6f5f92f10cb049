"""Reading, merging and validation of all layers of settings.

default < the user's file < the project's, as far as it is trusted < the agent's profile < `VIBE_*` < the magic's
options. Scalars replace, tables merge, lists join, and providers, models and MCP servers unite by name.
"""

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from itertools import combinations, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args, get_origin

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from vibe_jupyter.config.agents import PLAN_TOOL, RUN_CODE, ProfileRules, Safety, profile_rules
from vibe_jupyter.config.narrowing import (
    UnheededKey,
    group_models,
    keep_narrowing,
    unheeded_keys,
    unheeded_variables,
)
from vibe_jupyter.config.project import ProjectFile, json_layer, project_layer, written_layer
from vibe_jupyter.config.providers import DEFAULT_MODELS, DEFAULT_PROVIDERS
from vibe_jupyter.config.settings import DEFAULT_SETTINGS, OTHER_NAMES, RENAMED, TOOL_OPTIONS, WRITTEN_AS, Settings
from vibe_jupyter.config.toml_file import SettingNode, SettingOrigin, config_path, env_path, make_node, read_toml
from vibe_jupyter.config.validation import (
    describe_problem,
    move_renamed_keys,
    own_effects,
    unknown_keys,
    validate_settings,
)
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.file_stamps import ReadCache, stamp_file
from vibe_jupyter.files.plain_file import read_plain_file
from vibe_jupyter.files.protected import protect_also
from vibe_jupyter.near_names import near_names
from vibe_jupyter.permissions.rules import OwnEffects
from vibe_jupyter.protocol import Level
from vibe_jupyter.safe_imports import without_plugins, without_working_folder
from vibe_jupyter.tools.contract import READING_TOOLS, SANDBOXED, WITHOUT_EFFECTS

PREFIX: Final = "VIBE_"
NESTED: Final = "__"  # separates a table from its key, as in `VIBE_TOOLS__BASH__PERMISSION`
_HOME: Final = "VIBE_HOME"
NOT_SETTINGS: Final = frozenset({_HOME, "VIBE_GATEWAY_TOKEN"})  # our variables that are not settings
_OTHERS: Final = 0o077  # mode bits that give other users access


class _EnvFile(NamedTuple):
    values: Mapping[str, str] = MappingProxyType({})
    broken: Sequence[int] = ()  # numbers of lines that can't be parsed


_env_files: Final = ReadCache[_EnvFile]()  # cache of the file read last


def effective_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, completed by variables from the user's `.env`.

    Raises:
        ConfigError: The file can't be read.
    """
    kept = _env_file(environ).values
    return {**kept, **{name: value for name, value in environ.items() if value or name not in kept}}


def _env_file(environ: Mapping[str, str]) -> _EnvFile:
    path = env_path(environ)
    return _env_files.get([stamp_file(path)], path, lambda: _read_env_file(path))


def _read_env_file(path: Path) -> _EnvFile:
    try:
        text = read_plain_file(path).decode("utf-8")
    except FileNotFoundError:
        return _EnvFile()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}. Fix or move the file, then try again.") from error
    with without_working_folder():
        from dotenv.parser import parse_stream  # noqa: PLC0415 - only needed if there is such a file
    lines = list(parse_stream(StringIO(text)))
    written = {line.key: line.value for line in lines if line.key and line.value is not None and line.key != _HOME}
    return _EnvFile(written, [_line_number(*line.original) for line in lines if line.error])


def _line_number(text: str, first: int) -> int:
    """Return the line of a statement, skipping blank lines before it."""
    return first + text[: len(text) - len(text.lstrip())].count("\n")


def settings_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return all variables that may be settings, without those that `effective_environment` adds."""
    return {name: value for name, value in environ.items() if name.startswith(PREFIX)}


def _broken_lines(environ: Mapping[str, str]) -> list[str]:
    """Warn about each invalid line of the `.env` file, without its contents, which may be a key."""
    path = env_path(environ)
    return [f"{path}, line {number}: it is no NAME=VALUE, and sets nothing." for number in _env_file(environ).broken]


def _open_keys(environ: Mapping[str, str]) -> list[str]:
    """Warn if other users of the machine can read the `.env` file. Not on Windows, where the mode is meaningless."""
    path = env_path(environ)
    try:
        mode = path.stat().st_mode
    except OSError:
        return []
    if os.name == "nt" or not mode & _OTHERS:
        return []
    command = f"chmod 600 {shlex.quote(str(path))}"
    return [f"Other users of this machine can read the keys in {path}. Restrict it to your account: {command}"]


def environment_layer(environ: Mapping[str, str]) -> tuple[SettingNode, list[str]]:
    """Return the settings in environment variables, and warnings about variables without effect.

    Raises:
        ConfigError: A value is invalid for its key; the message names the variable.
    """
    tree = SettingNode({}, SettingOrigin("environment"))
    warnings: list[str] = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS or not environ[name]:
            continue
        key, *inner = name.removeprefix(PREFIX).lower().split(NESTED)
        key = RENAMED.get(key, key)
        annotation = _annotation_at(Settings, [key, *inner])
        if annotation is None:
            warnings += _unknown_variable(name, key)
        else:
            origin = SettingOrigin("environment", name=f"the variable {name}")
            tree = _with_node(tree, [key, *inner], make_node(_parse_value(environ[name], annotation, name), origin))
    return tree, warnings


def _annotation_at(model: type[BaseModel], path: list[str]) -> Any:
    """Return the type of the setting at a path, or None if there is none."""
    key, *rest = path
    field = model.model_fields.get(key)
    if field is None:
        return None
    if not rest:
        return WRITTEN_AS.get(key, field.annotation) if model is Settings else field.annotation
    inner = field.annotation
    if key == "tools" and model is Settings:
        return _tool_annotation(rest)
    return _annotation_at(inner, rest) if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _tool_annotation(path: list[str]) -> Any:
    if len(path) != 2:
        return None
    tool, key = path
    entry = Settings.model_fields["tools"].annotation
    own = TOOL_OPTIONS.get(tool)
    for model in (get_args(entry)[1], own):
        if model is not None and key in model.model_fields:
            return model.model_fields[key].annotation
    return JsonValue if own is None else None


def _parse_value(text: str, annotation: Any, name: str) -> JsonValue:
    with without_plugins():
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    try:
        return adapter.dump_python(adapter.validate_python(_parse_text(text, annotation)), mode="json")
    except ValidationError as error:
        said = _described(error)
        if said == "expected a table" and get_origin(annotation) is tuple and not text.lstrip().startswith("["):
            said = "expected a list of tables, as JSON: [{…}]"
        raise ConfigError(
            f"The environment variable {name} is wrong: {said}. Correct or unset it, then try again."
        ) from None


def _described(error: ValidationError) -> str:
    """Describe the first problem of a variable, or all keys that are missing in its tables."""
    problems = error.errors(include_url=False)
    missing = [str(one["loc"][-1]) for one in problems if one["type"] == "missing" and one["loc"]]
    if missing:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} required but missing"
    keys = [key for key in problems[0]["loc"] if isinstance(key, str)]
    return ": ".join([*keys[-1:], describe_problem(problems[0])])


def _parse_text(text: str, annotation: Any) -> Any:
    """Parse lists and tables as JSON or comma-separated words. Scalars remain text, to be converted by their type."""
    if annotation in (str, int, float, bool):
        return text
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        is_list = get_origin(annotation) is tuple
        return [word.strip() for word in text.split(",") if word.strip()] if is_list else text
    wants_text = not isinstance(value, list | dict) and annotation is not JsonValue
    return text if wants_text else value


def _with_node(tree: SettingNode, path: list[str], node: SettingNode) -> SettingNode:
    key, *rest = path
    below = _with_node(tree.table.get(key, SettingNode({}, node.origin)), rest, node) if rest else node
    return SettingNode({**tree.table, key: below}, tree.origin)


def _unknown_variable(name: str, key: str) -> list[str]:
    if key in Settings.unused:
        return []
    if meant := _with_two_underscores(name):
        return [f"The environment variable {name} has no effect. Did you mean {meant}?"]
    if key in Settings.model_fields:
        return [f"The environment variable {name} has no effect: {key} has no such key."]
    # Other programs use the prefix as well, so only report variables that look like a typo.
    near = near_names(key, [*Settings.model_fields, *RENAMED])
    return [f"The environment variable {name} has no effect. Did you mean {PREFIX}{near[0].upper()}?"] if near else []


def _with_two_underscores(name: str) -> str:
    """Return the variable meant by one that has single instead of double underscores, or ""."""
    words = name.removeprefix(PREFIX).replace(NESTED, "_").lower().split("_")
    for cuts in (cuts for count in (1, 2) for cuts in combinations(range(1, len(words)), count)):
        path = ["_".join(words[start:end]) for start, end in pairwise((0, *cuts, len(words)))]
        if _annotation_at(Settings, path) not in (None, JsonValue):
            return PREFIX + NESTED.join(path).upper()
    return ""


class SettingsReading(NamedTuple):
    """The settings with their origins and warnings."""

    settings: Settings
    tree: SettingNode  # values with origins, without keys that no layer sets
    warnings: tuple[str, ...]  # messages for the user
    rules: ProfileRules = ProfileRules()  # rules of the active agent's profile
    unsandboxed: frozenset[str] = frozenset()  # tools that never run in the sandbox in this process
    # Unsupported keys of all layers, trusted or not, that would restrict the agent.
    unheeded: tuple[UnheededKey, ...] = ()

    def offers_tool(self, name: str, *others: str) -> bool:
        """Return whether a model is offered a tool under any of its names."""
        return self.leaves_tool(name, *others) and not self.forbids_tool(name, *others)

    def leaves_tool(self, name: str, *others: str) -> bool:
        """Return whether the lists of the settings and of the profile both leave a tool enabled."""
        if name == PLAN_TOOL and not self.rules.plans:
            return False
        names = _all_names(name, others)
        if "sandbox" in self._levels(names) and not self._may_use_sandbox(names):
            return False
        return self.settings.offers_tool(name, *others) and self.rules.offers_tool(names)

    def forbids_tool(self, name: str, *others: str) -> bool:
        """Return whether all calls of a tool are denied: by `never`, or because it has effects and the agent is safe.

        Despite a general `never`, entries of an allowlist can be called. The effects of custom and MCP tools are
        unknown, so a safe agent gets none of them.
        """
        names = _all_names(name, others)
        if "never" in self._levels(names):
            listed = any(entry.allowlist for one in names if (entry := self.settings.tools.get(one)) is not None)
            return not listed or any(self.rules.levels.get(one) == "never" for one in names)
        if not self.rules.only_reads or name in WITHOUT_EFFECTS:
            return False
        return name not in SANDBOXED or "sandbox" not in self._levels(names) or not self._may_use_sandbox(names)

    def _levels(self, names: Sequence[str]) -> set[Level]:
        levels = self.settings.levels()
        return {one[name] for one in (self.rules.levels, levels) for name in names if name in one}

    def _may_use_sandbox(self, names: Sequence[str]) -> bool:
        """Return whether code may run in copies, which requires the permission to read what the code could print."""
        if RUN_CODE in names and not all(map(self.offers_tool, READING_TOOLS)):
            return False
        return self.settings.sandbox.is_used and self.unsandboxed.isdisjoint(names)


def _all_names(name: str, others: Sequence[str]) -> tuple[str, ...]:
    return (name, *others, *OTHER_NAMES.get(name, ()))


NO_SETTINGS: Final = SettingNode({}, SettingOrigin("default"))  # a layer without settings


def load_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Load the settings without a project's.

    Raises:
        ConfigError: Invalid TOML, or a value of the wrong type; the message names file and key.
    """
    return read_settings(environ).settings


def read_settings(
    environ: Mapping[str, str] = os.environ,
    *,
    project: ProjectFile | None = None,
    servers: ProjectFile | None = None,
    profile: SettingNode | None = None,
    safety: Safety = "neutral",
    flags: Mapping[str, JsonValue] | None = None,
) -> SettingsReading:
    """Read and merge all layers.

    Args:
        environ: The process's environment.
        project: Settings file of the kernel's working folder, or None without one.
        servers: Its `.mcp.json`, or None without one.
        profile: Settings of the agent's profile, from `vibe_jupyter.config.toml_file.read_toml`, or None.
        safety: Safety of that profile.
        flags: Options of one prompt, keyed by the settings that they override.

    Raises:
        ConfigError: Invalid TOML, or a value of the wrong type; the message names file and key, or the variable.
    """
    warnings: list[str] = []
    unheeded: list[UnheededKey] = []
    layers = [_default_layer()]
    user = read_toml(config_path(environ), "user")
    if user is not None:
        layers.append(_accept_layer(user, warnings))
        unheeded += unheeded_keys(user)
    if servers is not None:
        layers += _server_layers(servers, warnings)
    if project is not None:
        layer, told = project_layer(project, merge_layers(layers))
        unheeded += unheeded_keys(written_layer(project))
        layers.append(keep_narrowing(_renamed_tools(layer), merge_layers(layers)))
        warnings += told
        if project.trusted:
            warnings += unknown_keys(layer)
    rules = ProfileRules()
    if profile is not None:
        layer = _accept_layer(profile, warnings)
        unheeded += unheeded_keys(layer)
        rules = profile_rules(layer, safety)
        below = merge_layers(layers)
        layers.append(keep_narrowing(_without_widening(layer, below), below))
    variables, told = environment_layer(effective_environment(environ))
    variables = _renamed_tools(variables)
    warnings += [*told, *unknown_keys(variables), *_broken_lines(environ), *_open_keys(environ)]
    unheeded += unheeded_variables(effective_environment(environ))
    layers += [
        variables,
        make_node(dict(flags or {}), SettingOrigin("flag", name="the magic's options")),
    ]
    tree = merge_layers([group_models(layer) for layer in layers])
    tree, effects, told = own_effects(tree)
    warnings += told
    settings = validate_settings(tree) if any(layer.table for layer in layers[1:]) else DEFAULT_SETTINGS
    protect_also(settings.privacy.protected_files)
    OwnEffects.rows = effects
    return SettingsReading(settings, tree, tuple(warnings), rules, unheeded=tuple(unheeded))


def _server_layers(servers: ProjectFile, warnings: list[str]) -> list[SettingNode]:
    """Return the layer of a project's `.mcp.json`, or none unless it is trusted."""
    if not servers.trusted:
        warnings.append(f"{servers.path} is not trusted; its servers are not used. %vibe trust shows them and asks.")
        return []
    layer, told = json_layer(servers.text, servers.path)
    warnings += told
    return [layer]


def _without_widening(layer: SettingNode, below: SettingNode) -> SettingNode:
    """Remove what would widen the settings below from a profile's layer.

    These are its enabled tools, which narrow as `ProfileRules` instead, and permissions of tools that are forbidden
    below.
    """
    table = {key: node for key, node in layer.table.items() if key != "enabled_tools"}
    tools, set_below = table.get("tools"), below.table.get("tools")
    if tools is not None and set_below is not None and tools.is_table:
        kept = {name: _still_forbidden(tool, set_below.table.get(name)) for name, tool in tools.table.items()}
        table["tools"] = SettingNode(kept, tools.origin)
    return SettingNode(table, layer.origin)


def _still_forbidden(tool: SettingNode, below: SettingNode | None) -> SettingNode:
    level = below.table.get("permission") if below is not None else None
    if level is None or level.value != "never" or not tool.is_table:
        return tool
    return SettingNode({key: node for key, node in tool.table.items() if key != "permission"}, tool.origin)


def _accept_layer(layer: SettingNode, warnings: list[str]) -> SettingNode:
    placed, told = move_renamed_keys(layer)
    placed = _renamed_tools(placed)
    warnings += [*told, *unknown_keys(placed)]
    return placed


def _renamed_tools(layer: SettingNode) -> SettingNode:
    """Rename tools to their current names."""
    tools = layer.table.get("tools")
    if tools is None or not tools.is_table:
        return layer
    present = {other: name for name, others in OTHER_NAMES.items() for other in others}
    table: dict[str, SettingNode] = {}
    # Sorted, so that the strictest of several former names of a tool wins. The current name overrides them all.
    for name in sorted(present.keys() & tools.table.keys(), key=lambda name: _strictness(tools.table[name])):
        table[present[name]] = tools.table[name]
    table |= {name: node for name, node in tools.table.items() if name not in present}
    return SettingNode({**layer.table, "tools": SettingNode(table, tools.origin)}, layer.origin)


_STRICTER: Final = ("always", "ask", "sandbox", "never")


def _strictness(tool: SettingNode) -> int:
    permission = tool.table.get("permission")
    return -1 if permission is None or permission.value not in _STRICTER else _STRICTER.index(permission.value)


def _default_layer() -> SettingNode:
    origin = SettingOrigin("default")
    providers: list[JsonValue] = [dict(entry) for entry in DEFAULT_PROVIDERS]
    models: list[JsonValue] = [dict(entry) for entry in DEFAULT_MODELS]
    return make_node({"providers": providers, "models": models}, origin)


def entry_name(entry: SettingNode) -> str:
    """Return the name of an entry in a named list."""
    return _entry_text(entry, "name")


def model_alias(entry: SettingNode) -> str:
    """Return the alias of a model entry, or its name without one."""
    return _entry_text(entry, "alias") or _entry_text(entry, "name")


# Top-level lists whose entries have names. An entry in a stronger layer replaces the whole weaker one rather than
# merging with it: a key must never be sent to an address from another entry.
NAMED_LISTS: Final[Mapping[str, Callable[[SettingNode], str]]] = {
    "providers": entry_name,
    "models": model_alias,
    "mcp_servers": entry_name,
}


def merge_layers(layers: Sequence[SettingNode]) -> SettingNode:
    """Merge layers, later ones overriding earlier ones.

    Raises:
        ConfigError: A name occurs twice in a list of one layer.
    """
    whole, *others = layers
    _check_names(whole)
    for layer in others:
        _check_names(layer)
        whole = _merge_nodes(whole, layer, top=True)
    return whole


def _merge_nodes(weak: SettingNode, strong: SettingNode, *, top: bool = False) -> SettingNode:
    if not (weak.is_table and strong.is_table):
        return _join_lists(weak, strong) if weak.is_list and strong.is_list else strong
    table = dict(weak.table)
    for key, node in strong.table.items():
        if key not in table:
            table[key] = node
        elif top and key in NAMED_LISTS and table[key].is_list and node.is_list:
            table[key] = _unite_by_name(table[key], node, NAMED_LISTS[key])
        else:
            table[key] = _merge_nodes(table[key], node)
    return SettingNode(table, strong.origin)


def _join_lists(weak: SettingNode, strong: SettingNode) -> SettingNode:
    have = {repr(node.plain()) for node in weak.items}
    return SettingNode([*weak.items, *(node for node in strong.items if repr(node.plain()) not in have)], strong.origin)


def _unite_by_name(weak: SettingNode, strong: SettingNode, name: Callable[[SettingNode], str]) -> SettingNode:
    own = {name(entry) for entry in strong.items}
    kept = [entry for entry in weak.items if not name(entry) or name(entry) not in own]
    return SettingNode([*strong.items, *kept], strong.origin)


def _check_names(layer: SettingNode) -> None:
    for key, name in NAMED_LISTS.items():
        seen = set[str]()
        for entry in layer.table[key].items if key in layer.table else ():
            known = name(entry)
            if known and known in seen:
                raise ConfigError(
                    f"{entry.origin.source}: [[{key}]] names {known!r} a second time. Give one of them another "
                    f"{'alias' if key == 'models' else 'name'}."
                )
            seen.add(known)


def _entry_text(entry: SettingNode, key: str) -> str:
    node = entry.table.get(key)
    return node.value if node is not None and isinstance(node.value, str) else ""
