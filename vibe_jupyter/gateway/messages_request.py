"""A request of Anthropic's Messages API as one for Chat Completions."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from vibe_jupyter.gateway.chat_parts import (
    call_part,
    content_of,
    function_choice,
    function_tool,
    image_part,
    objects,
    result_message,
    text_at,
    text_part,
)
from vibe_jupyter.gateway.chat_request import Object
from vibe_jupyter.gateway.refusals import Refused

_NOT_FORWARDED: Final = frozenset({"container", "context_management", "mcp_servers", "service_tier", "betas"})
"""What Chat Completions has not."""
_CHOICES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required", "none": "none"}
_SILENT: Final = frozenset({"thinking", "redacted_thinking"})
"""Blocks that say nothing to another model server."""
_OWN_TOOL: Final = "custom"
"""The type of a tool that the client defines, where it says one."""


class MessagesFields(BaseModel):
    """The fields of a request that are translated."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str = "default"
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    max_tokens: Annotated[int, Field(gt=0)]
    system: str | list[dict[str, Any]] | None = None
    stream: bool | None = False
    tools: list[dict[str, Any]] | None = None
    """Those that the client defines; others are left out."""
    tool_choice: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    """The model server's settings say whether its model thinks."""
    output_config: dict[str, Any] | None = None


def chat_body(body: Mapping[str, JsonValue], fields: MessagesFields) -> Object:
    """The same request for Chat Completions; what is not known of it goes along.

    Raises:
        Refused: it has something that cannot be translated.
    """
    known = _NOT_FORWARDED | MessagesFields.model_fields.keys()
    made: Object = {name: value for name, value in body.items() if name not in known and value is not None}
    messages = _system(body.get("system"))
    for message in objects(body["messages"], "messages"):
        messages += _messages(message)
    made |= {"model": fields.model, "max_tokens": fields.max_tokens, "stream": bool(fields.stream)}
    made["messages"] = cast("list[JsonValue]", messages)
    if fields.stream:
        made["stream_options"] = {"include_usage": True}
    if fields.stop_sequences:
        made["stop"] = list[JsonValue](fields.stop_sequences)
    if isinstance(user := (fields.metadata or {}).get("user_id"), str):
        made["user"] = user
    tools = [_tool(tool) for tool in fields.tools or () if _is_own(tool)]
    if tools:
        made["tools"] = cast("list[JsonValue]", tools)
    return {**made, **_tool_choice(fields.tool_choice or {})}


def _is_own(tool: Object) -> bool:
    """Whether the client runs it itself."""
    return tool.get("type") is None or text_at(tool, "type", "tools") == _OWN_TOOL


def _tool(tool: Object) -> Object:
    return function_tool(text_at(tool, "name", "tools"), tool.get("description"), tool.get("input_schema"))


def _tool_choice(choice: Object) -> Object:
    made: Object = {}
    kind = choice.get("type")
    if kind == "tool":
        made["tool_choice"] = function_choice(text_at(choice, "name", "tool_choice"))
    elif isinstance(kind, str) and kind in _CHOICES:
        made["tool_choice"] = _CHOICES[kind]
    if choice.get("disable_parallel_tool_use"):
        made["parallel_tool_calls"] = False
    return made


def _system(system: JsonValue) -> list[Object]:
    if not system:
        return []
    if not isinstance(system, str):
        system = content_of(text_part(text_at(block, "text", "system")) for block in objects(system, "system"))
    return [{"role": "system", "content": system}]


def _messages(message: Object) -> list[Object]:
    """Those that one becomes: results of calls are messages of their own, before all else that it says."""
    role, content = text_at(message, "role", "messages"), message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    results: list[Object] = []
    parts: list[Object] = []
    calls: list[JsonValue] = []
    for block in objects(content, "messages.content"):
        kind = block.get("type")
        if kind == "tool_use":
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            calls.append(call_part(text_at(block, "id", "messages"), text_at(block, "name", "messages"), arguments))
        elif kind == "tool_result":
            texts, pictures = _result_parts(block.get("content"))
            results.append(result_message(text_at(block, "tool_use_id", "messages"), content_of(texts)))
            parts += pictures
        elif kind not in _SILENT:
            parts.append(_part(block))
    if calls:
        return [{"role": role, "content": content_of(parts), "tool_calls": calls}]
    return [*results, *([{"role": role, "content": content_of(parts)}] if parts or not results else [])]


def _result_parts(content: JsonValue) -> tuple[list[Object], list[Object]]:
    """Texts and pictures of a result: results of Chat Completions are texts."""
    if not content:
        return [], []
    parts = [text_part(content)] if isinstance(content, str) else [_part(one) for one in objects(content, "messages")]
    texts = [part for part in parts if part["type"] == "text"]
    return texts, [part for part in parts if part["type"] != "text"]


def _part(block: Object) -> Object:
    kind, source = block.get("type"), block.get("source")
    if kind == "text":
        return text_part(text_at(block, "text", "messages.content"))
    if isinstance(source, dict):
        if kind == "image" and source.get("type") == "base64":
            data, form = text_at(source, "data", "messages.content"), text_at(source, "media_type", "messages.content")
            return image_part(f"data:{form};base64,{data}")
        if kind == "image" and source.get("type") == "url":
            return image_part(text_at(source, "url", "messages.content"))
        if kind == "document" and source.get("type") == "text":
            return text_part(text_at(source, "data", "messages.content"))
    raise Refused(400, f"Content of type {kind} is not served here.", code="unsupported", param="messages")
