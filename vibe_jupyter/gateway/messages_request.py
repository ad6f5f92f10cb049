"""Translation of Anthropic's Messages requests to Chat Completions."""

import json
import mimetypes
import re
from collections.abc import Mapping, Sequence
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
from vibe_jupyter.gateway.client_tools import function_name
from vibe_jupyter.gateway.echoes import echo_in, join_echoes, named_thoughts, with_echo
from vibe_jupyter.gateway.history_text import history_line
from vibe_jupyter.gateway.refusals import Refused

_CHOICES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required", "none": "none"}
# Error code on which Anthropic's SDKs continue without a thread
_UNSUPPORTED_THREAD: Final = "thread_unsupported_request"
_FORMAT_NAME: Final = "answer"  # Chat Completions requires a name for a schema; Messages has none
# Types of parts that the model receives as text, so that a result may contain them
_TEXT_KINDS: Final = frozenset({"text", "file"})
_NO_NAME: Final = re.compile(r"[^\w .()+,-]+")
_LONGEST_TITLE: Final = 100  # characters of a title that become a file name
_OWN_TOOL: Final = "custom"  # type of a tool that the client defines, if it has one


class MessagesFields(BaseModel):
    """The fields of a request that are translated."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str = "default"
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    max_tokens: Annotated[int, Field(gt=0)]
    system: str | list[dict[str, Any]] | None = None
    stream: bool | None = False
    tools: list[dict[str, Any]] | None = None  # those that the client defines; others are left out
    tool_choice: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None  # not forwarded: the model server's settings decide whether its model thinks
    output_config: dict[str, Any] | None = None  # its `format` is the response format
    output_format: dict[str, Any] | None = None  # former name of `output_config.format`
    thread: Any = None  # not supported

    def left_out(self) -> list[str]:
        """Return the names of tools that only Anthropic can run."""
        return [str(tool.get("name") or tool.get("type")) for tool in self.tools or () if not _is_own(tool)]

    def tool_names(self) -> dict[str, str]:
        """Map function names to the client's own names of its tools."""
        names = (text_at(tool, "name", "tools") for tool in self.tools or () if _is_own(tool))
        return {function_name(name): name for name in names}

    def check(self) -> None:
        """Reject unsupported features.

        Raises:
            Refused: the request uses one.
        """
        if self.thread is not None:
            words = "Threads are not served here. Send the whole conversation, without thread."
            raise Refused(400, words, param="thread", details={"error_code": _UNSUPPORTED_THREAD})


def chat_body(body: Mapping[str, JsonValue], fields: MessagesFields) -> Object:
    """Translate a request to Chat Completions. Unknown fields are passed on.

    Raises:
        Refused: a part of the request can't be translated.
    """
    known = MessagesFields.model_fields.keys()
    made: Object = {name: value for name, value in body.items() if name not in known and value is not None}
    messages = _system(body.get("system"))
    given = objects(body["messages"], "messages")
    for place, message in enumerate(given, 1):
        messages += _messages(message, is_history=place < len(given))
    made |= {"model": fields.model, "max_tokens": fields.max_tokens, "stream": bool(fields.stream)}
    made["messages"] = cast("list[JsonValue]", messages)
    if fields.stream:
        made["stream_options"] = {"include_usage": True}
    if fields.stop_sequences:
        made["stop"] = list[JsonValue](fields.stop_sequences)
    if isinstance(user := (fields.metadata or {}).get("user_id"), str):
        made["user"] = user
    if (form := _response_format(fields)) is not None:
        made["response_format"] = form
    tools = [_tool(tool) for tool in fields.tools or () if _is_own(tool)]
    if tools:
        made["tools"] = cast("list[JsonValue]", tools)
    return {**made, **_tool_choice(fields.tool_choice or {}, fields.left_out())}


def _is_own(tool: Object) -> bool:
    """Return whether the client itself runs the tool."""
    return tool.get("type") is None or text_at(tool, "type", "tools") == _OWN_TOOL


def _tool(tool: Object) -> Object:
    name = function_name(text_at(tool, "name", "tools"))
    return function_tool(name, tool.get("description"), tool.get("input_schema"))


def _tool_choice(choice: Object, left_out: Sequence[str]) -> Object:
    """Translate the choice. If it names a tool that is left out, the model chooses."""
    made: Object = {}
    kind = choice.get("type")
    if kind == "tool":
        if (name := text_at(choice, "name", "tool_choice")) not in left_out:
            made["tool_choice"] = function_choice(function_name(name))
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


def _response_format(fields: MessagesFields) -> JsonValue:
    form = (fields.output_config or {}).get("format") or fields.output_format
    if not isinstance(form, dict):
        return None
    schema = cast("Object", form).get("schema")
    if not isinstance(schema, dict):
        return None
    return {
        "type": "json_schema",
        "json_schema": {"name": _FORMAT_NAME, "schema": schema, "strict": _is_closed(schema)},
    }


