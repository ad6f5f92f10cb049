"""Validation of written settings: messages about invalid values, and warnings about unknown keys."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vibe_jupyter.config.mcp_servers import MODELS, server_kind
from vibe_jupyter.config.settings import (
    OTHER_NAMES,
    OTHER_TOOLS,
    RENAMED,
    TOOL_OPTIONS,
    UNUSED_OPTIONS,
    Settings,
    ToolEntry,
)
from vibe_jupyter.config.tables import Entry
from vibe_jupyter.config.toml_file import SettingNode, Step
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.near_names import near_names
from vibe_jupyter.permissions.secret_shapes import is_secret_name
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import BUILT_IN

if TYPE_CHECKING:
    from vibe_jupyter.permissions.shell.effect_rows import EffectRow

HOISTED = "include_"  # prefix of top-level keys that are often written below `[project_context]`, even in the manual

_EFFECTS: Final = "command_effects"
_TOOL_LISTS: Final = ("enabled_tools", "disabled_tools")
# Characters of which a pattern contains at least one, and the names of our tools none.
_IN_PATTERNS: Final = frozenset("*?[:")
_SLIP: Final = 0.75  # similarity ratio above which an unknown name counts as a typo
_WANTED: Final[Mapping[str, str]] = {
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "string_type": "expected text in quotes",
    "string_too_short": "expected some text; it is empty",
    "tuple_type": "expected a list in [ ]",
    "list_type": "expected a list in [ ]",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "model_attributes_type": "expected a table",
    "dataclass_type": "expected a table",
    "unexpected_keyword_argument": "there is no such key",
    "missing": "it is required but missing",
}
_BOUNDS: Final[Mapping[str, str]] = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
}
_WITH_WORDS: Final[Mapping[str, Callable[[dict[str, object]], str]]] = {
    "literal_error": lambda context: f"expected {context['expected']}",
    "union_tag_invalid": lambda context: f"expected {context['expected_tags']}",
    "union_tag_not_found": lambda context: f"{context['discriminator']} is required but missing",
    "value_error": lambda context: str(context["error"]),
    "string_pattern_mismatch": lambda _: "expected a name, not a path: letters, digits, “_”, “-” and “.”",
}


def validate_settings(tree: SettingNode) -> Settings:
    """Validate a tree of settings.

    Strict, so that text isn't accepted as a number. Validated as JSON, because strict mode then still converts lists to
    tuples.

    Raises:
        ConfigError: A value is invalid; the message names file and key, or the variable.
    """
    try:
        settings = Settings.model_validate_json(json.dumps(tree.plain()), strict=True)
    except ValidationError as error:
        raise config_error(error, tree) from None
    for name in TOOL_OPTIONS:
        if name in settings.tools:
            _check_options(name, TOOL_OPTIONS[name], tree)
    return settings


def _check_options(name: str, options: type[BaseModel], tree: SettingNode) -> None:
    at = ("tools", name)
    written = {key: node.plain() for key, node in tree.at(at).table.items() if key in options.model_fields}
    try:
        options.model_validate_json(json.dumps(written), strict=True)
    except ValidationError as error:
        raise config_error(error, tree, at) from None


def own_effects(tree: SettingNode) -> tuple[SettingNode, tuple["EffectRow", ...], list[str]]:
    """Return the tree without wrong rows of `command_effects`, the other rows, and messages about the wrong ones.

    Cards are made without a wrong row, since no card at all would be worse.
    """
    written = tree.table.get(_EFFECTS)
    if written is None or not written.items:
        return tree, (), []
    with without_working_folder():
        from vibe_jupyter.permissions.shell.effect_rows import read_row  # noqa: PLC0415 (only if there are any)
    rows: list[EffectRow] = []
    nodes: list[SettingNode] = []
    told: list[str] = []
    for number, node in enumerate(written.items):
        try:
            rows.append(read_row(node.plain()))
            nodes.append(node)
        except ValidationError as error:
            told.append(f"{config_error(error, tree, (_EFFECTS, number))} Until then this row is left out.")
    table = {**tree.table, _EFFECTS: SettingNode(nodes, written.origin)}
    return SettingNode(table, tree.origin), tuple(rows), told


def move_renamed_keys(layer: SettingNode) -> tuple[SettingNode, list[str]]:
    """Move renamed and misplaced keys of a layer to their current places.

    Returns the layer and messages for the user.
    """
    table = {RENAMED.get(key, key): node for key, node in layer.table.items()}
    context = table.get("project_context")
    if context is None:
        return SettingNode(table, layer.origin), []
    strayed = {key: node for key, node in context.table.items() if key.startswith(HOISTED)}
    rest = {key: node for key, node in context.table.items() if key not in strayed}
    table = {**strayed, **table, "project_context": SettingNode(rest, context.origin) if context.is_table else context}
    told = [
        f"{node.origin.source}: {key} belongs to the top of the file, before the first [table]; below "
        "[project_context] it is accepted anyway."
        for key, node in strayed.items()
    ]
    return SettingNode(table, layer.origin), told


def unknown_keys(layer: SettingNode) -> list[str]:
    """Return a warning for each key of a layer that has no effect."""
    return list(_in_table(layer, Settings))


def _in_table(node: SettingNode, model: type[BaseModel]) -> Iterator[str]:
    unused = model.unused if issubclass(model, Entry) else frozenset[str]()
    for key, inner in node.table.items():
        field = model.model_fields.get(key)
        if field is not None and field.annotation == dict[str, ToolEntry]:
            yield from _in_tools(inner)
        elif model is Settings and key in _TOOL_LISTS:
            yield from _in_tool_list(inner)
        elif field is not None:
            for table, kind in tables_in(inner, field.annotation):
                yield from _in_table(table, kind)
        elif key not in unused:
            yield _unknown_key_text(inner, key, model.model_fields, is_top=model is Settings)


def _in_tools(tools: SettingNode) -> Iterator[str]:
    for name, tool in tools.table.items():
        options = TOOL_OPTIONS.get(name)
        if options is None:
            known = [*sorted(BUILT_IN), *OTHER_TOOLS]
            # Users have custom tools, so only report names that look like a typo.
            near = near_names(name, known, likeness=_SLIP) if name not in known else []
            if near:
                yield f"{tool.origin}: there is no tool {name}. Did you mean [tools.{near[0]}]?"
            continue
        for key, inner in tool.table.items():
            if key not in ToolEntry.model_fields and key not in options.model_fields and key not in UNUSED_OPTIONS:
                known = [*ToolEntry.model_fields, *options.model_fields]
                yield _unknown_key_text(inner, key, known, is_top=False)


def _in_tool_list(names: SettingNode) -> Iterator[str]:
    """Warn about typos in a list of tools, which would enable or disable the wrong ones. Skips patterns."""
    known = {*BUILT_IN, *OTHER_TOOLS, *(name for others in OTHER_NAMES.values() for name in others)}
    for item in names.items:
        name = str(item.value).casefold()
        if name not in known and not _IN_PATTERNS.intersection(name):
            near = near_names(name, sorted(known), likeness=_SLIP)
            if near:
                yield f"{item.origin}: there is no tool {item.value}. Did you mean {near[0]}?"


def _unknown_key_text(node: SettingNode, key: str, known: Collection[str], *, is_top: bool) -> str:
    where = f"{node.origin}: {'it' if node.origin.key else key} has no effect."
    if not is_top and key in Settings.model_fields:
        return f"{where} {key} belongs to the top of the file, before the first [table]."
    near = near_names(key, known)
    if near:
        return f"{where} Did you mean {near[0]}?"
    if is_secret_name(key):
        return f"{where} Do not put keys into this file: put them into the environment, or into .env beside it."
    return where


def tables_in(node: SettingNode, annotation: Any) -> Iterator[tuple[SettingNode, type[BaseModel]]]:
    """Yield the tables in a value, with the models that validate them."""
    kinds = list(_models_in(annotation))
    for table in node.items if node.is_list else [node]:
        fits = [kind for kind in kinds if _is_of_kind(table, kind)]
        if table.is_table and fits:
            yield table, fits[0]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _is_of_kind(table: SettingNode, kind: type[BaseModel]) -> bool:
    """Return whether `kind` is the model that validates a table, if there are several."""
    return kind not in MODELS.values() or MODELS[server_kind(table.plain())] is kind


def describe_problem(problem: ErrorDetails) -> str:
    """Describe what is expected. Never quotes the value, which may be a secret."""
    kind, context = problem["type"], problem.get("ctx") or {}
    if kind in _WANTED:
        return _WANTED[kind]
    if kind in _BOUNDS:
        return f"expected {_BOUNDS[kind].format(**context)}"
    return _WITH_WORDS[kind](context) if kind in _WITH_WORDS else problem["msg"]


def config_error(error: ValidationError, tree: SettingNode, at: tuple[Step, ...] = ()) -> ConfigError:
    """Build an error from the first problem, naming the file or variable, and the key."""
    problem = error.errors(include_url=False)[0]
    path = (*at, *problem["loc"])
    origin = tree.at(path).origin
    where = str(origin) if origin.key else f"{origin}: {key_text(path, tree)}"
    is_missing = problem["type"] == "missing" and origin.key
    said = f"{path[-1]} is required but missing" if is_missing else describe_problem(problem)
    return ConfigError(f"{where}: {said}. Fix it, then try again.")


def key_text(path: tuple[Step, ...], tree: SettingNode) -> str:
    """Format a key's path, with entries of lists by name."""
    words: list[str] = []
    node = tree
    for step in path:
        inner = node.at((step,))
        is_tag = inner is node and node.is_table and step in MODELS
        if isinstance(step, int):
            entry = inner.table.get("alias", inner.table.get("name", inner.table.get("id")))
            words.append(str(entry.value) if entry is not None and isinstance(entry.value, str) else str(step))
        elif not is_tag:
            words.append(step)
        node = inner
    return ".".join(words)
