"""A request as a scripted model got it, and what a strict server would say against it."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KNOWN_KEYS = frozenset(
    {"model", "messages", "temperature", "max_tokens", "stream", "stream_options", "tools", "tool_choice"}
)

Object = dict[str, Any]


@dataclass(frozen=True)
class ModelRequest:
    """One POST to ``/chat/completions``."""

    body: Object
    headers: Mapping[str, str]
    """Names in lower case."""
    path: str = ""
    """With the query."""
    raw: bytes = b""
    """The body as it came."""
    gone: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """Set when the client closed the connection before the reply was complete."""

    @property
    def messages(self) -> list[Object]:
        """The conversation."""
        return _objects(self.body.get("messages"))

    @property
    def tools(self) -> list[str]:
        """Names of the tools on offer."""
        return [str(_object(tool.get("function")).get("name")) for tool in _objects(self.body.get("tools"))]

    @property
    def stream(self) -> bool:
        """Whether deltas are wanted."""
        return self.body.get("stream") is True

    @property
    def last_user_text(self) -> str:
        """What the person wrote last, empty when nothing."""
        return next((_text(m.get("content")) for m in reversed(self.messages) if m.get("role") == "user"), "")

    @property
    def tool_results(self) -> list[str]:
        """Texts of the results since the person last wrote."""
        results: list[str] = []
        for message in reversed(self.messages):
            if message.get("role") == "user":
                break
            if message.get("role") == "tool":
                results.append(_text(message.get("content")))
        return results[::-1]


def complaints(body: object) -> list[str]:
    """Why a strict server would refuse a request; empty when it is sound."""
    if not isinstance(body, dict):
        return ["the body is no JSON object"]
    found = cast("Object", body)
    return [*_wrong_fields(found), *_wrong_tools(found), *_wrong_history(_objects(found.get("messages")))]


def _wrong_fields(body: Object) -> Iterator[str]:
    for name, value in body.items():
        if value is None:
            yield f"{name} is null"
        if name not in _KNOWN_KEYS:
            yield f"unknown field {name}"
    if not isinstance(body.get("model"), str):
        yield "no model"
    if not _objects(body.get("messages")):
        yield "no messages"


def _wrong_tools(body: Object) -> Iterator[str]:
    tools = _objects(body.get("tools"))
    if "tools" in body and not tools:
        yield "tools is empty"
    if "tool_choice" in body and not tools:
        yield "tool_choice without tools"
    for tool in tools:
        function = _object(tool.get("function"))
        if tool.get("type") != "function" or not _NAME.fullmatch(str(function.get("name", ""))):
            yield f"a tool of wrong shape: {json.dumps(tool)[:100]}"
        if _object(function.get("parameters")).get("type") != "object":
            yield f"the parameters of {function.get('name')} are no object schema"


def _wrong_history(messages: list[Object]) -> Iterator[str]:
    """Each call answered once, at once and in order; nothing empty, nothing that is no JSON."""
    waiting: list[str] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if not waiting or message.get("tool_call_id") != waiting.pop(0):
                yield f"message {number}: the result of a call that is not the next to be answered"
            if not message.get("content"):
                yield f"message {number}: an empty result"
            continue
        if waiting:
            yield f"message {number}: calls {waiting} have no result"
            waiting = []
        if role == "assistant":
            calls = _objects(message.get("tool_calls"))
            waiting = [str(call.get("id")) for call in calls]
            yield from (f"message {number}: {what}" for what in _wrong_answer(message, calls))
        elif role != "user" and (role != "system" or number):
            yield f"message {number}: role {role!r} does not belong here"
    if waiting:
        yield f"calls {waiting} have no result"
    if messages and messages[-1].get("role") in {"assistant", "system"}:
        yield f"the last message has role {messages[-1].get('role')}"


def _wrong_answer(message: Object, calls: list[Object]) -> Iterator[str]:
    if not message.get("content") and not calls:
        yield "an empty answer"
    ids = [call.get("id") for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):
        yield f"call ids that are empty or not unique: {ids}"
    for call in calls:
        function = _object(call.get("function"))
        if call.get("type") != "function" or not _NAME.fullmatch(str(function.get("name", ""))):
            yield f"a call of wrong shape: {json.dumps(call)[:100]}"
        if not _is_object_text(function.get("arguments")):
            yield f"arguments that are no JSON object: {function.get('arguments')!r}"


def _is_object_text(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(str(part["text"]) for part in _objects(content) if part.get("type") == "text")


def _object(value: object) -> Object:
    return cast("Object", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[Object]:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Object", entry) for entry in entries if isinstance(entry, dict)]
