"""Chat Completions, as OpenAI defined it and as most servers speak it: what is sent (seed 000)."""

import re

from pydantic import JsonValue

from vibe_jupyter.llm.dialect import Terms
from vibe_jupyter.llm.dialects.openai_answer import ChatDecoder
from vibe_jupyter.llm.dialects.wire_parts import arguments_text, content_of, dump, result_text, tool_list, wire_name
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.request import Model, Request
from vibe_jupyter.protocol import (
    AssistantMessage,
    Message,
    ReasoningPart,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

MODES = frozenset({"auto", "none", "required"})
"""Of tool_choice; anything else is the name of a tool."""

_OPTION_REFUSALS = frozenset({400, 422})
_REFUSABLE = {
    "stream_options": re.compile("stream_options|include_usage|stream_tool_calls"),
    "reasoning_effort": re.compile("reasoning_effort"),
    "prompt_cache_key": re.compile("prompt_cache_key"),
    "cache_control": re.compile("cache_control"),
    "temperature": re.compile("temperature.{0,40}not support|unsupported.{0,40}temperature", re.IGNORECASE),
    "max_tokens": re.compile("max_completion_tokens"),
}
"""Fields only some servers and models take, and what a refusal of them says."""
_KNOW_CACHE_KEY = ("api.openai.com",)
_KNOW_CACHE_CONTROL = ("openrouter.ai",)
_EFFORT = {"off": "none", "low": "low", "medium": "medium", "high": "high", "max": "high"}


class OpenAIDialect:
    """See `vibe_jupyter.llm.dialect.Dialect`."""

    path = "/chat/completions"
    base_ends: tuple[str, ...] = ("/chat/completions",)
    alternates = False
    tail = b"]}"

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """See `tool_list`."""
        return tool_list(tools)

    def encode_head(self, request: Request, *, tools: bytes, terms: Terms) -> bytes:
        """What is not set is left out, never null: vLLM refuses nulls."""
        model = request.model
        head: dict[str, JsonValue] = {"model": model.name, "temperature": model.temperature}
        if model.max_tokens is not None:
            # OpenAI's own models that think know the limit by its newer name only.
            head["max_completion_tokens" if "max_tokens" in terms.refused else "max_tokens"] = model.max_tokens
        head |= {"stream": request.stream, **self.options(request, terms)}
        head = {name: value for name, value in head.items() if name not in terms.refused}
        if not tools:
            return dump(head)[:-1] + b',"messages":['
        choice = dump(self.tool_choice(request.tool_choice))
        return dump(head)[:-1] + b',"tools":' + tools + b',"tool_choice":' + choice + b',"messages":['

    def options(self, request: Request, terms: Terms) -> dict[str, JsonValue]:
        """What only some servers know."""
        model, host = request.model, request.model.server.host.partition(":")[0]
        options: dict[str, JsonValue] = {}
        if request.stream:
            options["stream_options"] = {"include_usage": True}
        if model.thinking is not None:
            options["reasoning_effort"] = _EFFORT[model.thinking]
        if host in _KNOW_CACHE_KEY and terms.session:
            options["prompt_cache_key"] = terms.session
        if host in _KNOW_CACHE_CONTROL and model.name.startswith("anthropic/"):
            options["cache_control"] = {"type": "ephemeral"}
        return options

    def tool_choice(self, choice: str) -> JsonValue:
        """A mode, or the one tool to call."""
        return choice if choice in MODES else {"type": "function", "function": {"name": wire_name(choice)}}

    def encode_message(self, message: Message, model: Model) -> bytes:
        """One message in its role."""
        match message:
            case SystemMessage():
                return dump({"role": "system", "content": message.text})
            case UserMessage():
                return dump({"role": "user", "content": content_of(message.parts, sees_images=model.sees_images)})
            case AssistantMessage():
                return dump(self.assistant(message, model))
            case ToolMessage():
                return dump(
                    {
                        "role": "tool",
                        "tool_call_id": self.call_id(message.call_id),
                        "name": wire_name(message.name),
                        "content": result_text(message.parts, sees_images=model.sees_images),
                    }
                )

    def assistant(self, message: AssistantMessage, model: Model) -> dict[str, JsonValue]:
        """Reasoning goes back only in a field the person named: some servers refuse it, some want it."""
        encoded: dict[str, JsonValue] = {"role": "assistant", "content": message.text}
        field = model.server.reasoning_field
        if field and model.thinking != "off" and (reasoning := reasoning_of(message)):
            encoded[field] = reasoning
        return encoded | self.calls(message)

    def calls(self, message: AssistantMessage) -> dict[str, JsonValue]:
        """The calls of an answer, where it has any."""
        return {"tool_calls": [self._call(call) for call in message.calls]} if message.calls else {}

    def call_id(self, call_id: str) -> str:
        """The id of a call as it is sent; the same for the call and its result."""
        return call_id

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Older servers refuse the question for token counts, newer models a temperature."""
        if status not in _OPTION_REFUSALS:
            return frozenset()
        return frozenset(field for field, words in _REFUSABLE.items() if words.search(body))

    def decoder(self, model: Model, limits: Limits) -> ChatDecoder:
        """A reader for one answer."""
        return ChatDecoder(limits, reasoning_field=model.server.reasoning_field)

    def _call(self, call: ToolCall) -> JsonValue:
        function: JsonValue = {"name": wire_name(call.name), "arguments": arguments_text(call.arguments)}
        return {"id": self.call_id(call.id), "type": "function", "function": function}


def reasoning_of(message: AssistantMessage) -> str:
    """What the model thought before this answer."""
    return "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
