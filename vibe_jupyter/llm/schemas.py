"""Schemas of tools as servers take them: MCP servers send any, and one that a server chokes on fails every request.

What is left out only loosens a schema: arguments are checked by their own tool before it runs.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import JsonValue

MAX_DEPTH = 40
"""Levels that are looked at; what is deeper may be anything."""
MAX_NODES = 5_000
"""Schemas within one; a definition that is named again and again multiplies when it is put in its place."""

Schema = dict[str, JsonValue]

_FORMATS = frozenset({"date", "time", "date-time"})
"""What all servers know; others are refused by some."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_DROPPED = frozenset({"$schema", "$id", "$comment", "$anchor", "$vocabulary", "examples", "deprecated"})
_NOT_AT_TOP = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"})
"""OpenAI refuses them outside of properties."""
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_BOUNDS = frozenset({"exclusiveMinimum", "exclusiveMaximum"})
_GRAMMAR_BREAKER = re.compile(r"\(\?|\\[1-9bBAZkpPGzQE]")
"""Groups that look around, back references, anchors inside: not part of what llama.cpp makes grammars of."""


def sanitised(schema: Mapping[str, Any], *, inline: bool = False) -> Schema:
    """A JSON schema of type object.

    Args:
        schema: as it was published.
        inline: put definitions where they are named, and write "this or null" as this: for servers that know types
            and properties only.
    """
    cleaner = _Cleaner(cast("Schema", dict(schema)), inline=inline)
    clean = cleaner.clean(cast("Schema", dict(schema)), 0, ())
    if "$ref" in clean:
        clean = cleaner.clean(cleaner.target(clean["$ref"]), 0, ())
    top = {name: value for name, value in clean.items() if name not in _NOT_AT_TOP and name != "$ref"}
    top["type"] = "object"
    properties = top.setdefault("properties", {})
    if isinstance(required := top.get("required"), list):
        known = cast("Schema", properties)
        top["required"] = [name for name in dict.fromkeys(map(str, required)) if name in known]
    if inline:
        top.pop("$defs", None)
        top.pop("definitions", None)
    return top


class _Cleaner:
    """One schema while it is gone through."""

    def __init__(self, root: Schema, *, inline: bool) -> None:
        self._root = root
        self._inline = inline
        self._nodes = 0

    def clean(self, node: JsonValue, depth: int, within: tuple[str, ...]) -> Schema:
        """A schema inside; `within` are the definitions it is part of."""
        self._nodes += 1
        if not isinstance(node, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {}
        if "$ref" in node:
            return self._reference(node, depth, within)
        kept = {name: self._value(name, value, depth, within) for name, value in node.items() if name not in _DROPPED}
        _loosen(kept)
        return _without_null(kept) if self._inline else kept

    def target(self, reference: JsonValue) -> JsonValue:
        """What a reference names; None for what is not in this schema."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: JsonValue = self._root
        for step in filter(None, reference[1:].split("/")):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def _reference(self, node: Schema, depth: int, within: tuple[str, ...]) -> Schema:
        reference = str(node["$ref"])
        target = self.target(reference)
        words: Schema = {"description": node["description"]} if isinstance(node.get("description"), str) else {}
        if not isinstance(target, dict):
            return words
        if not self._inline:
            return {"$ref": reference, **words}
        if reference in within:
            return {"type": "object", **words}
        return {**self.clean(target, depth + 1, (*within, reference)), **words}

    def _value(self, name: str, value: JsonValue, depth: int, within: tuple[str, ...]) -> JsonValue:
        if name in _MAPS:
            entries = value if isinstance(value, dict) else {}
            if self._inline and name in {"$defs", "definitions"}:
                return {}
            return {key: self.clean(entry, depth + 1, within) for key, entry in entries.items()}
        if name in _LISTS:
            return [self.clean(entry, depth + 1, within) for entry in (value if isinstance(value, list) else [])]
        if name in _SINGLE and not (name == "additionalProperties" and isinstance(value, bool)):
            return self.clean(value, depth + 1, within)
        return value


def _loosen(schema: Schema) -> None:
    """Leave out what some server refuses."""
    _loosen_text(schema)
    kinds = schema.get("type")
    if not all(isinstance(one, str) and one in _TYPES for one in (kinds if isinstance(kinds, list) else [kinds])):
        schema.pop("type", None)
    for name in _BOUNDS:
        if isinstance(schema.get(name), bool):
            del schema[name]
    for name in _LISTS:
        if name in schema and not schema[name]:
            del schema[name]
    if schema.get("type") == "array":
        schema.setdefault("items", {})
    if not isinstance(schema.get("required", []), list):
        del schema["required"]


def _loosen_text(schema: Schema) -> None:
    """The same for what is said of text."""
    pattern = schema.get("pattern")
    if pattern is not None and not _is_plain(pattern):
        del schema["pattern"]
        if isinstance(pattern, str):
            said = schema.get("description")
            hint = f"Must match {pattern}"
            schema["description"] = f"{said} ({hint})" if isinstance(said, str) and said else hint
    if not isinstance(form := schema.get("format"), str) or form not in _FORMATS:
        schema.pop("format", None)


def _is_plain(pattern: JsonValue) -> bool:
    """Whether llama.cpp can make a grammar of it: from end to end, and of what every dialect of patterns has."""
    return (
        isinstance(pattern, str)
        and pattern.startswith("^")
        and pattern.endswith("$")
        and not pattern.endswith("\\$")
        and not _GRAMMAR_BREAKER.search(pattern)
    )


def _without_null(schema: Schema) -> Schema:
    """The schema of a value that may also be null, as that of the value."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds or "null"
    for name in ("anyOf", "oneOf"):
        choices = schema.get(name)
        if not isinstance(choices, list):
            continue
        real = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
        if len(real) == 1 and isinstance(only := real[0], dict):
            return {**only, **{key: value for key, value in schema.items() if key != name}}
        schema[name] = real
    return schema
