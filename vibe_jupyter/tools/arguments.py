"""Resolve a tool call: find the tool, coerce the arguments to its schema, and explain what is wrong.

Models send null for optional arguments, a single item instead of a list, and JSON inside strings. These are accepted
for every tool if the schema leaves no doubt. Anything else that is invalid is rejected with the list of arguments.
"""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from vibe_jupyter.errors import ToolError
from vibe_jupyter.llm.json_text import parse_json
from vibe_jupyter.near_names import near_names
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.tools.contract import Tool, Toolset, present_names, schema_of

DEPTH: Final = 20  # levels of a schema that are followed, since it may be untrusted and recursive
NESTED: Final = 3  # nesting of alternatives (anyOf, oneOf, allOf)
BRANCHES: Final = 8  # number of alternatives; if there are more, values are not coerced
USAGE_SIZE: Final = 600  # characters of the usage text of a tool
# Python's spelling of JSON constants
_SPELLED: Final[Mapping[str, JsonValue]] = {"True": True, "False": False, "None": None}

# Validation errors whose message names one of our classes, which mean nothing to a model
_OF_CLASSES: Final = frozenset({"model_type", "model_attributes_type", "dict_type"})

_Schema = Mapping[str, Any]


class MeantCall(NamedTuple):
    """A resolved call."""

    tool: Tool[Any]
    args: BaseModel
    arguments: str  # JSON text of the coerced arguments; the original text if nothing was coerced


def find_meant(name: str, text: str, tools: Toolset) -> MeantCall:
    """Resolve a call's tool and arguments.

    Args:
        name: tool name as written by the model.
        text: JSON text of the arguments.
        tools: available tools.

    Raises:
        ToolError: the tool doesn't exist or the arguments are invalid. The message explains how to call it.
    """
    from vibe_jupyter.llm.call_repairs import read_arguments  # noqa: PLC0415 - imported with the first call

    tool = find_tool(name, tools, text)
    schema = functools.cache(lambda: schema_of(tool.arguments))
    try:
        read = read_arguments(text)
    except ValueError as error:
        problem = f"The arguments of {name} are not one JSON object: {error}."
        raise ToolError(f"{problem} Nothing was run; send the call again. {usage_text(name, schema())}") from None
    given = read.value
    try:
        return MeantCall(tool, tool.arguments.model_validate(given), read.text if read.repair else text)
    except ValidationError as error:
        wrong = error
    fitted = fit_value(given, schema(), schema())
    if fitted != given:
        try:
            return MeantCall(tool, tool.arguments.model_validate(fitted), json.dumps(fitted, ensure_ascii=False))
        except ValidationError as error:
            wrong = error
    raise ToolError(explain_errors(name, wrong, schema()))


def find_tool(name: str, tools: Toolset, text: str = "") -> Tool[Any]:
    """Return the tool of this name, ignoring case and artifacts that model servers add.

    Args:
        name: tool name as written by the model.
        tools: available tools.
        text: the arguments, from which the intended tool is guessed.

    Raises:
        ToolError: there is no such tool. The message suggests the closest and lists all.
    """
    if (tool := tools.find(name)) is not None:
        return tool
    from vibe_jupyter.llm.call_repairs import meant_name, without_residue  # noqa: PLC0415 - wrong names are rare

    specs = tools.specs()
    names = [spec.name for spec in specs]
    bare = without_residue(name)
    if (tool := tools.find(meant_name(name, names) or bare)) is not None:
        return tool
    (present,) = present_names([bare.casefold()])
    if present in names and present != bare.casefold():
        hint = f" It is called {present} now."
    else:
        taking = _taking(text, specs, bare)
        near = _near_name(bare, taking, 0.0) if taking else _near_name(bare, names)
        hint = f" Did you mean {near}?" if near else ""
    raise ToolError(f"There is no tool {name!r}.{hint} The tools are: {', '.join(names)}.")


