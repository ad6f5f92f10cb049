"""Convert forms of Chat Completions that only some servers send to the usual one.

Each form is unambiguous. Chunks in the usual form don't pass through here.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern

Object = dict[str, JsonValue]

# Event names that some servers add
CHUNK_NAMES: Final = frozenset({"chat.completion.chunk", "chunk", "data"})
# Further names of the reasoning field
MORE_REASONING_FIELDS: Final = ("thinking", "reasoning_text", "thought", "thoughts")
# Fields with reasoning in parts. Shown if no field has it as text, and sent back unchanged
REASONING_LISTS: Final = ("reasoning_details", "thinking_blocks")
_ARGUMENTS: Final = ("arguments", "parameters", "input", "args")
# Types of text parts
_TEXTS: Final = frozenset({None, "text", "output_text"})
# Fields of an error without the field `error`; chunks of answers have none of them
_ERROR_SIGNS: Final = ("detail", "code", "error_code", "error_type", "status_code", "errors")
_NO_ERROR: Final[tuple[JsonValue, ...]] = (200, "200", "ok", "OK", "success", "Success")
_OF_CHUNK: Final = frozenset({"choices", "usage", "error", "message"})
_DATA: Final = lazy_pattern(r"(?:\s*data:)+")
_DONE: Final = lazy_pattern(r"""[\s"'<\[(]*(?:done|end)[\s"'>\])]*""", re.IGNORECASE)
_LENIENT: Final = json.JSONDecoder(strict=False)


def chunks_in(data: str, unreadable: Sequence[JsonValue] | None) -> Sequence[JsonValue] | None:
    """Parse an event that isn't JSON: a chunk per line, a doubled field name, or raw control characters.

    Args:
        data: The event's data.
        unreadable: Returned if it can't be parsed.
    """
    lines = [_DATA.sub("", line, count=1).strip() for line in data.split("\n")]
    try:
        return ["[DONE]" if is_done(line) else _read_leniently(line) for line in lines if line]
    except ValueError:
        return unreadable


def _read_leniently(text: str) -> JsonValue:
    """Parse JSON with control characters in its strings, or with NaN in fields that aren't read."""
    try:
        chunk = _LENIENT.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(chunk, dict) or chunk.keys().isdisjoint(_OF_CHUNK):
        raise ValueError("no piece of an answer")
    return cast("JsonValue", chunk)


def is_done(data: str) -> bool:
    """Return whether this is another spelling of the end mark ``[DONE]``."""
    return _DONE.fullmatch(data) is not None


def is_error(chunk: Object) -> bool:
    """Return whether a chunk is an error without the field `error`."""
    if "choices" in chunk or "usage" in chunk:
        return False
    return any(chunk.get(sign) and chunk[sign] not in _NO_ERROR for sign in _ERROR_SIGNS)


def delta_of(choice: Object) -> Object | None:
    """Return the content of a choice without a delta: a message, or text as in the older Completions API."""
    message, text = choice.get("message"), choice.get("text")
    if isinstance(message, dict):
        return message
    return {"content": text} if isinstance(text, str) else None


def calls_of(delta: Object) -> list[JsonValue]:
    """Return calls that aren't in a list: a single one, or the function call of older APIs."""
    calls, old = delta.get("tool_calls"), delta.get("function_call")
    if isinstance(calls, dict):
        return [calls]
    return [{"index": 0, "function": old}] if isinstance(old, dict) else []


def function_of(call: Object) -> Object:
    """Return the function of a call that has its name next to it, or its arguments under another name."""
    inner = call.get("function")
    function = inner if isinstance(inner, dict) else call if isinstance(call.get("name"), str) else {}
    if "arguments" in function:
        return function if function is inner else {name: function[name] for name in ("name", "arguments")}
    given = next((function[name] for name in _ARGUMENTS if name in function), None)
    return {"name": function.get("name"), "arguments": given} if given is not None or function is call else function


def parts_of(content: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Return the parts of content that isn't a string, each with its kind: text, thought or call."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            yield "text", part
        elif isinstance(part, dict):
            kind = part.get("type")
            if kind in _TEXTS:
                yield "text", part.get("text")
            elif kind == "refusal":
                yield "text", part.get("refusal")
            elif kind in ("thinking", "reasoning"):
                yield str(kind), part
            elif kind in ("tool_use", "tool_call", "function"):
                yield "call", part


def thought_texts(thought: JsonValue) -> Iterator[str]:
    """Return the texts of a thought: a string, or parts of any usual form."""
    if isinstance(thought, str):
        yield thought
    elif isinstance(thought, list):
        for one in thought:
            yield from thought_texts(one)
    elif isinstance(thought, dict):
        inner = next((thought[name] for name in ("text", "thinking", "summary", "content") if thought.get(name)), None)
        if inner is not None:
            yield from thought_texts(inner)


def whole_number(value: JsonValue) -> int | None:
    """Return a whole number, which may be a string or end in ``.0``, or None for anything else."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            return int(value) if value.is_integer() else None
        case str():
            return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None
        case _:
            return None


def finish_reasons(choice: Object) -> list[str]:
    """Return why an answer ended, in the words of its server and of the one behind it."""
    said: list[str] = []
    for name in ("finish_reason", "native_finish_reason"):
        reason = choice.get(name)
        kind = reason.get("type") if isinstance(reason, dict) else reason
        if isinstance(kind, str):
            said.append(kind)
    return said
