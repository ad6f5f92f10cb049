"""Detection of unsupported keys that are meant to restrict the agent.

Ignoring a guard silently is worse than having none: an attended prompt reports such a key, and a non-interactive run
refuses to start. The restricting keys of Mistral Vibe and of Claude Code are listed here; unknown keys are judged by
the words in their names.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel, JsonValue

from vibe_jupyter.config.settings import TOOL_OPTIONS, UNUSED_OPTIONS, Settings, ToolEntry
from vibe_jupyter.config.tables import Entry
from vibe_jupyter.config.toml_file import SettingNode
from vibe_jupyter.config.validation import tables_in

DEFAULT_SUBAGENTS: Final = 32  # Mistral Vibe's default for concurrent sub-agents

# Words in the names of unknown keys that restrict.
_WORDS: Final = frozenset(
    {"allowed", "allowlist", "allowlisted", "block", "blocked", "blocking", "blocklist", "blacklist", "confine"}
    | {"confined", "confirm", "confirmation", "denied", "denies", "deny", "denylist", "disable", "disabled", "disables"}
    | {"disallow", "disallowed", "exclude", "excluded", "excludes", "forbid", "forbidden", "guard", "guards"}
    | {"isolate", "isolated", "isolation", "limit", "limits", "lock", "locked", "lockdown", "max", "maximum", "never"}
    | {"only", "policy", "policies", "prevent", "prohibit", "prohibited", "protect", "protected", "quota", "readonly"}
    | {"refuse", "reject", "require", "required", "requires", "restrict", "restricted", "restriction", "restrictions"}
    | {"sandbox", "sandboxed", "sensitive", "whitelist", "without"}
)
# First words of keys that grant something if true, and so restrict if false.
_GIVING: Final = frozenset({"allow", "allows", "can", "enable", "enabled", "enables", "may", "permit", "use"})
# Values with which a restricting key has no effect.
_NOTHING: Final[tuple[JsonValue, ...]] = (False, None, "", 0, [], {}, "off", "none", "never", "false", "no")
_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

# Top-level keys that restrict with this value; a project or an agent's profile can't revert it.
NARROWING: Final[Mapping[str, JsonValue]] = {
    "outside_workdir": "deny",
    "enable_auto_approve": False,
    "enable_subagents": False,
    "enable_mcp": False,
}

_Narrows = Callable[[JsonValue], bool]
# Keys of Mistral Vibe that restrict with some values and have no equivalent here. All its other keys are supported or
# don't restrict.
_KNOWN: Final[Mapping[str, _Narrows]] = {
    "enable_background_processes": lambda value: value is False,
    "max_concurrent_subagents": lambda value: _is_below(value, DEFAULT_SUBAGENTS),
    "max_subagents": lambda value: _is_below(value, DEFAULT_SUBAGENTS),
}

# Keys of Claude Code's settings that don't restrict, whatever their words.
_CLAUDE_HARMLESS: Final = frozenset(
    {"hooks", "disableAllHooks", "maxThinkingTokens", "MAX_THINKING_TOKENS", "cleanupPeriodDays", "env", "model"}
    | {"includeCoAuthoredBy", "statusLine", "outputStyle", "spinnerTipsEnabled", "enabledPlugins", "autoUpdates"}
    | {"extraKnownMarketplaces", "enabledMcpjsonServers", "enableAllProjectMcpServers", "alwaysThinkingEnabled"}
    | {"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "forceLoginMethod", "forceLoginOrgUUID", "attribution"}
    | {"permissions.allow", "permissions.additionalDirectories", "respectGitignore", "language", "$schema"}
)
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
    """An unsupported key that would restrict the agent."""

    key: str
    origin: str  # the file or the variable

    @property
    def text(self) -> str:
        """Message about the key."""
        return (
            f"{self.origin}: {self.key} would restrict the agent, but vibe-jupyter does not know it: it has no effect."
        )


def unheeded_keys(layer: SettingNode) -> list[UnheededKey]:
    """Return the unsupported keys of a layer of Mistral Vibe's settings that would restrict the agent."""
    return list(_in_table(layer, Settings, ""))


def unheeded_claude_keys(settings: Mapping[str, Any], origin: str) -> list[UnheededKey]:
    """Return the unsupported keys of Claude Code's `settings.json` that would restrict the agent."""
    return [UnheededKey(key, origin) for key in _in_claude(settings, "")]


def unheeded_variables(environ: Mapping[str, str]) -> list[UnheededKey]:
    """Return the unsupported `VIBE_*` variables that would restrict the agent.

    Unknown variables aren't judged, because other programs use the same prefix.
    """
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
    """Remove from a project's or profile's layer what would lift a restriction of the layers below it."""
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
    """Wrap a layer's list of allowed models into a list of lists.

    Lists of two layers are joined when merged, but a model must be in the allowed models of each layer.
    """
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
                yield UnheededKey(f"{below}{key}", inner.origin.source)
        elif key not in unused:
            yield from _unknown(inner, key, below)


def _in_tools(tools: SettingNode) -> Iterator[UnheededKey]:
    """Check the options of our tools only, because those of custom tools are unknown."""
    for name, tool in tools.table.items():
        options = TOOL_OPTIONS.get(name)
        if options is not None:
            known = {*ToolEntry.model_fields, *options.model_fields, *UNUSED_OPTIONS}
            for key, inner in tool.table.items():
                if key not in known:
                    yield from _unknown(inner, key, f"tools.{name}.")


def _unknown(node: SettingNode, key: str, below: str) -> Iterator[UnheededKey]:
    if narrows_by_its_words(key, node.plain()):
        yield UnheededKey(f"{below}{key}", node.origin.source)
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
    """Return whether an unknown key would restrict the agent, judged by its name and value."""
    words = [word.casefold() for word in _PARTS.findall(key)]
    if not _WORDS.isdisjoint(words) or "read_only" in "_".join(words):
        return value not in _NOTHING
    return value is False and bool(words) and words[0] in _GIVING


def _is_below(value: JsonValue, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < limit