def _taking(text: str, specs: Iterable[ToolSpec], name: str) -> list[str]:
    """Return the tools that accept exactly these arguments, preferring those whose name starts with the same word."""
    from vibe_jupyter.llm.call_repairs import read_arguments  # noqa: PLC0415 - wrong names are rare

    try:
        given = set(read_arguments(text).value)
    except ValueError:
        return []
    fitting = [
        spec.name
        for spec in specs
        if given
        and set(_listing(spec.parameters.get("required"))) <= given <= set(_mapping(spec.parameters.get("properties")))
    ]
    word = re.split(r"\W|_", name.casefold())[0]
    return [one for one in fitting if len(fitting) > 1 and one.split("_")[0] == word] or fitting


def _near_name(name: str, known: Sequence[str], likeness: float = 0.6) -> str:
    """Return the only name with this prefix, else the closest, or ""."""
    begin = [one for one in known if name and one.casefold().startswith(name.casefold())]
    near = begin if len(begin) == 1 else near_names(name.casefold(), known, likeness=likeness)
    return near[0] if near else ""


def _parsed_text(text: str) -> JsonValue:
    """Parse a text as JSON, or return it unchanged."""
    text = text.strip()
    if text in _SPELLED:
        return _SPELLED[text]
    try:
        return parse_json(text)
    except ValueError:
        return text


def fit_value(value: JsonValue, schema: object, root: _Schema, depth: int = 0) -> JsonValue:
    """Coerce a value to its schema where this is unambiguous.

    Args:
        value: the value as sent.
        schema: its schema, possibly untrusted.
        root: the whole schema, for resolving references.
        depth: current level of nesting.
    """
    if depth > DEPTH:
        return value
    node = _resolved(schema, root)
    value = _as_kind(value, _kinds(node, root))
    if isinstance(value, dict):
        return _fit_object(value, _part(node, "properties", root), root, depth)
    if isinstance(value, list):
        items = _part(node, "items", root).get("items")
        return [fit_value(item, items, root, depth + 1) for item in value]
    return value


def _fit_object(given: dict[str, JsonValue], node: _Schema, root: _Schema, depth: int) -> JsonValue:
    """Coerce the properties of an object, and drop nulls that stand for a default."""
    properties = _mapping(node.get("properties"))
    required = _listing(node.get("required"))
    fitted: dict[str, JsonValue] = {}
    for name, item in given.items():
        if name not in properties:
            fitted[name] = item
            continue
        item = fit_value(item, properties[name], root, depth + 1)
        kinds = _kinds(_resolved(properties[name], root), root)
        if item is not None or name in required or kinds is None or "null" in kinds:
            fitted[name] = item
    return fitted


def _as_kind(value: JsonValue, kinds: frozenset[str] | None) -> JsonValue:
    if kinds is None or _is_of(value, kinds):
        return value
    if isinstance(value, str):
        parsed = _parsed_text(value)
        if parsed is None or _is_of(parsed, kinds):
            return parsed
    return [value] if "array" in kinds and value is not None else value


