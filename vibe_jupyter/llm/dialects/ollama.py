"""Ollama's own API, ``/api/chat``: what is sent (seed 004; servers.md)."""

from pydantic import JsonValue

from vibe_jupyter.llm.dialect import Terms
from vibe_jupyter.llm.dialects.ollama_answer import OllamaDecoder
from vibe_jupyter.llm.dialects.openai import reasoning_of
from vibe_jupyter.llm.dialects.wire_parts import (
    Parts,
    arguments_of,
    dump,
    images_of,
    result_text,
    said,
    tool_list,
    wire_name,
)
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.request import Model, Request, Thinking
from vibe_jupyter.protocol import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolSpec, UserMessage

_TAKES_LEVELS = "gpt-oss"
"""In the name of the models that can be told how much to think; others can only be told whether."""
_NO_THINKING = "support thinking"
_NO_LEVEL = "think value"


class OllamaDialect:
    """See `vibe_jupyter.llm.dialect.Dialect`."""

    path = "/api/chat"
    base_ends = ("/v1", "/api")
    alternates = False
    tail = b"]}"

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """Ollama knows types and properties, and drops what a reference stands for."""
        return tool_list(tools, inline=True)

    def encode_head(self, request: Request, *, tools: bytes, terms: Terms) -> bytes:
        """There is no choice of tools here; the reader of the answer sees to mode none."""
        model = request.model
        settings: dict[str, JsonValue] = {"temperature": model.temperature}
        if model.max_tokens is not None:
            settings["num_predict"] = model.max_tokens
        if model.context_window is not None:
            settings["num_ctx"] = model.context_window
        head: dict[str, JsonValue] = {"model": model.name, "stream": request.stream, "options": settings}
        if model.server.keep_alive:
            head["keep_alive"] = model.server.keep_alive
        if model.thinking is not None and "think" not in terms.refused:
            head["think"] = _think(model.name, model.thinking)
        offered = b',"tools":' + tools if tools else b""
        return dump(head)[:-1] + offered + b',"messages":['

    def encode_message(self, message: Message, model: Model) -> bytes:
        """One message in its role."""
        match message:
            case SystemMessage():
                return dump({"role": "system", "content": message.text})
            case UserMessage():
                return dump({"role": "user", **_said(message.parts, model)})
            case AssistantMessage():
                return dump(_assistant(message, model))
            case ToolMessage():
                content = result_text(message.parts, sees_images=model.sees_images)
                return dump({"role": "tool", "tool_name": wire_name(message.name), "content": content})

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Models that do not think refuse to be asked, even not to."""
        refused = status == 400 and (_NO_THINKING in body or _NO_LEVEL in body)
        return frozenset({"think"}) if refused else frozenset()

    def decoder(self, model: Model, limits: Limits) -> OllamaDecoder:
        """A reader for one answer."""
        return OllamaDecoder(limits)


def _think(name: str, thinking: Thinking) -> JsonValue:
    if thinking == "off":
        return False
    if _TAKES_LEVELS in name:
        return "high" if thinking == "max" else thinking
    return True


def _said(parts: Parts, model: Model) -> dict[str, JsonValue]:
    content: dict[str, JsonValue] = {"content": said(parts, sees_images=model.sees_images)}
    if model.sees_images and (images := images_of(parts)):
        content["images"] = [image.data for image in images]
    return content


def _assistant(message: AssistantMessage, model: Model) -> JsonValue:
    encoded: dict[str, JsonValue] = {"role": "assistant", "content": message.text}
    if model.thinking != "off" and (reasoning := reasoning_of(message)):
        encoded["thinking"] = reasoning
    if message.calls:
        encoded["tool_calls"] = [_call(call) for call in message.calls]
    return encoded


def _call(call: ToolCall) -> JsonValue:
    return {"function": {"name": wire_name(call.name), "arguments": arguments_of(call.arguments)}}
