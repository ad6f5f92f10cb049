"""Chat Completions as spoken by OpenAI and most servers: request bodies, and decoding of answers.

Null means absent, and values of an unknown shape are skipped: an answer is judged by the rest of it.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import cast

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.dialects import odd_forms
from vibe_jupyter.llm.dialects.wire_parts import (
    call_arguments_text,
    dump_json,
    result_text,
    tool_list,
    user_content,
    wire_name,
)
from vibe_jupyter.llm.failures import BrokenAnswer, is_passing, provider_message
from vibe_jupyter.llm.growing_answer import GrowingAnswer, call_fields
from vibe_jupyter.llm.hosted_events import CountsSoFar
from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.llm.request import CUTS, IN_CONTENT, AnswerLimits, HeadTerms, Model, ModelRequestTerms
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

REASONING_FIELDS = ("reasoning_content", "reasoning")
# Message fields that aren't echoed as vendor fields: those read here, and the other ones of OpenAI's own API.
_IN_MESSAGE = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio", "name"})
_FIRST = (0, None, "0")  # indexes of the first choice
_OF_CALL = frozenset({"index", "id", "type"})
_NO_IDS = frozenset({"", "null"})
_NO_ERROR = ("none", "None", "null", "0")  # values of `error` that mean there is no error
_EXCERPT = 200  # characters of invalid JSON to show the user

Object = dict[str, JsonValue]

MODES = frozenset({"auto", "none", "required"})  # of tool_choice; any other value is a tool's name

_OPTION_REFUSALS = frozenset({400, 422})
# Fields that only some servers and models accept, and how a refusal of each is recognized.
_REFUSABLE = {
    "stream_options": lazy_pattern("stream_options|include_usage|stream_tool_calls"),
    "reasoning_effort": lazy_pattern("reasoning_effort"),
    "prompt_cache_key": lazy_pattern("prompt_cache_key"),
    "cache_control": lazy_pattern("cache_control"),
    "temperature": lazy_pattern("temperature.{0,40}not support|unsupported.{0,40}temperature", re.IGNORECASE),
    "max_tokens": lazy_pattern("max_completion_tokens"),
}
_KNOW_CACHE_KEY = ("api.openai.com",)
_KNOW_CACHE_CONTROL = ("openrouter.ai",)
_EFFORT = {"off": "none", "low": "low", "medium": "medium", "high": "high", "max": "high"}


class ChatDecoder:
    """Decoder for Chat Completions, see `vibe_jupyter.llm.request.AnswerDecoder`."""

    def __init__(self, limits: AnswerLimits, *, reasoning_field: str = "") -> None:
        self.finished = False
        self.ended = False
        self._answer = GrowingAnswer(limits)
        named = (reasoning_field, *REASONING_FIELDS, *odd_forms.MORE_REASONING_FIELDS, *odd_forms.REASONING_LISTS)
        self._reasoning_fields = tuple(dict.fromkeys(filter(None, named)))
        # Ids of the first and the finishing chunk; another answer may follow in the same stream.
        self._ids: tuple[JsonValue, ...] = ()
        self._has_first = False  # whether a choice with index 0 came
        # Message fields that aren't vendor fields. Includes the reasoning field once it is known.
        self._known = _IN_MESSAGE

    @property
    def text(self) -> str:
        return self._answer.text

    def event(self, name: str, data: str) -> list[Delta | CountsSoFar]:
        """Decode one event. Events with other names don't belong to this dialect."""
        if self.ended or (name != "message" and name not in odd_forms.CHUNK_NAMES):
            if name == "error" and not self.ended:
                raise _error_event(data)
            return []
        # fast path: nearly all events begin with a brace, which saves a stripped copy
        bare = data if data.startswith("{") else data.strip()
        if bare == "[DONE]":
            self.finished = self.ended = True
        elif bare:
            try:
                chunk = json_text.parse_json(data)
            except ValueError as problem:
                # Nothing that can't be read takes away an answer that is complete.
                chunks = odd_forms.chunks_in(data, () if self.finished else None)
                if chunks is None:
                    raise _bad_json(problem, data) from problem
                self._read_chunks(chunks)
            else:
                if isinstance(chunk, dict):
                    self._read_chunk(chunk)
                elif isinstance(chunk, list):
                    self._read_chunks(chunk)
        return self._answer.take()

    def _read_chunks(self, chunks: Iterable[JsonValue]) -> None:
        for chunk in chunks:
            if isinstance(chunk, dict):
                self._read_chunk(chunk)
            elif chunk == "[DONE]":
                self.finished = self.ended = True

    @property
    def reasoning_field(self) -> str:
        """Field in which the reasoning arrives, or '' before any has."""
        return self._answer.reasoning_field

    def take_signature(self) -> str | None:
        """Return and clear the server's signature of the latest reasoning."""
        signature, self._answer.signature = self._answer.signature, None
        return signature

    def forget_fields(self) -> None:
        """Discard unknown fields, see `GrowingAnswer.forget_fields`."""
        self._answer.forget_fields()

    def chunk(self, body: Object) -> list[Delta | CountsSoFar]:
        """Decode an event whose JSON has already been parsed."""
        self._read_chunk(body)
        return self._answer.take()

    def whole(self, body: JsonValue) -> list[Delta | CountsSoFar]:
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
            error = body.get("error") if isinstance(body, dict) else None
            raise BrokenAnswer("provider", provider_message(body), passing=is_passing(error))
        self._read_chunk(body, whole=True)
        self.finished = self.ended = True
        return self._answer.take()

    def rest(self) -> list[Delta | CountsSoFar]:
        return self._answer.take()

    def message(self) -> AssistantMessage:
        return self._answer.finish()

    def _read_chunk(self, chunk: Object, *, whole: bool = False) -> None:
        if "error" in chunk or chunk.get("object") == "error":
            _raise_error(chunk)
        if usage := chunk.get("usage"):
            self._read_usage(usage)
        if isinstance(model := chunk.get("model"), str) and model:
            self._answer.model = model
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            if odd_forms.is_error(chunk):
                raise BrokenAnswer("provider", provider_message(chunk), passing=is_passing(chunk))
            return
        if not self._ids:
            self._ids = (chunk.get("id"),)
        if not self.finished or _is_of_answer(chunk.get("id"), self._ids):
            self._read_choices(chunk, choices, whole=whole)
        if usage and not (whole or self.finished):
            self._answer.tell_counts()

    def _read_choices(self, chunk: Object, choices: list[JsonValue], *, whole: bool) -> None:
        self._has_first = self._has_first or any(
            isinstance(one, dict) and one.get("index") in _FIRST for one in choices
        )
        # One choice is requested: a server that never sends index 0 numbers from 1, or numbers tokens (TGI).
        is_lone = not self._has_first and len(choices) == 1
        for choice in choices:
            if isinstance(choice, dict) and (is_lone or choice.get("index") in _FIRST):
                delta = choice.get("delta")
                if not isinstance(delta, dict) or not (delta or self._answer.has_begun):
                    # A whole answer after its pieces repeats them.
                    is_repeated = not whole and chunk.get("object") == "chat.completion" and self._answer.has_begun
                    delta = None if is_repeated else odd_forms.delta_of(choice)
                if delta is not None:
                    self._read_delta(delta, whole=whole)
                if choice.get("finish_reason"):
                    self._read_finish(choice)
                    self._ids = (self._ids[0], chunk.get("id"))

    def _read_finish(self, choice: Object) -> None:
        if choice["finish_reason"] == "error":
            problem = choice.get("error") or choice.get("message")
            raise BrokenAnswer("provider", provider_message(problem), passing=is_passing(problem))
        kinds = map(kind_of_finish, odd_forms.finish_reasons(choice))
        said: list[StopReason] = [kind for kind in kinds if kind is not None]
        if said:
            # A server may say `stop` where the one behind it says that the answer was cut.
            self._answer.stop_reason = min(said, key=lambda one: one not in CUTS)
            self.finished = True

    def _read_delta(self, delta: Object, *, whole: bool) -> None:
        # fast path: nearly all deltas hold only text, or only a call
        if len(delta) == 1 and type(content := delta.get("content")) is str:
            if content:
                self._answer.add_text(content)
            return
        calls = delta.get("tool_calls")
        if calls is None or len(delta) > 1:
            self._read_text(delta)
            if not delta.keys() <= self._known:
                self._answer.fields_of().add(delta, self._known, whole=whole)
        if not isinstance(calls, list):
            calls = odd_forms.calls_of(delta)
        if calls:
            for position, call in enumerate(calls):
                if isinstance(call, dict):
                    self._read_call(call, position if whole else None)

    def _read_text(self, delta: Object) -> None:
        for field in () if delta.keys() <= _IN_MESSAGE else self._reasoning_fields:
            if reasoning := delta.get(field):
                if self._answer.reasoning_field and not isinstance(reasoning, str):
                    continue  # parts of what came as text
                self._note_reasoning(field, reasoning)
                for text in filter(None, odd_forms.thought_texts(reasoning)):
                    self._answer.add_reasoning(text)
                break
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                self._answer.add_text(content)
        elif content is not None:
            self._read_parts(content, calls="tool_calls" not in delta)
        # openAI's models put refusals into a separate field
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._answer.add_text(refusal)

    def _note_reasoning(self, field: str, reasoning: JsonValue) -> None:
        """Record the reasoning field if its value is text. Other values are echoed as vendor fields."""
        if not self._answer.reasoning_field and isinstance(reasoning, str):
            self._answer.reasoning_field = field
            self._known = _IN_MESSAGE | {field}

    def _read_parts(self, content: JsonValue, *, calls: bool) -> None:
        """Decode content that isn't a string: a list of parts, as Mistral sends it, or one part.

        Calls among them count only if `calls`: beside `tool_calls` they are the same ones.
        """
        for kind, value in odd_forms.parts_of(content):
            if kind == "call":
                if calls:
                    self._read_call(cast("Object", value), None)
            elif kind == "text":
                if isinstance(value, str):
                    self._answer.add_text(value)
            else:
                for text in filter(None, odd_forms.thought_texts(value)):
                    self._answer.add_reasoning(text)
                if kind == "thinking" and isinstance(value, dict):
                    self._answer.reasoning_field = self._answer.reasoning_field or IN_CONTENT
                    if isinstance(seal := value.get("signature"), str) and seal:
                        self._answer.signature = repair_surrogates(seal)

    def _read_call(self, call: Object, position: int | None) -> None:
        """Decode a fragment of a call.

        In a non-streamed answer, `position` is set and each entry is a separate call, whatever its index.
        """
        function = call.get("function")
        if not isinstance(function, dict):
            function = {}
        if position is None and len(call) == 2 and len(function) == 1:
            # fast path: nearly all fragments have this form, and there are many
            index, arguments = call.get("index"), function.get("arguments")
            if type(index) is int and isinstance(arguments, str) and self._answer.grow_call(index, arguments):
                return
        if "arguments" not in function:
            function = odd_forms.function_of(call)
            call = {key: value for key, value in call.items() if key in _OF_CALL or "function" in call}
        call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if arguments == {}:  # a call without arguments, or one whose arguments follow as text
            arguments = None
        whole = not isinstance(arguments, str | None)
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False) if whole else ""
        place = self._answer.add_call(
            index=odd_forms.whole_number(call.get("index")) if position is None else position,
            call_id=call_id if isinstance(call_id, str) and call_id not in _NO_IDS else "",
            name=name if isinstance(name, str) else "",
            arguments=arguments,
            whole=whole,
        )
        if fields := call_fields(call, function):
            self._answer.fields_of(place).add(fields, whole=position is not None)

    def _read_usage(self, usage: JsonValue) -> None:
        if not isinstance(usage, dict):
            return
        prompt, completion = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
        reasoning = _usage_detail(usage, "completion_tokens_details", "reasoning_tokens")
        if reasoning and token_count(usage.get("total_tokens")) == prompt + completion + reasoning:
            # some servers count reasoning separately, but bill it as output
            completion += reasoning
        cached = [_usage_detail(usage, "prompt_tokens_details", "cached_tokens")]
        # deepSeek and Mistral use other fields
        cached += [token_count(usage.get(name)) for name in ("prompt_cache_hit_tokens", "num_cached_tokens")]
        self._answer.usage = Usage(
            prompt_tokens=prompt, completion_tokens=completion, cached_tokens=next(filter(None, cached), 0)
        )


