"""Chat Completions, as OpenAI defined it and as most servers speak it: what is sent (seed 000)."""

import json
import re

from pydantic import JsonValue

from vibe_jupyter.llm import strict_json
from vibe_jupyter.llm.dialects.openai_answer import ChatDecoder
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.request import Model
from vibe_jupyter.llm.surrogates import repair
from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

_NO_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64
"""Characters of a tool's name."""
_OPTION_REFUSALS = frozenset({400, 422})


class OpenAIDialect:
    """See `vibe_jupyter.llm.dialect.Dialect`."""

    path = "/chat/completions"
    tail = b"]}"

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """A JSON list, or nothing for no tools: some servers refuse an empty list."""
        if not tools:
            return b""
        return _dump(
            [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in tools
            ]
        )

    def encode_head(self, model: Model, *, tools: bytes, stream: bool, plain: bool) -> bytes:
        """What is not set is left out, never null: vLLM refuses nulls."""
        head: dict[str, JsonValue] = {"model": model.name, "temperature": model.temperature}
        if model.max_tokens is not None:
            head["max_tokens"] = model.max_tokens
        head["stream"] = stream
        if stream and not plain:
            head["stream_options"] = {"include_usage": True}
        offered = b',"tools":' + tools + b',"tool_choice":"auto"' if tools else b""
        return _dump(head)[:-1] + offered + b',"messages":['

    def encode_message(self, message: Message) -> bytes:
        """One message in its role."""
        match message:
            case SystemMessage():
                return _dump({"role": "system", "content": message.text})
            case UserMessage():
                return _dump({"role": "user", "content": _user_content(message.parts)})
            case AssistantMessage():
                return _dump(_assistant(message))
            case ToolMessage():
                return _dump(
                    {
                        "role": "tool",
                        "tool_call_id": message.call_id,
                        "name": _wire_name(message.name),
                        "content": _tool_content(message.parts),
                    }
                )

    def wants_plain(self, status: int, body: str) -> bool:
        """Older servers refuse the question for token counts."""
        return status in _OPTION_REFUSALS and ("stream_options" in body or "include_usage" in body)

    def decoder(self, limits: Limits) -> ChatDecoder:
        """A reader for one answer."""
        return ChatDecoder(limits)


def _user_content(parts: tuple[TextPart | ImagePart, ...]) -> JsonValue:
    if not any(isinstance(part, ImagePart) for part in parts):
        return _joined(parts)
    return [_user_part(part) for part in parts]


def _user_part(part: TextPart | ImagePart) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _tool_content(parts: tuple[TextPart | ImagePart, ...]) -> str:
    """Text only: the standard has no images in a tool's message. An empty result is said, since some servers refuse
    an empty content."""
    images = sum(isinstance(part, ImagePart) for part in parts)
    notes = [f"({images} image{'s' if images > 1 else ''} not shown here)"] if images else []
    return "\n\n".join(filter(None, [_joined(parts), *notes])) or "(no output)"


def _joined(parts: tuple[TextPart | ImagePart, ...]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, TextPart))


def _assistant(message: AssistantMessage) -> JsonValue:
    """Reasoning stays here: servers that know the field refuse or ignore it on the way in."""
    encoded: dict[str, JsonValue] = {"role": "assistant", "content": message.text}
    if message.calls:
        encoded["tool_calls"] = [_call(call) for call in message.calls]
    return encoded


def _call(call: ToolCall) -> JsonValue:
    function: JsonValue = {"name": _wire_name(call.name), "arguments": _wire_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _wire_name(name: str) -> str:
    """A name the model made up may be one no server takes back, and would fail every later request."""
    return _NO_NAME_CHARACTER.sub("_", name)[:_MAX_NAME] or "unnamed"


def _wire_arguments(text: str) -> str:
    """Broken arguments in the history make llama.cpp fail every later request; the tool's message says what was
    wrong with them."""
    try:
        # A half character in a string is no text either; the error of encoding it is a ValueError.
        json.dumps(strict_json.parse_object(text), ensure_ascii=False).encode()
    except ValueError:
        return "{}"
    return text if text.strip() not in {"", "null"} else "{}"


def _dump(value: JsonValue) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return repair(text).encode()
