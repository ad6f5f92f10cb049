"""Keys that would narrow what the agent may do, and that nothing here understands.

A guard that is dropped in silence is worse than none: an attended prompt names such a key, and an unattended run stops.
Which keys narrow is data, for the files of Mistral Vibe and of Claude Code; an unknown key is judged by its words.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel, JsonValue

from vibe_jupyter.config.settings import TOOL_OPTIONS, UNUSED_OPTIONS, Settings, ToolEntry
from vibe_jupyter.config.tables import Entry
from vibe_jupyter.config.toml_file import SettingNode
from vibe_jupyter.config.validation import tables_in

DEFAULT_SUBAGENTS: Final = 32
"""Sub-agents at once where Mistral Vibe's settings say nothing."""

_WORDS: Final = frozenset(
    {"allowed", "allowlist", "allowlisted", "block", "blocked", "blocking", "blocklist", "blacklist", "confine"}
    | {"confined", "confirm", "confirmation", "denied", "denies", "deny", "denylist", "disable", "disabled", "disables"}
    | {"disallow", "disallowed", "exclude", "excluded", "excludes", "forbid", "forbidden", "guard", "guards"}
    | {"isolate", "isolated", "isolation", "limit", "limits", "lock", "locked", "lockdown", "max", "maximum", "never"}
    | {"only", "policy", "policies", "prevent", "prohibit", "prohibited", "protect", "protected", "quota", "readonly"}
    | {"refuse", "reject", "require", "required", "requires", "restrict", "restricted", "restriction", "restrictions"}
    | {"sandbox", "sandboxed", "sensitive", "whitelist", "without"}
)
"""Words of which an unknown key that narrows has one."""
_GIVING: Final = frozenset({"allow", "allows", "can", "enable", "enabled", "enables", "may", "permit", "use"})
"""Words of a key that gives something where it is true, and so takes it where it is false."""
_NOTHING: Final[tuple[JsonValue, ...]] = (False, None, "", 0, [], {}, "off", "none", "never", "false", "no")
"""Values with which a key that narrows narrows nothing."""
_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

NARROWING: Final[Mapping[str, JsonValue]] = {
    "outside_workdir": "deny",
    "enable_auto_approve": False,
    "enable_subagents": False,
    "enable_mcp": False,
}
"""Keys of the file's top that narrow with this value. A project or an agent's profile can't take it back."""

_Narrows = Callable[[JsonValue], bool]
_KNOWN: Final[Mapping[str, _Narrows]] = {
    "enable_background_processes": lambda value: value is False,
    "max_concurrent_subagents": lambda value: _is_below(value, DEFAULT_SUBAGENTS),
    "max_subagents": lambda value: _is_below(value, DEFAULT_SUBAGENTS),
}
"""Keys of Mistral Vibe that narrow with some values and have no equal here. Its other keys narrow nothing, or are
understood."""