def _is_closed(schema: JsonValue) -> bool:
    """Return whether OpenAI accepts a schema as strict: no object in it has optional or additional properties."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    properties, required = schema.get("properties"), schema.get("required")
    if schema.get("type") == "object" or isinstance(properties, dict):
        names = set(properties) if isinstance(properties, dict) else set[str]()
        wanted = {one for one in required if isinstance(one, str)} if isinstance(required, list) else set[str]()
        if schema.get("additionalProperties") is not False or names != wanted:
            return False
    return all(map(_is_closed, schema.values()))


def _messages(message: Object, *, is_history: bool) -> list[Object]:
    """Translate a message. Results of calls become messages of their own before the rest of its content."""
    role, content = text_at(message, "role", "messages"), message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    results: list[Object] = []
    parts: list[Object] = []
    calls: list[JsonValue] = []
    echo: Object = {}
    for block in objects(content, "messages.content"):
        kind = block.get("type")
        if kind == "tool_use":
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            name = function_name(text_at(block, "name", "messages"))
            calls.append(call_part(text_at(block, "id", "messages"), name, arguments))
        elif kind == "tool_result":
            texts, pictures = _split_result(block.get("content"))
            results.append(result_message(text_at(block, "tool_use_id", "messages"), content_of(texts)))
            parts += pictures
        elif kind == "thinking":
            echo = join_echoes(echo, named_thoughts(block.get("signature"), block.get("thinking")))
        elif kind == "redacted_thinking":
            echo = join_echoes(echo, echo_in(block.get("data")))
        else:
            parts += _parts(block, is_history=is_history)
    if calls:
        return [with_echo({"role": role, "content": content_of(parts), "tool_calls": calls}, echo)]
    said = [with_echo({"role": role, "content": content_of(parts)}, echo)] if parts or not results else []
    return [*results, *said]


def _split_result(content: JsonValue) -> tuple[list[Object], list[Object]]:
    """Split a result into text parts and images, since results of Chat Completions are text."""
    if not content:
        return [], []
    blocks = [text_part(content)] if isinstance(content, str) else objects(content, "messages")
    parts = [part for block in blocks for part in _parts(block, is_history=True)]
    texts = [part for part in parts if part["type"] in _TEXT_KINDS]
    return texts, [part for part in parts if part["type"] not in _TEXT_KINDS]


def _parts(block: Object, *, is_history: bool) -> list[Object]:
    """Return the parts that a block becomes.

    Args:
        block: of a message, or of a result.
        is_history: True to turn a block that can't be translated into a line of text, because the client has sent it
            before or a tool has produced it.

    Raises:
        Refused: it can't be translated, and is part of the question.
    """
    kind = block.get("type")
    if kind == "text":
        return [text_part(text_at(block, "text", "messages.content"))]
    if kind == "search_result":
        texts = [text_part(f"[search result: {block.get('title')}, {block.get('source')}]")]
        return [*texts, *_inner_parts(block.get("content"), is_history=is_history)]
    source = block.get("source")
    made = _source_parts(kind, block, source, is_history=is_history) if isinstance(source, dict) else None
    if made is not None:
        return made
    if is_history:
        return [text_part(history_line(block))]
    how = f" with a source of type {source.get('type')}" if isinstance(source, dict) else ""
    words = (
        f"A block of type {kind}{how} is not served here. Send text, an image as base64 or url, or a document as "
        "base64, text or file."
    )
    raise Refused(400, words, code="unsupported", param="messages")


def _source_parts(kind: JsonValue, block: Object, source: Object, *, is_history: bool) -> list[Object] | None:
    """Return the parts of an image or document, or None if it can't be translated."""
    match kind, source.get("type"):
        case "image", "base64":
            data, form = text_at(source, "data", "messages.content"), text_at(source, "media_type", "messages.content")
            return [image_part(f"data:{form};base64,{data}")]
        case "image", "url":
            return [image_part(text_at(source, "url", "messages.content"))]
        case "document", "base64":
            given: Object = {"filename": _document_name(block, source)}
            return [{"type": "file", "file": {**given, "file_data": text_at(source, "data", "messages.content")}}]
        case "document", "file":
            return [{"type": "file", "file": {"file_id": text_at(source, "file_id", "messages.content")}}]
        case "document", "text":
            return [*_document_heading(block), text_part(text_at(source, "data", "messages.content"))]
        case "document", "content":
            return [*_document_heading(block), *_inner_parts(source.get("content"), is_history=is_history)]
        case _:
            return None


def _inner_parts(content: JsonValue, *, is_history: bool) -> list[Object]:
    if isinstance(content, str):
        return [text_part(content)]
    blocks = objects(content or [], "messages.content")
    return [part for block in blocks for part in _parts(block, is_history=is_history)]


def _document_heading(block: Object) -> list[Object]:
    said = [text for name in ("title", "context") if isinstance(text := block.get(name), str) and text]
    return [text_part(f"[document: {'; '.join(said)}]")] if said else []


def _document_name(block: Object, source: Object) -> str:
    """Return the document's title as a file name with the extension of its type."""
    title, form = block.get("title"), source.get("media_type")
    named = _NO_NAME.sub("-", title)[:_LONGEST_TITLE].strip(" -.") if isinstance(title, str) else ""
    name = named or "document"
    ending = (mimetypes.guess_extension(form) if isinstance(form, str) else None) or ""
    return name if name.lower().endswith(ending) else name + ending