def _is_of(value: JsonValue, kinds: frozenset[str]) -> bool:
    kind = _kind_of(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _kinds(node: _Schema, root: _Schema, nested: int = 0) -> frozenset[str] | None:
    """Return the JSON types that a schema accepts, or None if unspecified."""
    kind = node.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(map(str, cast("list[Any]", kind)))
    if isinstance(node.get("enum"), list):
        return frozenset(map(_kind_of, cast("list[Any]", node["enum"])))
    if "const" in node:
        return frozenset({_kind_of(node["const"])})
    branches = [_kinds(one, root, nested + 1) for one in _branches(node, root)] if nested < NESTED else []
    known = [one for one in branches if one is not None]
    return frozenset[str]().union(*known) if known and len(known) == len(branches) else None


def _part(node: _Schema, keyword: str, root: _Schema) -> _Schema:
    """Return the schema, or its only alternative, that has this keyword."""
    if keyword in node:
        return node
    found = [one for one in _branches(node, root) if keyword in one]
    return found[0] if len(found) == 1 else {}


def _branches(node: _Schema, root: _Schema) -> list[_Schema]:
    for word in ("anyOf", "oneOf", "allOf"):
        given = _listing(node.get(word))
        if given:
            return [_resolved(one, root) for one in given] if len(given) <= BRANCHES else []
    return []


def _listing(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else ()


def _resolved(schema: object, root: _Schema) -> _Schema:
    """Resolve references to local definitions."""
    node = _mapping(schema)
    for _ in range(DEPTH):
        place = node.get("$ref")
        if not isinstance(place, str) or not place.startswith("#/"):
            return node
        target: object = root
        for step in place[2:].split("/"):
            target = _mapping(target).get(step)
        node = _mapping(target)
    return {}


def _mapping(value: object) -> _Schema:
    return cast("_Schema", value) if isinstance(value, Mapping) else {}


def usage_text(name: str, schema: _Schema) -> str:
    """Describe a tool's arguments in one line, such as ``It takes code: string (required), keep: boolean.``"""
    node = _part(schema, "properties", schema)
    required = _listing(node.get("required"))
    said = [
        f"{one}: {_type_text(_mapping(value), schema)}{' (required)' if one in required else ''}"
        for one, value in _listed(node)
    ]
    text = ", ".join(said)
    if len(text) > USAGE_SIZE:
        text = f"{text[:USAGE_SIZE].rpartition(',')[0]}, …"
    return f"{name} takes {text}." if text else f"{name} takes no arguments."


def _listed(node: _Schema) -> Iterator[tuple[str, object]]:
    """Yield the properties in the published schema."""
    for name, value in _mapping(node.get("properties")).items():
        if "unlisted" not in _mapping(value):
            yield name, value


def _type_text(schema: _Schema, root: _Schema, nested: int = 0) -> str:
    node = _resolved(schema, root)
    if isinstance(node.get("enum"), list):
        return " or ".join(json.dumps(one, ensure_ascii=False) for one in node["enum"])
    kinds = [kind for kind in sorted(_kinds(node, root) or ()) if kind != "null"]
    if kinds == ["array"] and nested < NESTED:
        items = _part(node, "items", root).get("items")
        return f"list of {_type_text(_mapping(items), root, nested + 1)}"
    if kinds == ["object"] and (names := [name for name, _ in _listed(_part(node, "properties", root))]):
        return f"object with {', '.join(names)}"
    return " or ".join(kinds) or "anything"


def explain_errors(name: str, error: ValidationError, schema: _Schema) -> str:
    """Explain validation errors, with suggestions for unknown arguments and the tool's usage."""
    problems = "; ".join(_problem_text(problem, schema) for problem in error.errors(include_url=False))
    return f"Wrong arguments for {name}: {problems}. Nothing was run. {usage_text(name, schema)}"


def _problem_text(problem: ErrorDetails, schema: _Schema) -> str:
    *above, last = problem["loc"] or ("arguments",)
    place = ".".join(str(step) for step in (*above, last))
    if problem["type"] in _OF_CLASSES:
        return f"{place}: Input should be {_type_text(_schema_at(problem['loc'], schema), schema)}"
    if problem["type"] == "value_error":  # raised by one of the tool's validators
        words = problem["msg"].removeprefix("Value error, ")
        return f"{place}: {words}" if problem["loc"] else words
    if problem["type"] != "extra_forbidden":
        return f"{place}: {problem['msg']}"
    known = [one for one, _ in _listed(_node_at(above, schema))]
    near = _near_name(str(last), known)
    where = f"{'.'.join(map(str, above))}: " if above else ""
    hint = f", did you mean {near!r}?" if near else ""
    return f"{where}there is no argument {str(last)!r}{hint} ({', '.join(known)})"


def _schema_at(place: Sequence[int | str], schema: _Schema) -> _Schema:
    """Return the schema of the value at a location in the arguments."""
    node = schema
    for step in place:
        keyword = "items" if isinstance(step, int) else "properties"
        inner = _part(node, keyword, schema).get(keyword)
        node = _resolved(inner if isinstance(step, int) else _mapping(inner).get(step), schema)
    return node


def _node_at(place: Sequence[int | str], schema: _Schema) -> _Schema:
    """Return the object schema at a location in the arguments."""
    node = _part(schema, "properties", schema)
    for step in place:
        if isinstance(step, int):
            node = _resolved(_part(node, "items", schema).get("items"), schema)
        elif step in _mapping(node.get("properties")):
            node = _resolved(_mapping(node["properties"])[step], schema)
    return _part(node, "properties", schema)
