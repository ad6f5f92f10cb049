"""Chat Completions as OpenAI and most servers speak it: the request's body, and the answer in pieces.

Null means absent everywhere, and what has an unknown shape is passed over: an answer is judged by what is left of it.
"""

import json
import re

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.dialects.wire_parts import (
    call_arguments_text,
    dump_json,
    result_text,
    tool_list,
    user_content,
    wire_name,
)
from vibe_jupyter.llm.failures import BrokenAnswer, provider_message
from vibe_jupyter.llm.growing_answer import GrowingAnswer
from vibe_jupyter.llm.hosted_events import CountsSoFar
from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.llm.request import AnswerLimits, HeadTerms, Model, ModelRequestTerms
from vibe_jupyter.protocol import (
    AssistantMessage,
    Delta,
    Message,
    ReasoningPart,
    StopReason,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_NO_IDS = frozenset({"", "null"})
_EXCERPT = 200
"""Characters of a line that is not JSON, shown to the user."""

Object = dict[str, JsonValue]

MODES = frozenset({"auto", "none", "required"})
"""Of tool_choice; anything else is the name of a tool."""

_OPTION_REFUSALS = frozenset({400, 422})
_REFUSABLE = {
    "stream_options": lazy_pattern("stream_options|include_usage|stream_tool_calls"),
    "reasoning_effort": lazy_pattern("reasoning_effort"),
    "prompt_cache_key": lazy_pattern("prompt_cache_key"),
    "cache_control": lazy_pattern("cache_control"),
    "temperature": lazy_pattern("temperature.{0,40}not support|unsupported.{0,40}temperature", re.IGNORECASE),
    "max_tokens": lazy_pattern("max_completion_tokens"),
}
"""Fields only some servers and models take, and what a refusal of them says."""
_KNOW_CACHE_KEY = ("api.openai.com",)
_KNOW_CACHE_CONTROL = ("openrouter.ai",)
_EFFORT = {"off": "none", "low": "low", "medium": "medium", "high": "high", "max": "high"}


class ChatDecoder:
    """See `vibe_jupyter.llm.request.AnswerDecoder`."""

    def __init__(self, limits: AnswerLimits, *, reasoning_field: str = "") -> None:
        self.finished = False
        self.ended = False
        self._answer = GrowingAnswer(limits)
        self._reasoning_fields = tuple(dict.fromkeys(filter(None, (reasoning_field, *_REASONING_FIELDS))))

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return self._answer.text

    def event(self, name: str, data: str) -> list[Delta | CountsSoFar]:
        """Take one event; events of other names are not for this dialect."""
        if self.ended or name != "message":
            if name == "error" and not self.ended:
                raise BrokenAnswer("provider", _error_words(data))
            return []
        # Nearly all events begin so, and need no copy without blanks.
        bare = data if data.startswith("{") else data.strip()
        if bare == "[DONE]":
            self.finished = self.ended = True
        elif bare and isinstance(chunk := parse_event(data), dict):
            self._read_chunk(chunk)
        return self._answer.take()

    def chunk(self, body: Object) -> list[Delta | CountsSoFar]:
        """Take one event whose JSON was read already."""
        self._read_chunk(body)
        return self._answer.take()

    def whole(self, body: JsonValue) -> list[Delta | CountsSoFar]:
        """Take an answer that came as one JSON body."""
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
            raise BrokenAnswer("provider", provider_message(body))
        self._read_chunk(body, whole=True)
        self.finished = self.ended = True
        return self._answer.take()

    def rest(self) -> list[Delta | CountsSoFar]:
        """Deltas of an event that was broken further on."""
        return self._answer.take()

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._answer.finish()

    def _read_chunk(self, chunk: Object, *, whole: bool = False) -> None:
        if "error" in chunk or chunk.get("object") == "error":
            _raise_error(chunk)
        if usage := chunk.get("usage"):
            self._read_usage(usage)
        model = chunk.get("model")
        if isinstance(model, str) and model:
            self._answer.model = model
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return
        for choice in choices:
            if isinstance(choice, dict) and not choice.get("index"):
                self._read_choice(choice, whole=whole)
        if usage and not (whole or self.finished):
            self._answer.tell_counts()

    def _read_choice(self, choice: Object, *, whole: bool) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._read_delta(delta, whole=whole)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason == "error":
                raise BrokenAnswer("provider", provider_message(choice.get("error") or choice.get("message")))
            self._answer.stop_reason = _STOP_REASONS.get(reason, "other")
            self.finished = True

    def _read_delta(self, delta: Object, *, whole: bool) -> None:
        calls = delta.get("tool_calls")
        # A piece of a call stands alone, and there are many.
        if calls is None or len(delta) > 1:
            self._read_text(delta)
        if isinstance(calls, list):
            self._read_calls(calls, whole=whole)

    def _read_text(self, delta: Object) -> None:
        for field in self._reasoning_fields:
            if reasoning := delta.get(field):
                self._read_thinking(reasoning)
                break
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                self._answer.add_text(content)
        elif isinstance(content, list):
            self._read_parts(content)
        # OpenAI's models say no in a field of its own.
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._answer.add_text(refusal)

    def _read_calls(self, calls: list[JsonValue], *, whole: bool) -> None:
        for position, call in enumerate(calls):
            if isinstance(call, dict):
                self._read_call(call, position if whole else None)

    def _read_parts(self, parts: list[JsonValue]) -> None:
        """Mistral's form of content."""
        for part in parts:
            if isinstance(part, str):
                self._answer.add_text(part)
            elif isinstance(part, dict):
                kind, text = part.get("type"), part.get("text")
                if kind == "text" and isinstance(text, str):
                    self._answer.add_text(text)
                elif kind == "thinking":
                    self._read_thinking(part.get("thinking"))
                    if isinstance(seal := part.get("signature"), str) and seal:
                        self._answer.signature = repair_surrogates(seal)

    def _read_thinking(self, thinking: JsonValue) -> None:
        for piece in thinking if isinstance(thinking, list) else [thinking]:
            text = piece.get("text") if isinstance(piece, dict) else piece
            if isinstance(text, str) and text:
                self._answer.add_reasoning(text)

    def _read_call(self, call: Object, position: int | None) -> None:
        """A piece of a call. In a whole answer each entry is a call of its own, whatever index it has."""
        function = call.get("function")
        if not isinstance(function, dict):
            function = {}
        if position is None and len(call) == 2 and len(function) == 1:
            # Nearly all pieces are of this form, and there are many.
            index, arguments = call.get("index"), function.get("arguments")
            if type(index) is int and isinstance(arguments, str) and self._answer.grow_call(index, arguments):
                return
        call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if arguments == {}:  # so a call without arguments comes, or one whose arguments follow as text
            arguments = None
        whole = not isinstance(arguments, str | None)
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False) if whole else ""
        self._answer.add_call(
            index=_whole_number(call.get("index")) if position is None else position,
            call_id=call_id if isinstance(call_id, str) and call_id not in _NO_IDS else "",
            name=name if isinstance(name, str) else "",
            arguments=arguments,
            whole=whole,
        )

    def _read_usage(self, usage: JsonValue) -> None:
        if not isinstance(usage, dict):
            return
        prompt, completion = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
        reasoning = _usage_detail(usage, "completion_tokens_details", "reasoning_tokens")
        if reasoning and token_count(usage.get("total_tokens")) == prompt + completion + reasoning:
            # Some servers count what the model thought apart, and bill it as output all the same.
            completion += reasoning
        cached = [_usage_detail(usage, "prompt_tokens_details", "cached_tokens")]
        # DeepSeek and Mistral have fields of their own.
        cached += [token_count(usage.get(name)) for name in ("prompt_cache_hit_tokens", "num_cached_tokens")]
        self._answer.usage = Usage(
            prompt_tokens=prompt, completion_tokens=completion, cached_tokens=next(filter(None, cached), 0)
        )