def _is_of_answer(chunk_id: JsonValue, ids: Sequence[JsonValue]) -> bool:
    """Return whether a chunk after the finish still belongs to the answer. Some servers give each chunk a new id."""
    return chunk_id in (None, "", ids[-1]) or len({str(one) for one in ids if one}) > 1


def kind_of_finish(reason: str) -> StopReason | None:
    """Map a finish reason, see `vibe_jupyter.llm.reply_formats.stop_reason_of`."""
    from vibe_jupyter.llm.reply_formats import stop_reason_of  # noqa: PLC0415 - no first request waits for this

    return stop_reason_of(reason)


def _usage_detail(usage: Object, group: str, name: str) -> int:
    details = usage.get(group)
    return token_count(details.get(name)) if isinstance(details, dict) else 0


def parse_event(data: str) -> JsonValue:
    try:
        return json_text.parse_json(data)
    except ValueError as problem:
        raise _bad_json(problem, data) from problem


def _bad_json(problem: ValueError, data: str) -> BrokenAnswer:
    return BrokenAnswer("bad_json", f"{problem}, in: {data[:_EXCERPT]}")


def _raise_error(chunk: Object) -> None:
    if (error := chunk.get("error")) and error not in _NO_ERROR:
        raise BrokenAnswer("provider", provider_message(chunk), passing=is_passing(error))
    if chunk.get("object") == "error":
        raise BrokenAnswer("provider", provider_message(chunk), passing=is_passing(chunk))


