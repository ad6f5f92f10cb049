"""Vendor fields of answers, carried through clients and the store and back to the model server that sent them.

Until a request is written they are stored in their message under `ECHO`, with the origin: a mark of the server and the
model. Clients of Messages and Responses carry them as a token, in the signature of a thinking block or the encrypted
content of a reasoning item. The token contains nothing secret: only what the client receives anyway, or what no other
model server could read.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.echoes import Echo, EchoedFields, echo_of, fitted, joined
from vibe_jupyter.llm.request import IN_CONTENT, EchoTerms, Model
from vibe_jupyter.llm.vendor_fields import is_flat
from vibe_jupyter.protocol import AssistantMessage, ReasoningPart

Object = dict[str, JsonValue]

# Field of a message with its origin, vendor fields, fields of calls (by ID), and reasoning that was part of the
# content.
ECHO: Final = "x_vibe_echo"
_TOKEN: Final = "vibe1."
LONGEST_TOKEN: Final = 16 * 1024 * 1024  # characters
_PARTS: Final = ("fields", "calls")


def kept_echo(message: AssistantMessage, origin: str) -> Object:
    """Return the vendor fields of an answer, or {} if it has none."""
    echo = echo_of(message)
    calls = {call.id: call.beside for call in message.calls if call.beside}
    thoughts = _thinking_parts(message) if message.reasoning_field == IN_CONTENT else []
    made: Object = {"fields": echo.fields, "calls": cast("JsonValue", calls), "thoughts": thoughts}
    return {"origin": origin, **{name: value for name, value in made.items() if value}} if any(made.values()) else {}


def with_echo(raw: Object, echo: Object) -> Object:
    """Attach vendor fields to a message, unless they are empty."""
    return {**raw, ECHO: echo} if echo else raw


def thoughts_echo(origin: str, field: str, text: str, signature: str | None = None) -> Object:
    """Return the vendor fields for a reasoning block or item, or {} if the reasoning had no field of its own."""
    if not field:
        return {}
    if field == IN_CONTENT:
        return {"origin": origin, "thoughts": [_thinking_part(text, signature)]}
    return {"origin": origin, "fields": {field: text}}


def without_thoughts(echo: Object, field: str) -> Object:
    """Return the vendor fields without the reasoning, which is carried by its own block or item."""
    fields = {name: value for name, value in cast("Object", echo.get("fields") or {}).items() if name != field}
    rest = {name: value for name, value in echo.items() if name not in ("fields", "thoughts")}
    rest |= {"fields": fields} if fields else {}
    return rest if len(rest) > 1 else {}


def join_echoes(first: Object, second: Object) -> Object:
    """Merge two parts of one answer's vendor fields, concatenating the texts of a field.

    If the parts have different origins, the first wins.
    """
    if not first or not second or first["origin"] != second["origin"]:
        return first or second
    fields: Object = dict(cast("Object", first.get("fields") or {}))
    for name, value in cast("Object", second.get("fields") or {}).items():
        had = fields.get(name)
        fields[name] = had + value if isinstance(had, str) and isinstance(value, str) else value
    calls = {**cast("Object", first.get("calls") or {}), **cast("Object", second.get("calls") or {})}
    thoughts = [
        *cast("list[JsonValue]", first.get("thoughts") or []),
        *cast("list[JsonValue]", second.get("thoughts") or []),
    ]
    return {"origin": first["origin"], "fields": fields, "calls": calls, "thoughts": thoughts}


# ---- Tokens ----


def token_of(echo: Object) -> str:
    """Encode vendor fields as a token for the client, or "" if there are none."""
    return _TOKEN + base64.b64encode(json.dumps(echo, separators=(",", ":")).encode()).decode() if echo else ""


def echo_in(token: JsonValue) -> Object:
    """Decode a token. Returns {} for any other text, such as the signature of another vendor."""
    if not isinstance(token, str) or not token.startswith(_TOKEN) or len(token) > LONGEST_TOKEN:
        return {}
    try:
        found = json_text.parse_json_object(base64.b64decode(token[len(_TOKEN) :], validate=True).decode())
    except (ValueError, binascii.Error):
        return {}
    is_sound = isinstance(found.get("origin"), str) and all(isinstance(found.get(one, {}), dict) for one in _PARTS)
    return found if is_sound and isinstance(found.get("thoughts", []), list) and is_flat(found) else {}


def named_thoughts(token: JsonValue, text: JsonValue) -> Object:
    """Return the vendor fields of a thinking block. Its signature names the field that its text belongs to."""
    echo = echo_in(token)
    field, signature = echo.get("field"), echo.get("signature")
    if not isinstance(field, str) or not isinstance(text, str):
        return {}
    return thoughts_echo(str(echo["origin"]), field, text, signature if isinstance(signature, str) else None)


# ---- Requests ----


def echoed(messages: Sequence[JsonValue], model: Model, terms: EchoTerms) -> list[EchoedFields]:
    """Return the vendor fields to send with each answer of a conversation, and with each of its calls."""
    return [_fitted(one, model, terms) for one in messages if isinstance(one, dict) and one.get("role") == "assistant"]


def resolved(messages: Sequence[JsonValue], model: Model, terms: EchoTerms, *, fills: bool) -> list[JsonValue]:
    """Return the conversation with the vendor fields of this model restored and those of other models dropped.

    Args:
        messages: the conversation.
        model: recipient of the request.
        terms: fields that its server rejects or requires.
        fills: True to add fillers to answers that lack a required field.
    """
    return [_resolved(one, model, terms) if _is_concerned(one, fills=fills) else one for one in messages]


def _is_concerned(message: JsonValue, *, fills: bool) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant" and (fills or ECHO in message)


def _resolved(message: JsonValue, model: Model, terms: EchoTerms) -> JsonValue:
    given = cast("Object", message)
    plain = {name: value for name, value in given.items() if name != ECHO}
    fields, beside = _fitted(given, model, terms)
    made = joined(plain, fields)
    if calls := _calls(given):
        made["tool_calls"] = [joined(call, extra) for call, extra in zip(calls, beside, strict=True)]
    echo = _object(given.get(ECHO))
    thoughts, content = echo.get("thoughts"), made.get("content")
    if isinstance(thoughts, list) and echo.get("origin") == model.origin and isinstance(content, str):
        made["content"] = [*thoughts, {"type": "text", "text": content}] if content else thoughts
    return made


def _fitted(message: Object, model: Model, terms: EchoTerms) -> EchoedFields:
    kept = _object(message.get(ECHO))
    is_own = kept.get("origin") == model.origin
    fields, beside = (_object(kept.get(name)) if is_own else Object() for name in _PARTS)
    calls = tuple(_object(beside.get(str(call.get("id")))) for call in _calls(message))
    return fitted(Echo(model.origin, fields, calls), terms)


def _object(value: JsonValue) -> Object:
    return value if isinstance(value, dict) else {}


def _calls(message: Object) -> list[Object]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _thinking_parts(message: AssistantMessage) -> list[JsonValue]:
    return [_thinking_part(one.text, one.signature) for one in message.parts if isinstance(one, ReasoningPart)]


def _thinking_part(text: str, signature: str | None) -> Object:
    part: Object = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
    return {**part, "signature": signature} if signature else part
