"""Requests that a scripted model received, and how a strict server would reject them."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, cast

Object = dict[str, Any]

Dialect = Literal["openai", "mistral", "ollama"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")
_CHAT_KEYS = frozenset(
    {"model", "messages", "temperature", "max_tokens", "stream", "stream_options", "tools", "tool_choice"}
    | {"reasoning_effort", "prompt_cache_key"}
)
_OLLAMA_KEYS = frozenset({"model", "messages", "stream", "options", "tools", "think", "keep_alive"})
_MISTRAL_CHOICES = frozenset({"auto", "none", "any", "required"})


@dataclass(frozen=True)
class ModelRequest:
    """A POST request to ``/chat/completions``, or to Ollama's ``/api/chat``."""

    body: Object
    headers: Mapping[str, str]
    """Header names are in lower case."""
    path: str = ""
    """Includes the query string."""
    raw: bytes = b""
    """The body as received."""
    gone: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """Set when the client disconnects before the reply is complete."""

    @property
    def messages(self) -> list[Object]:
        """Messages of the conversation."""
        return json_objects(self.body.get("messages"))

    @property
    def tools(self) -> list[str]:
        """Names of the available tools."""
        return [str(json_object(tool.get("function")).get("name")) for tool in json_objects(self.body.get("tools"))]

    @property
    def stream(self) -> bool:
        """True if the client requests a stream."""
        return self.body.get("stream") is True

    @property
    def last_user_text(self) -> str:
        """Text of the latest user message, or '' if there is none."""
        return next((_content_text(m.get("content")) for m in reversed(self.messages) if m.get("role") == "user"), "")

    @property
    def tool_results(self) -> list[str]:
        """Texts of the tool results since the latest user message."""
        results: list[str] = []
        for message in reversed(self.messages):
            if message.get("role") == "user":
                break
            if message.get("role") == "tool":
                results.append(_content_text(message.get("content")))
        return results[::-1]


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(str(part["text"]) for part in json_objects(content) if part.get("type") == "text")


def json_object(value: object) -> Object:
    """Return a JSON object unchanged, and {} for any other value."""
    return cast("Object", value) if isinstance(value, dict) else {}


def json_objects(value: object) -> list[Object]:
    """Return the objects in a JSON array, and [] for any other value."""
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Object", entry) for entry in entries if isinstance(entry, dict)]


def find_complaints(body: object, dialect: Dialect = "openai") -> list[str]:
    """Return why a strict server would reject a request, or [] if it is valid."""
    if not isinstance(body, dict):
        return ["the body is not a JSON object"]
    found = cast("Object", body)
    messages = json_objects(found.get("messages"))
    known = _OLLAMA_KEYS if dialect == "ollama" else _CHAT_KEYS
    wrong = [*_wrong_fields(found, known), *_wrong_tools(found)]
    if dialect == "ollama":
        messages = _with_ids(messages)
    if dialect == "mistral":
        wrong += [*find_mistral_faults(found, messages)]
    return [*wrong, *find_history_faults(messages)]


def _with_ids(messages: list[Object]) -> list[Object]:
    """Convert Ollama's messages to Chat Completions, matching results to calls by their order and tool name."""
    chat: list[Object] = []
    waiting: list[tuple[str, object]] = []
    for number, message in enumerate(messages):
        calls = json_objects(message.get("tool_calls"))
        if calls:
            ids = [f"{number}-{place}" for place in range(len(calls))]
            functions = [json_object(call.get("function")) for call in calls]
            waiting = [(one, function.get("name")) for one, function in zip(ids, functions, strict=True)]
            texts = [{**function, "arguments": json.dumps(function.get("arguments"))} for function in functions]
            message = {
                **message,
                "tool_calls": [
                    {"id": one, "type": "function", "function": text} for one, text in zip(ids, texts, strict=True)
                ],
            }
        elif message.get("role") == "tool" and "tool_call_id" not in message:
            call_id, name = waiting.pop(0) if waiting else ("", None)
            message = {**message, "tool_call_id": call_id if message.get("tool_name") == name else ""}
        chat.append(message)
    return chat


def find_mistral_faults(body: Object, messages: list[Object]) -> Iterator[str]:
    """Yield tool choices, ids and role orders that Mistral's API rejects."""
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str) and choice not in _MISTRAL_CHOICES:
        yield f"tool_choice {choice!r}"
    ids = [call.get("id") for message in messages for call in json_objects(message.get("tool_calls"))]
    ids += [message.get("tool_call_id") for message in messages if message.get("role") == "tool"]
    yield from (f"an id that is not nine letters and digits: {one}" for one in ids if not _is_mistral_id(one))
    for before, after in pairwise(str(message.get("role")) for message in messages):
        if (before, after) == ("tool", "user") or before == after != "tool":
            yield f"Unexpected role '{after}' after role '{before}'"


def _is_mistral_id(call_id: object) -> bool:
    return isinstance(call_id, str) and _MISTRAL_ID.fullmatch(call_id) is not None


def _wrong_fields(body: Object, known: frozenset[str]) -> Iterator[str]:
    for name, value in body.items():
        if value is None:
            yield f"{name} is null"
        if name not in known:
            yield f"unknown field {name}"
    if not isinstance(body.get("model"), str):
        yield "no model"
    if not json_objects(body.get("messages")):
        yield "no messages"


def _wrong_tools(body: Object) -> Iterator[str]:
    tools = json_objects(body.get("tools"))
    if "tools" in body and not tools:
        yield "tools is empty"
    if "tool_choice" in body and not tools:
        yield "tool_choice without tools"
    for tool in tools:
        function = json_object(tool.get("function"))
        if tool.get("type") != "function" or not _NAME.fullmatch(str(function.get("name", ""))):
            yield f"a tool of wrong shape: {json.dumps(tool)[:100]}"
        if json_object(function.get("parameters")).get("type") != "object":
            yield f"the parameters of {function.get('name')} are not an object schema"


def find_history_faults(messages: list[Object]) -> Iterator[str]:
    """Yield calls not answered exactly once and in order, empty messages, and arguments that are no JSON objects."""
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
            calls = json_objects(message.get("tool_calls"))
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
        function = json_object(call.get("function"))
        if call.get("type") != "function" or not _NAME.fullmatch(str(function.get("name", ""))):
            yield f"a call of wrong shape: {json.dumps(call)[:100]}"
        if not _is_object_text(function.get("arguments")):
            yield f"arguments that are not a JSON object: {function.get('arguments')!r}"


def _is_object_text(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