_CLAUDE_HARMLESS: Final = frozenset(
    {"hooks", "disableAllHooks", "maxThinkingTokens", "MAX_THINKING_TOKENS", "cleanupPeriodDays", "env", "model"}
    | {"includeCoAuthoredBy", "statusLine", "outputStyle", "spinnerTipsEnabled", "enabledPlugins", "autoUpdates"}
    | {"extraKnownMarketplaces", "enabledMcpjsonServers", "enableAllProjectMcpServers", "alwaysThinkingEnabled"}
    | {"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "forceLoginMethod", "forceLoginOrgUUID", "attribution"}
    | {"permissions.allow", "permissions.additionalDirectories", "respectGitignore", "language", "$schema"}
)
"""Keys of Claude Code's settings that restrict nothing, whatever their words."""
_CLAUDE_KNOWN: Final[Mapping[str, _Narrows]] = {
    "permissions.deny": lambda value: bool(value),
    "permissions.ask": lambda value: bool(value),
    "permissions.defaultMode": lambda value: value in ("plan", "dontAsk"),
    "permissions.disableBypassPermissionsMode": lambda value: bool(value),
    "sandbox": lambda value: isinstance(value, dict) and value.get("enabled") is not False and bool(value),
    "disabledMcpjsonServers": lambda value: bool(value),
    "deniedMcpServers": lambda value: bool(value),
    "allowedMcpServers": lambda value: value is not None,
    "availableModels": lambda value: bool(value),
    "strictKnownMarketplaces": lambda _value: False,
}


class UnheededKey(NamedTuple):
    """A key that would narrow, and has no effect."""

    key: str
    origin: str
    """The file, and the line where it is known; or the variable."""

    @property
    def text(self) -> str:
        """The key in a sentence."""
        return (
            f"{self.origin}: {self.key} would restrict the agent, but vibe-jupyter does not know it: it has no effect."
        )


def unheeded_keys(layer: SettingNode) -> list[UnheededKey]:
    """Return the keys of a layer of Mistral Vibe's settings that would narrow and are not understood."""
    return list(_in_table(layer, Settings, ""))


def unheeded_claude_keys(settings: Mapping[str, Any], origin: str) -> list[UnheededKey]:
    """Return the same of Claude Code's ``settings.json``."""
    return [UnheededKey(key, origin) for key in _in_claude(settings, "")]


def unheeded_variables(environ: Mapping[str, str]) -> list[UnheededKey]:
    """Return the same of ``VIBE_*`` variables. Other programs' begin so too, so that unknown ones are not judged."""
    found: list[UnheededKey] = []
    for key, narrows in _KNOWN.items():
        name = f"VIBE_{key.upper()}"
        if name in environ and narrows(_variable_value(environ[name])):
            found.append(UnheededKey(key, f"the variable {name}"))
    return found


def _variable_value(text: str) -> JsonValue:
    if text.strip().casefold() in ("false", "0", "no", "off"):
        return False
    return int(text) if text.strip().isdecimal() else text


def keep_narrowing(layer: SettingNode, below: SettingNode) -> SettingNode:
    """Return a project's or a profile's layer without what would take back a restriction of the layers below it."""
    narrowed = {key for key, value in NARROWING.items() if _value_at(below, key) == value}
    table = {key: node for key, node in layer.table.items() if key not in narrowed}
    tools = table.get("tools")
    if tools is not None and tools.is_table:
        kept = {name: _still_inside(tool, name, below, narrowed) for name, tool in tools.table.items()}
        table["tools"] = SettingNode(kept, tools.origin)
    return SettingNode(table, layer.origin)


def _still_inside(tool: SettingNode, name: str, below: SettingNode, narrowed: Collection[str]) -> SettingNode:
    said = _value_at(below, "tools", name, "outside_workdir")
    denies = said == "deny" if said is not None else "outside_workdir" in narrowed
    if not denies or not tool.is_table:
        return tool
    return SettingNode({key: node for key, node in tool.table.items() if key != "outside_workdir"}, tool.origin)


def _value_at(tree: SettingNode, *path: str) -> JsonValue:
    for step in path:
        found = tree.table.get(step)
        if found is None:
            return None
        tree = found
    return None if tree.is_table or tree.is_list else tree.plain()


def group_models(layer: SettingNode) -> SettingNode:
    """Return a layer whose list of allowed models is one entry of a list: each layer's list has to allow a model, where
    other lists of two layers are joined."""
    models = layer.table.get("allowed_models")
    if models is None or not models.is_list or any(one.is_list for one in models.items):
        return layer
    grouped = SettingNode([models] if models.items else [], models.origin)
    return SettingNode({**layer.table, "allowed_models": grouped}, layer.origin)


def _in_table(node: SettingNode, model: type[BaseModel], below: str) -> Iterator[UnheededKey]:
    unused = model.unused if issubclass(model, Entry) else frozenset[str]()
    for key, inner in node.table.items():
        field = model.model_fields.get(key)
        if field is not None and field.annotation == dict[str, ToolEntry]:
            yield from _in_tools(inner)
        elif field is not None:
            for table, kind in tables_in(inner, field.annotation):
                yield from _in_table(table, kind, f"{below}{key}.")
        elif key in _KNOWN:
            if _KNOWN[key](inner.plain()):
                yield UnheededKey(f"{below}{key}", str(inner.origin))
        elif key not in unused:
            yield from _unknown(inner, key, below)


def _in_tools(tools: SettingNode) -> Iterator[UnheededKey]:
    """A custom tool's options are its own; those of ours have to be known."""
    for name, tool in tools.table.items():
        options = TOOL_OPTIONS.get(name)
        if options is not None:
            known = {*ToolEntry.model_fields, *options.model_fields, *UNUSED_OPTIONS}
            for key, inner in tool.table.items():
                if key not in known:
                    yield from _unknown(inner, key, f"tools.{name}.")


def _unknown(node: SettingNode, key: str, below: str) -> Iterator[UnheededKey]:
    if narrows_by_its_words(key, node.plain()):
        yield UnheededKey(f"{below}{key}", str(node.origin))
    elif node.is_table:
        for name, inner in node.table.items():
            yield from _unknown(inner, name, f"{below}{key}.")


def _in_claude(settings: Mapping[str, Any], below: str) -> Iterator[str]:
    for key, value in settings.items():
        path = f"{below}{key}"
        if path in _CLAUDE_KNOWN:
            if _CLAUDE_KNOWN[path](value):
                yield path
        elif path in _CLAUDE_HARMLESS:
            continue
        elif narrows_by_its_words(key, value):
            yield path
        elif isinstance(value, Mapping):
            yield from _in_claude(cast("Mapping[str, Any]", value), f"{path}.")


def narrows_by_its_words(key: str, value: JsonValue) -> bool:
    """Return whether an unknown key would narrow, as far as its name and its value tell."""
    words = [word.casefold() for word in _PARTS.findall(key)]
    if not _WORDS.isdisjoint(words) or "read_only" in "_".join(words):
        return value not in _NOTHING
    return value is False and bool(words) and words[0] in _GIVING


def _is_below(value: JsonValue, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < limit