def _usage_detail(usage: Object, group: str, name: str) -> int:
    details = usage.get(group)
    return token_count(details.get(name)) if isinstance(details, dict) else 0


def parse_event(data: str) -> JsonValue:
    """The JSON of one event."""
    try:
        return json_text.parse_json(data)
    except ValueError as problem:
        raise BrokenAnswer("bad_json", f"{problem}, in: {data[:_EXCERPT]}") from problem


def _raise_error(chunk: Object) -> None:
    error = chunk.get("error")
    if isinstance(error, str | dict | list):
        raise BrokenAnswer("provider", provider_message(error) or "an error without a message")
    if chunk.get("object") == "error":
        raise BrokenAnswer("provider", provider_message(chunk))


def _error_words(data: str) -> str:
    try:
        return provider_message(json_text.parse_json(data)) or data
    except ValueError:
        return data


def _whole_number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def token_count(value: JsonValue) -> int:
    """A number of tokens; 0 for what is none."""
    return max(_whole_number(value) or 0, 0)


class OpenAIDialect:
    """See `vibe_jupyter.llm.request.Dialect`."""

    path = "/chat/completions"
    models_path = "/models"
    base_ends: tuple[str, ...] = ("/chat/completions",)
    alternates = False
    tail = b"]}"

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """See `tool_list`."""
        return tool_list(tools)

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """What is not set is left out, never null: vLLM refuses nulls."""
        model = request.model
        head: dict[str, JsonValue] = {"model": model.name, "temperature": model.temperature}
        if model.max_tokens is not None:
            # OpenAI's own models that think know the limit by its newer name only.
            head["max_completion_tokens" if "max_tokens" in terms.refused else "max_tokens"] = model.max_tokens
        head |= {"stream": request.stream, **self.options(request, terms)}
        head = {name: value for name, value in head.items() if name not in terms.refused}
        if not tools:
            return dump_json(head)[:-1] + b',"messages":['
        choice = dump_json(self.tool_choice(request.tool_choice))
        return dump_json(head)[:-1] + b',"tools":' + tools + b',"tool_choice":' + choice + b',"messages":['

    def options(self, request: ModelRequestTerms, terms: HeadTerms) -> dict[str, JsonValue]:
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
                return dump_json({"role": "system", "content": message.text})
            case UserMessage():
                return dump_json(
                    {"role": "user", "content": user_content(message.parts, sees_images=model.sees_images)}
                )
            case AssistantMessage():
                return dump_json(self.assistant(message, model))
            case ToolMessage():
                return dump_json(
                    {
                        "role": "tool",
                        "tool_call_id": self.call_id(message.call_id),
                        "name": wire_name(message.name),
                        "content": result_text(message.parts, sees_images=model.sees_images),
                    }
                )

    def assistant(self, message: AssistantMessage, model: Model) -> dict[str, JsonValue]:
        """Reasoning goes back only in a field the user named: some servers refuse it, some want it."""
        encoded: dict[str, JsonValue] = {"role": "assistant", "content": message.text}
        field = model.server.reasoning_field
        if field and model.thinking != "off" and (reasoning := reasoning_text(message)):
            encoded[field] = reasoning
        return encoded | self.calls(message)

    def calls(self, message: AssistantMessage) -> dict[str, JsonValue]:
        """The calls of an answer, where it has any."""
        return {"tool_calls": [self._encode_call(call) for call in message.calls]} if message.calls else {}

    def call_id(self, call_id: str) -> str:
        """The id of a call as it is sent; the same for the call and its result."""
        return call_id

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Older servers refuse the question for token counts, newer models a temperature."""
        if status not in _OPTION_REFUSALS:
            return frozenset()
        return frozenset(field for field, words in _REFUSABLE.items() if words.search(body))

    def decoder(self, model: Model, limits: AnswerLimits) -> ChatDecoder:
        """A reader for one answer."""
        return ChatDecoder(limits, reasoning_field=model.server.reasoning_field)

    def _encode_call(self, call: ToolCall) -> JsonValue:
        function: JsonValue = {"name": wire_name(call.name), "arguments": call_arguments_text(call.arguments)}
        return {"id": self.call_id(call.id), "type": "function", "function": function}


def reasoning_text(message: AssistantMessage) -> str:
    """What the model thought before this answer."""
    return "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
