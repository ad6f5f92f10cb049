"""Constructors and accessors for Chat Completions messages, used to translate requests of other APIs."""

from collections.abc import Iterable
from typing import cast

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_request import Object
from vibe_jupyter.gateway.refusals import Refused


def objects(value: JsonValue, param: str) -> list[Object]:
    """Return the value as a list of JSON objects.

    Raises:
        Refused: it is something else, or an object's type isn't a string.
    """
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Refused(422, f"{param}: a list of objects is expected", code="validation_error", param=param)
    found = cast("list[Object]", value)
    if not all(isinstance(one.get("type"), str | None) for one in found):
        raise Refused(422, f"{param}: a type is a text", code="validation_error", param=param)
    return found


def text_at(item: Object, name: str, param: str) -> str:
    """Return a string member of an item.

    Raises:
        Refused: the member is missing or not a string.
    """
    value = item.get(name)
    if not isinstance(value, str):
        raise Refused(422, f"{param}.{name}: a text is expected", code="validation_error", param=f"{param}.{name}")
    return value


def text_part(text: str) -> Object:
    return {"type": "text", "text": text}


def image_part(url: str, detail: JsonValue = None) -> Object:
    """Build an image part from a URL, which may be a data URL."""
    image: Object = {"url": url, "detail": detail} if isinstance(detail, str) else {"url": url}
    return {"type": "image_url", "image_url": image}


def content_of(parts: Iterable[Object]) -> JsonValue:
    """Return the content for some parts: a plain string if all are text, since every model server accepts that."""
    all_parts = list(parts)
    if all(part["type"] == "text" for part in all_parts):
        return "\n".join(str(part["text"]) for part in all_parts)
    return cast("list[JsonValue]", all_parts)


def call_part(call_id: str, name: str, arguments: str) -> Object:
    """Build an entry of `tool_calls`."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result_message(call_id: str, content: JsonValue) -> Object:
    """Build the message with a call's result."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def function_tool(name: str, description: JsonValue, parameters: JsonValue, strict: JsonValue = None) -> Object:
    """Build an entry of `tools`. Members that are None are left out."""
    function: Object = {"name": name, "description": description, "parameters": parameters, "strict": strict}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}


def function_choice(name: str) -> Object:
    """Build a `tool_choice` that forces one function."""
    return {"type": "function", "function": {"name": name}}


def call_ids(message: Object) -> list[str]:
    """Return the IDs of a message's tool calls in order."""
    calls = message.get("tool_calls")
    return [str(call.get("id")) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
