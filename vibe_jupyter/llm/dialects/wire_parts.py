"""Pieces of a request that all dialects write alike: messages, calls, and schemas of tools as servers take them.

What is left out only loosens a schema: arguments are checked by their own tool before it runs.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.protocol import ImagePart, TextPart, ToolSpec

_NO_NAME_CHARACTER = lazy_pattern(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64
"""Characters of a tool's name."""

Parts = tuple[TextPart | ImagePart, ...]

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
_NESTED = _MAPS | _LISTS | _SINGLE
_BOUNDS = frozenset({"exclusiveMinimum", "exclusiveMaximum"})
_GRAMMAR_BREAKER = lazy_pattern(r"\(\?|\\[1-9bBAZkpPGzQE]")
"""Groups that look around, back references, anchors inside: not part of what llama.cpp makes grammars of."""


def dump_json(value: JsonValue) -> bytes:
    """JSON without blanks, in UTF-8."""
    return repair_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def tool_list(tools: Sequence[ToolSpec], *, inline: bool = False) -> bytes:
    """A JSON list, or nothing for no tools: some servers refuse an empty list. `inline`: see `sanitise_schema`."""
    if not tools:
        return b""
    functions: list[JsonValue] = [
        {"name": t.name, "description": t.description, "parameters": sanitise_schema(t.parameters, inline=inline)}
        for t in tools
    ]
    return dump_json([{"type": "function", "function": function} for function in functions])


def wire_name(name: str) -> str:
    """A name the model made up may be one no server takes back, and would fail every later request."""
    return _NO_NAME_CHARACTER.sub("_", name)[:_MAX_NAME] or "unnamed"


def call_arguments(text: str) -> dict[str, JsonValue]:
    """The arguments of a call in the history. Broken ones make servers fail every later request, so none are sent
    in their place; the tool's message says what was wrong with them."""
    try:
        arguments = json_text.parse_json_object(text)
        # A half character is no text, and a number like 1e999 is read as infinite, which JSON cannot say: ValueErrors.
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return {}
    return arguments


def call_arguments_text(text: str) -> str:
    """The same as JSON text: what the model wrote where it is sound, so that a server's cache knows it again."""
    return text if call_arguments(text) else "{}"


def join_text(parts: Parts) -> str:
    """The text of some parts."""
    return "\n\n".join(part.text for part in parts if isinstance(part, TextPart))


def image_parts(parts: Parts) -> list[ImagePart]:
    """The images among some parts."""
    return [part for part in parts if isinstance(part, ImagePart)]


def text_with_images_note(parts: Parts, *, sees_images: bool) -> str:
    """The text, and a word on images that are not sent."""
    images = 0 if sees_images else len(image_parts(parts))
    notes = [f"({images} image{'s' if images > 1 else ''} not shown here)"] if images else []
    return "\n\n".join(filter(None, [join_text(parts), *notes]))


def result_text(parts: Parts, *, sees_images: bool) -> str:
    """The text of a result. An empty one is said, since some servers refuse an empty content; images that are sent
    follow in a message of their own (`vibe_jupyter.llm.client`)."""
    images = image_parts(parts)
    follows = f"(its image{'s follow' if len(images) > 1 else ' follows'} below)" if images and sees_images else ""
    return "\n\n".join(filter(None, [text_with_images_note(parts, sees_images=sees_images), follows])) or "(no output)"


def user_content(parts: Parts, *, sees_images: bool) -> JsonValue:
    """What a user says, as Chat Completions put it: text, or a list where there are images to see."""
    if not sees_images or not image_parts(parts):
        return text_with_images_note(parts, sees_images=sees_images)
    return [_content_part(part) for part in parts]


def _content_part(part: TextPart | ImagePart) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def sanitise_schema(schema: Mapping[str, Any], *, inline: bool = False) -> Schema:
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
            return self._resolve_reference(node, depth, within)
        kept = {
            name: self._clean_value(name, value, depth, within) for name, value in node.items() if name not in _DROPPED
        }
        _loosen_schema(kept)
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

    def _resolve_reference(self, node: Schema, depth: int, within: tuple[str, ...]) -> Schema:
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

    def _clean_value(self, name: str, value: JsonValue, depth: int, within: tuple[str, ...]) -> JsonValue:
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


def _loosen_schema(schema: Schema) -> None:
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
    for name in [name for name, value in schema.items() if name not in _NESTED and not _is_finite(value)]:
        del schema[name]
    if schema.get("type") == "array":
        schema.setdefault("items", {})
    if not isinstance(schema.get("required", []), list):
        del schema["required"]


def _is_finite(value: JsonValue) -> bool:
    """Whether JSON can say it: Python's defaults and limits may be infinite, and JSON has no such number."""
    match value:
        case float():
            return math.isfinite(value)
        case list():
            return all(map(_is_finite, value))
        case dict():
            return all(map(_is_finite, value.values()))
        case _:
            return True


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
