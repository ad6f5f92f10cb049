"""All layers of the settings read, merged and checked.

default < the user's file < the project's, as far as it is trusted < the agent's profile < ``VIBE_*`` < the magic's
options. Scalars replace, tables merge, lists join, and providers, models and MCP servers unite by name.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.config.environment import effective_environment, environment_layer, open_keys
from vibe_jupyter.config.project import ProjectFile, json_layer, project_layer
from vibe_jupyter.config.providers import DEFAULT_MODELS, DEFAULT_PROVIDERS
from vibe_jupyter.config.settings import OTHER_NAMES, Settings
from vibe_jupyter.config.toml_file import SettingNode, SettingOrigin, config_path, make_node, read_toml
from vibe_jupyter.config.validation import move_renamed_keys, unknown_keys, validate_settings
from vibe_jupyter.errors import ConfigError


@dataclass(frozen=True)
class SettingsReading:
    """The settings, and what is known of how they came about."""

    settings: Settings
    tree: SettingNode
    """What was written, with the origin of each value; keys that nobody set are not in it."""
    warnings: tuple[str, ...]
    """Sentences for the user."""


def load_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings without a project's.

    Raises:
        ConfigError: no TOML, or a value of the wrong kind; names file, line and key.
    """
    return read_settings(environ).settings


def read_settings(
    environ: Mapping[str, str] = os.environ,
    *,
    project: ProjectFile | None = None,
    servers: ProjectFile | None = None,
    profile: SettingNode | None = None,
    flags: Mapping[str, JsonValue] | None = None,
) -> SettingsReading:
    """Everything that was set.

    Args:
        environ: the process's environment.
        project: the file of the folder the kernel works in; None where there is none.
        servers: its ``.mcp.json``; None where there is none.
        profile: what the agent's profile sets, from `vibe_jupyter.config.toml_file.read_toml`; None for nothing.
        flags: options of one prompt, under the names of the keys they set.

    Raises:
        ConfigError: no TOML, or a value of the wrong kind; names file, line and key, or the variable.
    """
    warnings: list[str] = []
    layers = [_default_layer()]
    user = read_toml(config_path(environ), "user")
    if user is not None:
        layers.append(_accept_layer(user, warnings))
    if servers is not None and servers.trusted:
        layer, told = json_layer(servers.text, servers.path)
        layers.append(layer)
        warnings += told
    elif servers is not None:
        warnings.append(f"{servers.path} is not trusted; its servers are not used. %vibe trust shows them and asks.")
    if project is not None:
        layer, told = project_layer(project, merge_layers(layers))
        layers.append(_renamed_tools(layer))
        warnings += told
        if project.trusted:
            warnings += unknown_keys(layer)
    if profile is not None:
        layers.append(_accept_layer(profile, warnings))
    variables, told = environment_layer(effective_environment(environ))
    warnings += [*told, *open_keys(environ)]
    layers += [
        _renamed_tools(variables),
        make_node(dict(flags or {}), SettingOrigin("flag", name="the magic's options")),
    ]
    tree = merge_layers(layers)
    return SettingsReading(validate_settings(tree), tree, tuple(warnings))


def _accept_layer(layer: SettingNode, warnings: list[str]) -> SettingNode:
    placed, told = move_renamed_keys(layer)
    placed = _renamed_tools(placed)
    warnings += [*told, *unknown_keys(placed)]
    return placed


def _renamed_tools(layer: SettingNode) -> SettingNode:
    """Tools under the names they have here."""
    tools = layer.table.get("tools")
    if tools is None or not tools.is_table:
        return layer
    present = {other: name for name, others in OTHER_NAMES.items() for other in others}
    table = {present.get(name, name): node for name, node in tools.table.items() if name in present}
    table |= {name: node for name, node in tools.table.items() if name not in present}
    return SettingNode({**layer.table, "tools": SettingNode(table, tools.origin)}, layer.origin)


def _default_layer() -> SettingNode:
    origin = SettingOrigin("default")
    providers: list[JsonValue] = [entry.model_dump(mode="json") for entry in DEFAULT_PROVIDERS]
    models: list[JsonValue] = [entry.model_dump(mode="json") for entry in DEFAULT_MODELS]
    return make_node({"providers": providers, "models": models}, origin)


def entry_name(entry: SettingNode) -> str:
    """What an entry of a named list is known by."""
    return _entry_text(entry, "name")


def model_alias(entry: SettingNode) -> str:
    """What a model is known by."""
    return _entry_text(entry, "alias") or _entry_text(entry, "name")


NAMED_LISTS: Final[Mapping[str, Callable[[SettingNode], str]]] = {
    "providers": entry_name,
    "models": model_alias,
    "mcp_servers": entry_name,
}
"""Top-level lists whose entries are known by a name. An entry of a stronger layer takes the place of the whole weaker
one: a key never meets an address its own entry does not name."""


def merge_layers(layers: Sequence[SettingNode]) -> SettingNode:
    """All layers, the later ones stronger.

    Raises:
        ConfigError: a name stands twice in one list of one layer.
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
    have = [node.plain() for node in weak.items]
    return SettingNode([*weak.items, *(node for node in strong.items if node.plain() not in have)], strong.origin)


def _unite_by_name(weak: SettingNode, strong: SettingNode, name: Callable[[SettingNode], str]) -> SettingNode:
    own = {name(entry) for entry in strong.items}
    kept = [entry for entry in weak.items if not name(entry) or name(entry) not in own]
    return SettingNode([*strong.items, *kept], strong.origin)


def _check_names(layer: SettingNode) -> None:
    for key, name in NAMED_LISTS.items():
        seen: dict[str, SettingNode] = {}
        for entry in layer.table[key].items if key in layer.table else ():
            known = name(entry)
            if known and known in seen:
                raise ConfigError(
                    f"{entry.origin}: [[{key}]] names {known!r} a second time; the first is in line "
                    f"{seen[known].origin.line}. Give one of them another {'alias' if key == 'models' else 'name'}."
                )
            seen[known] = entry


def _entry_text(entry: SettingNode, key: str) -> str:
    node = entry.table.get(key)
    return node.value if node is not None and isinstance(node.value, str) else ""
