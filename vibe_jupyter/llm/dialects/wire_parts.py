"""Request parts shared by all dialects: message content, calls, and tool schemas that servers accept.

Dropping a keyword only loosens a schema: the tool validates its arguments before it runs.
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
_MAX_NAME = 64  # characters of a tool's name

Parts = tuple[TextPart | ImagePart, ...]

MAX_DEPTH = 40  # nesting depth; deeper schemas accept anything
MAX_NODES = 5_000  # subschemas; inlining multiplies a definition that is referenced repeatedly

Schema = dict[str, JsonValue]

_FORMATS = frozenset({"date", "time", "date-time"})  # known to every server; others are rejected by some
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_DROPPED = frozenset({"$schema", "$id", "$comment", "$anchor", "$vocabulary", "examples", "deprecated"})
# OpenAI rejects them at the top level.
_NOT_AT_TOP = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_NESTED = _MAPS | _LISTS | _SINGLE
_BOUNDS = frozenset({"exclusiveMinimum", "exclusiveMaximum"})
# Lookaround groups, back references and anchors in the middle, which llama.cpp can't convert to a grammar.
_GRAMMAR_BREAKER = lazy_pattern(r"\(\?|\\[1-9bBAZkpPGzQE]")


def dump_json(value: JsonValue) -> bytes:
    """Encode compact JSON as UTF-8."""
    return repair_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def tool_list(tools: Sequence[ToolSpec], *, inline: bool = False) -> bytes:
    """Encode a list of tools. Empty if there are none, since some servers reject an empty list.

    Args:
        tools: The tools to offer.
        inline: See `sanitise_schema`.
    """
    if not tools:
        return b""
    functions: list[JsonValue] = [
        {"name": t.name, "description": t.description, "parameters": sanitise_schema(t.parameters, inline=inline)}
        for t in tools
    ]
    return dump_json([{"type": "function", "function": function} for function in functions])


def wire_name(name: str) -> str:
    """Replace characters that no server accepts in a name.

    A model may invent such a name, and sending it back would fail every later request.
    """
    return _NO_NAME_CHARACTER.sub("_", name)[:_MAX_NAME] or "unnamed"


def call_arguments(text: str) -> dict[str, JsonValue]:
    """Parse the arguments of a call in the history, or return none if they are malformed.

    Malformed arguments would make servers fail every later request. The tool's message explains what was wrong with
    them.
    """
    try:
        arguments = json_text.parse_json_object(text)
        # ValueErrors: a lone surrogate can't be encoded, and a number such as 1e999 is parsed as infinity, which JSON
        # lacks.
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return {}
    return arguments


def call_arguments_text(text: str) -> str:
    """Return the arguments as the model wrote them if they are valid, which preserves the server's prompt cache."""
    return text if call_arguments(text) else "{}"


def join_text(parts: Parts) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, TextPart))


def image_parts(parts: Parts) -> list[ImagePart]:
    return [part for part in parts if isinstance(part, ImagePart)]


def text_with_images_note(parts: Parts, *, sees_images: bool) -> str:
    """Join the text parts and note the number of omitted images."""
    images = 0 if sees_images else len(image_parts(parts))
    notes = [f"({images} image{'s' if images > 1 else ''} not shown here)"] if images else []
    return "\n\n".join(filter(None, [join_text(parts), *notes]))


def result_text(parts: Parts, *, sees_images: bool) -> str:
    """Return the text of a tool result. Never empty, since some servers reject empty content.

    Images follow in a separate user message (`vibe_jupyter.llm.client`).
    """
    images = image_parts(parts)
    follows = f"(its image{'s follow' if len(images) > 1 else ' follows'} below)" if images and sees_images else ""
    return "\n\n".join(filter(None, [text_with_images_note(parts, sees_images=sees_images), follows])) or "(no output)"


def user_content(parts: Parts, *, sees_images: bool) -> JsonValue:
    """Return a user message's content for Chat Completions: text, or a list of parts if there are images to show."""
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
    """Convert a published JSON schema to an object schema that servers accept.

    Args:
        schema: The schema as published.
        inline: Whether to replace references by their definitions and make nullable types non-nullable, for servers
            that know types and properties only.
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
    """Recursive cleaner of one schema."""

    def __init__(self, root: Schema, *, inline: bool) -> None:
        self._root = root
        self._inline = inline
        self._nodes = 0

    def clean(self, node: JsonValue, depth: int, within: tuple[str, ...]) -> Schema:
        """Clean a subschema. `within` lists the references being inlined, to break cycles."""
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
        """Resolve a local reference, or return None."""
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
    """Drop keywords and values that some server rejects."""
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
    """Return whether JSON can represent a value: Python's defaults and limits may be infinite."""
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
    """Drop formats and patterns that some server rejects. The description then mentions the pattern."""
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
    """Return whether llama.cpp can convert a pattern to a grammar: anchored at both ends, with common syntax only."""
    return (
        isinstance(pattern, str)
        and pattern.startswith("^")
        and pattern.endswith("$")
        and not pattern.endswith("\\$")
        and not _GRAMMAR_BREAKER.search(pattern)
    )


def _without_null(schema: Schema) -> Schema:
    """Remove null from the types of a schema."""
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