def _error_event(data: str) -> BrokenAnswer:
    try:
        error = json_text.parse_json(data)
    except ValueError:
        return BrokenAnswer("provider", data, passing=False)
    inner = error.get("error", error) if isinstance(error, dict) else error
    return BrokenAnswer("provider", provider_message(error) or data, passing=is_passing(inner))


def token_count(value: JsonValue) -> int:
    """Return a number of tokens, or 0 if the value isn't one."""
    return max(odd_forms.whole_number(value) or 0, 0)


class OpenAIDialect:
    """Chat Completions, see `vibe_jupyter.llm.request.Dialect`."""

    path = "/chat/completions"
    models_path = "/models"
    base_ends: tuple[str, ...] = ("/chat/completions",)
    alternates = False
    tail = b"]}"

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        return tool_list(tools)

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """Encode everything before the first message. Unset fields are omitted, since vLLM rejects nulls."""
        model = request.model
        head: dict[str, JsonValue] = {"model": model.name, "temperature": model.temperature}
        if model.max_tokens is not None:
            # openAI's reasoning models know the limit only by its newer name
            head["max_completion_tokens" if "max_tokens" in terms.refused else "max_tokens"] = model.max_tokens
        head |= {"stream": request.stream, **self.options(request, terms)}
        head = {name: value for name, value in head.items() if name not in terms.refused}
        if not tools:
            return dump_json(head)[:-1] + b',"messages":['
        choice = dump_json(self.tool_choice(request.tool_choice))
        return dump_json(head)[:-1] + b',"tools":' + tools + b',"tool_choice":' + choice + b',"messages":['

    def options(self, request: ModelRequestTerms, terms: HeadTerms) -> dict[str, JsonValue]:
        """Return fields that only some servers accept."""
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
        """Encode a tool choice: a mode, or the only tool to call."""
        return choice if choice in MODES else {"type": "function", "function": {"name": wire_name(choice)}}

    def encode_message(self, message: Message, model: Model) -> bytes:
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
        """Encode an answer, with the echoed fields of the answer and its calls if its own server receives it."""
        from vibe_jupyter.llm.echoes import echoed_message, joined  # noqa: PLC0415 - a first request has no answers

        fields, beside = echoed_message(message, model)
        content = self.content(message, model)
        encoded = {"role": "assistant", **joined({"content": content}, fields)}
        if message.calls:
            calls = zip(message.calls, beside, strict=True)
            encoded["tool_calls"] = [joined(self._encode_call(call), extra) for call, extra in calls]
        return encoded

    def content(self, message: AssistantMessage, model: Model) -> JsonValue:
        """Return the content of an answer: its text, preceded by the reasoning if that arrived as content parts."""
        parts = [part for part in message.parts if isinstance(part, ReasoningPart)]
        if not parts or not self.thinks_in_content(message, model):
            return message.text
        from vibe_jupyter.llm.echoes import CONTENT_NAMES, may_think  # noqa: PLC0415

        if not may_think(message, model) or CONTENT_NAMES & model.echoes.refused:
            return message.text
        content: list[JsonValue] = []
        for part in parts:
            thought: dict[str, JsonValue] = {"type": "thinking", "thinking": [{"type": "text", "text": part.text}]}
            content.append({**thought, "signature": part.signature} if part.signature else thought)
        # never add an empty text part: it would invalidate the server's prompt cache
        return [*content, {"type": "text", "text": message.text}] if message.text else content

    def thinks_in_content(self, message: AssistantMessage, model: Model) -> bool:
        """Return whether the reasoning of an answer is sent as content parts."""
        return message.reasoning_field == IN_CONTENT and model.thinking != "off" and not model.server.reasoning_field

    def call_id(self, call_id: str) -> str:
        """Return the id of a call as sent, the same for the call and its result."""
        return call_id

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Return the refused fields. Older servers reject `stream_options`, newer models reject a temperature."""
        if status not in _OPTION_REFUSALS:
            return frozenset()
        return frozenset(field for field, words in _REFUSABLE.items() if words.search(body))

    def decoder(self, model: Model, limits: AnswerLimits) -> ChatDecoder:
        return ChatDecoder(limits, reasoning_field=model.server.reasoning_field)

    def _encode_call(self, call: ToolCall) -> Object:
        function: JsonValue = {"name": wire_name(call.name), "arguments": call_arguments_text(call.arguments)}
        return {"id": self.call_id(call.id), "type": "function", "function": function}
