"""Chat Completions: what comes back, streamed or whole (security 3, Public contracts).

Null means absent everywhere, and what has an unknown shape is passed over: an answer is judged by what is left of it.
"""

import json

from pydantic import JsonValue

from vibe_jupyter.llm import strict_json
from vibe_jupyter.llm.agentic import CountsSoFar
from vibe_jupyter.llm.answer import GrowingAnswer
from vibe_jupyter.llm.failures import Broken, provider_message
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.surrogates import repair
from vibe_jupyter.protocol import AssistantMessage, Delta, StopReason, Usage

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
"""Characters of a line that is not JSON, shown to the person."""

Object = dict[str, JsonValue]


class ChatDecoder:
    """See `vibe_jupyter.llm.dialect.Decoder`."""

    def __init__(self, limits: Limits, *, reasoning_field: str = "") -> None:
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
                raise Broken("provider", _error_words(data))
            return []
        # Nearly all events begin so, and need no copy without blanks.
        bare = data if data.startswith("{") else data.strip()
        if bare == "[DONE]":
            self.finished = self.ended = True
        elif bare and isinstance(chunk := parse_event(data), dict):
            self._chunk(chunk)
        return self._answer.take()

    def whole(self, body: JsonValue) -> list[Delta | CountsSoFar]:
        """Take an answer that came as one JSON body."""
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
            raise Broken("provider", provider_message(body))
        self._chunk(body, whole=True)
        self.finished = self.ended = True
        return self._answer.take()

    def rest(self) -> list[Delta | CountsSoFar]:
        """Deltas of an event that was broken further on."""
        return self._answer.take()

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._answer.finish()

    def _chunk(self, chunk: Object, *, whole: bool = False) -> None:
        if "error" in chunk or chunk.get("object") == "error":
            _raise_error(chunk)
        if usage := chunk.get("usage"):
            self._usage(usage)
        model = chunk.get("model")
        if isinstance(model, str) and model:
            self._answer.model = model
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return
        for choice in choices:
            if isinstance(choice, dict) and not choice.get("index"):
                self._choice(choice, whole=whole)
        if usage and not (whole or self.finished):
            self._answer.tell_counts()

    def _choice(self, choice: Object, *, whole: bool) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta, whole=whole)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason == "error":
                raise Broken("provider", provider_message(choice.get("error") or choice.get("message")))
            self._answer.stop_reason = _STOP_REASONS.get(reason, "other")
            self.finished = True

    def _delta(self, delta: Object, *, whole: bool) -> None:
        calls = delta.get("tool_calls")
        # A piece of a call stands alone, and there are many.
        if calls is None or len(delta) > 1:
            self._words(delta)
        if isinstance(calls, list):
            self._calls(calls, whole=whole)

    def _words(self, delta: Object) -> None:
        for field in self._reasoning_fields:
            if (reasoning := delta.get(field)) is not None:
                self._thinking(reasoning)
                break
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                self._answer.add_text(content)
        elif isinstance(content, list):
            self._parts(content)
        # OpenAI's models say no in a field of its own.
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._answer.add_text(refusal)

    def _calls(self, calls: list[JsonValue], *, whole: bool) -> None:
        for position, call in enumerate(calls):
            if isinstance(call, dict):
                self._call(call, position if whole else None)

    def _parts(self, parts: list[JsonValue]) -> None:
        """Mistral's form of content."""
        for part in parts:
            if isinstance(part, str):
                self._answer.add_text(part)
            elif isinstance(part, dict):
                kind, text = part.get("type"), part.get("text")
                if kind == "text" and isinstance(text, str):
                    self._answer.add_text(text)
                elif kind == "thinking":
                    self._thinking(part.get("thinking"))
                    if isinstance(seal := part.get("signature"), str) and seal:
                        self._answer.signature = repair(seal)

    def _thinking(self, thinking: JsonValue) -> None:
        for piece in thinking if isinstance(thinking, list) else [thinking]:
            text = piece.get("text") if isinstance(piece, dict) else piece
            if isinstance(text, str) and text:
                self._answer.add_reasoning(text)

    def _call(self, call: Object, position: int | None) -> None:
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
        whole = not isinstance(arguments, str | None)
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False) if whole else ""
        self._answer.add_call(
            index=_integer(call.get("index")) if position is None else position,
            call_id=call_id if isinstance(call_id, str) and call_id not in _NO_IDS else "",
            name=name if isinstance(name, str) else "",
            arguments=arguments,
            whole=whole,
        )

    def _usage(self, usage: JsonValue) -> None:
        if not isinstance(usage, dict):
            return
        prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
        reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
        if reasoning and count(usage.get("total_tokens")) == prompt + completion + reasoning:
            # Some servers count what the model thought apart, and bill it as output all the same.
            completion += reasoning
        cached = [_detail(usage, "prompt_tokens_details", "cached_tokens")]
        # DeepSeek and Mistral have fields of their own.
        cached += [count(usage.get(name)) for name in ("prompt_cache_hit_tokens", "num_cached_tokens")]
        self._answer.usage = Usage(
            prompt_tokens=prompt, completion_tokens=completion, cached_tokens=next(filter(None, cached), 0)
        )


def _detail(usage: Object, group: str, name: str) -> int:
    details = usage.get(group)
    return count(details.get(name)) if isinstance(details, dict) else 0


def parse_event(data: str) -> JsonValue:
    """The JSON of one event."""
    try:
        return strict_json.parse(data)
    except ValueError as problem:
        raise Broken("bad_json", f"{problem}, in: {data[:_EXCERPT]}") from problem


def _raise_error(chunk: Object) -> None:
    error = chunk.get("error")
    if isinstance(error, str | dict | list):
        raise Broken("provider", provider_message(error) or "an error without words")
    if chunk.get("object") == "error":
        raise Broken("provider", provider_message(chunk))


def _error_words(data: str) -> str:
    try:
        return provider_message(strict_json.parse(data)) or data
    except ValueError:
        return data


def _integer(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(value: JsonValue) -> int:
    """A number of tokens; 0 for what is none."""
    return max(_integer(value) or 0, 0)
