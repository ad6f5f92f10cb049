"""Merging of the model server's answers to one request, one per round, into the single answer for the client.

Calls of the gateway's tools are removed and answered here. Everything else is for the client and is passed on
unmodified where possible: if the first answer has no such calls, it isn't changed at all.
"""

import json
import secrets
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.gateway.echoes import kept_echo, with_echo
from vibe_jupyter.llm.dialects.openai import ChatDecoder, parse_event
from vibe_jupyter.llm.echoes import joined
from vibe_jupyter.llm.event_streams import ServerEvent
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.request import AnswerLimits, Model
from vibe_jupyter.protocol import AssistantMessage, FinishReason, TextPart, ToolCall

Object = dict[str, JsonValue]
_Held = tuple[ServerEvent, Object]

DONE: Final = "[DONE]"
_ENVELOPE: Final = ("id", "created", "model", "system_fingerprint", "object", "service_tier")
# Finish reasons of an answer whose run reached a limit after a round with gateway calls.
_ENDS: Final[Mapping[FinishReason, str]] = {
    "turn_limit": "length",
    "price_limit": "length",
    "token_limit": "length",
    "time_limit": "length",
}


@dataclass(frozen=True)
class Round:
    """An answer of the model server."""

    message: AssistantMessage  # for the agent loop: text and the gateway's calls
    raw: Object  # for the model server: with all calls
    ours: tuple[ToolCall, ...]
    # The client's calls in the model server's encoding. They get new IDs if the gateway answers any calls.
    theirs: tuple[Object, ...]
    ids: Mapping[str, str]  # maps the new IDs to the model server's


@dataclass
class Timing:
    """Response times of the model server, summed over all rounds."""

    prompt: float = 0.0  # seconds until answers began
    completion: float = 0.0  # seconds from there to their ends
    _asked: float = field(default_factory=time.monotonic)
    _began: float | None = None

    def asked(self) -> None:
        """Note the start of a request."""
        self._asked, self._began = time.monotonic(), None

    def began(self) -> None:
        """Note the first data of the answer. Later calls in the same round do nothing."""
        if self._began is None:
            self._began = time.monotonic()
            self.prompt += self._began - self._asked

    def ended(self) -> None:
        """Note the end of the answer."""
        self.began()
        assert self._began is not None
        self.completion += time.monotonic() - self._began

    def fields(self, usage: Mapping[str, JsonValue]) -> Object:
        """Return the timing fields that are added to ``usage``."""
        prompt, completion = count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")
        total = self.prompt + self.completion
        return {
            "avg_tok_per_sec": _rate(prompt + completion, total),
            "avg_prompt_tok_per_sec": _rate(prompt, self.prompt),
            "avg_compl_tok_per_sec": _rate(completion, self.completion),
            "total_time_sec": round(total, 3),
            "total_prompt_time_sec": round(self.prompt, 3),
            "total_completion_time_sec": round(self.completion, 3),
        }


class Rounds:
    """Rounds of one exchange and their total usage."""

    def __init__(self, is_ours: Callable[[str], bool]) -> None:
        """
        Args:
            is_ours: returns whether the gateway answers calls of a name.
        """
        self.all: list[Round] = []
        self.usage: Object = {}  # sums in the model server's format; empty if it reports none
        self.timing = Timing()
        self._is_ours = is_ours

    @property
    def theirs(self) -> tuple[Object, ...]:
        """The client's calls in the latest answer."""
        return self.all[-1].theirs if self.all else ()

    @property
    def used_tools(self) -> bool:
        """True if any answer called a tool of the gateway."""
        return any(one.ours for one in self.all)

    def add(self, message: AssistantMessage, raw: Object, calls: Sequence[Object]) -> Round:
        """Add an answer.

        Args:
            message: the parsed answer.
            raw: its message for the model server, without calls.
            calls: its calls in the form for the client, including vendor fields.
        """
        ours = tuple(call for call in message.calls if self._is_ours(call.name))
        names = {call.id for call in ours}
        theirs = tuple(call for call in calls if call.get("id") not in names)
        ids: dict[str, str] = {}
        if ours or self.used_tools:
            # They are the keys of the hidden rounds in the store, and servers may use an ID twice.
            ids = {_new_id(): str(call.get("id")) for call in theirs}
            theirs = tuple({**call, "id": own} for own, call in zip(ids, theirs, strict=True))
        parts = tuple(part for part in message.parts if not isinstance(part, ToolCall))
        shown = message.model_copy(update={"parts": (*(parts or (TextPart(text=""),)), *ours)})
        if calls:
            raw = {**raw, "tool_calls": [_call_object(call) for call in message.calls]}
        self.all.append(Round(shown, raw, ours, theirs, ids))
        return self.all[-1]

    def add_usage(self, usage: JsonValue) -> None:
        if isinstance(usage, dict):
            self.usage = add_counts(self.usage, usage)


def _new_id() -> str:
    """Return nine letters and digits, the only form of ID that Mistral accepts.

    The model server sees it if the hidden rounds have expired when the client returns its results.
    """
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


def empty_message(decoder: ChatDecoder) -> AssistantMessage:
    """Return the decoded message, or an empty one if the answer has no content."""
    try:
        return decoder.message()
    except BrokenAnswer:
        return AssistantMessage(parts=(), stop_reason="stop")


class ContinuedStream:
    """Merger of the chunks of several answers: one ID, one role, one finish reason, calls numbered consecutively.

    From the first piece of a call or the finish reason on, chunks are held back until it is known whose calls they are.
    """

    def __init__(self, rounds: Rounds, limits: AnswerLimits, model: Model) -> None:
        self._rounds = rounds
        self._limits = limits
        self._model = model
        self._envelope: Object = {}
        self._role = ""  # as received; OpenAI sends it with the first call, in a chunk that is held back
        self._role_is_given = False
        self._positions = 0  # number of calls sent to the client
        self._begin()

    def _begin(self) -> None:
        self._decoder = ChatDecoder(self._limits, reasoning_field=self._model.server.reasoning_field)
        self._held: list[_Held] = []

    @property
    def _is_first(self) -> bool:
        return not self._rounds.all

    @property
    def finished(self) -> bool:
        """True once the current answer has sent its finish reason."""
        return self._decoder.finished

    def feed(self, event: ServerEvent) -> ServerEvent | None:
        """Process an event. Returns the event for the client, or None if there is none yet.

        Raises:
            BrokenAnswer: it isn't a chunk, or it reports a failure of the model server.
        """
        name, data = event
        if name != "message":
            return event
        body = parse_event(data)
        if not isinstance(body, dict):
            return event if self._is_first else None
        self._rounds.timing.began()
        self._decoder.chunk(body)
        if not self._envelope:
            self._envelope = {name: body[name] for name in _ENVELOPE if name in body}
        delta, finish = _first_choice(body)
        if isinstance(role := delta.get("role"), str):
            self._role = role
        if self._held or finish or delta.get("tool_calls") or (not body.get("choices") and body.get("usage")):
            self._held.append((event, body))
            return None
        if not self._is_first:
            return self._continued(body)
        self._role_is_given = bool(self._role)
        return event

    def feed_whole(self, raw: bytes) -> ServerEvent | None:
        """Process a complete body as if it were a single chunk.

        Raises:
            BrokenAnswer: it isn't an answer, or it reports a failure of the model server.
        """
        body = parse_event(raw.decode("utf-8", "replace"))
        ChatDecoder(self._limits).whole(body)
        assert isinstance(body, dict)
        choice = dict(_whole_choice(body))
        choice["delta"] = _as_delta(choice.pop("message", None))
        chunk = {**body, "object": "chat.completion.chunk", "choices": [choice]}
        return self.feed(("message", json.dumps(chunk, separators=(",", ":"))))

    def end(self) -> tuple[Round, list[ServerEvent]]:
        """Finish the current answer. Returns its round, and the events to send although another answer follows."""
        message = empty_message(self._decoder)
        self._rounds.timing.ended()
        raw = _raw_message(message, self._model)
        calls = [joined(_call_object(call), call.beside) for call in message.calls]
        held = self._held
        # Some servers report usage in every chunk, each time the total so far.
        self._rounds.add_usage(next((said for _, body in reversed(held) if (said := body.get("usage"))), None))
        is_first = self._is_first
        one = self._rounds.add(message, raw, calls)
        if not one.ours:
            self._last = held, is_first and not one.theirs
            return one, []
        self._last = held, False
        self._begin()
        return one, self._texts(held)

    def ending(self, reason: FinishReason, extra: Mapping[str, JsonValue], session_id: str = "") -> list[ServerEvent]:
        """Return the last chunks, once the run has finished.

        Args:
            reason: why the run finished.
            extra: fields to add to the usage.
            session_id: sent with the finish reason; "" for none.
        """
        held, is_untouched = self._last
        if is_untouched and not extra:
            return [event for event, _ in held]
        last = self._rounds.all[-1]
        events = [] if last.ours else self._texts(held)
        for call in last.theirs:
            events.append(self._delta({"tool_calls": [{"index": self._positions, **call}]}))
            self._positions += 1
        ended = next((body for _, body in reversed(held) if _first_choice(body)[1]), Object())
        delta, said = _first_choice(ended)
        finish = "tool_calls" if last.theirs else _ENDS.get(reason, "stop") if last.ours else said or "stop"
        choice: Object = {"index": 0, **_whole_choice(ended), "delta": {}, "finish_reason": finish}
        if delta.get("content"):
            choice.pop("logprobs", None)  # already sent with the text
        beside = {**_beside(ended), **({"session_id": session_id} if session_id else {})}
        usage: Object = {**self._rounds.usage, **extra} if self._rounds.usage else {}
        if any(body.get("usage") and not body.get("choices") for _, body in held):
            return [*events, self._chunk([choice], beside), self._chunk([], {"usage": usage})]
        return [*events, self._chunk([choice], {**beside, "usage": usage} if usage else beside)]

    def _texts(self, held: Sequence[_Held]) -> list[ServerEvent]:
        """Return chunks with the content of held ones, without their calls and finish reasons."""
        events: list[ServerEvent] = []
        for _, body in held:
            delta, _ = _first_choice(body)
            kept: Object = {
                name: value for name, value in delta.items() if name not in ("tool_calls", "role") and value
            }
            if kept:
                choice: Object = {"index": 0, **_whole_choice(body), "delta": kept, "finish_reason": None}
                events.append(self._chunk([choice], _beside(body)))
        return events

    def _continued(self, body: Object) -> ServerEvent | None:
        """Convert a chunk of a later answer. Returns None if it has no content."""
        choices: list[JsonValue] = []
        given = body.get("choices")
        for choice in given if isinstance(given, list) else ():
            said = choice.get("delta") if isinstance(choice, dict) else None
            if not isinstance(choice, dict) or not isinstance(said, dict):
                continue
            delta = {name: value for name, value in said.items() if name != "role"}
            if any(value not in (None, "") for value in delta.values()):
                choices.append({**choice, "delta": delta})
        return self._chunk(choices, body) if choices else None

    def _delta(self, delta: Mapping[str, JsonValue]) -> ServerEvent:
        return self._chunk([{"index": 0, "delta": dict(delta), "finish_reason": None}])

    def _chunk(self, choices: Sequence[JsonValue], beside: Mapping[str, JsonValue] | None = None) -> ServerEvent:
        if choices and self._role and not self._role_is_given:
            first, *others = cast("Sequence[Object]", choices)
            choices = [{**first, "delta": {"role": self._role, **cast("Object", first["delta"])}}, *others]
            self._role_is_given = True
        body = {**(beside or {}), **self._envelope, "choices": list(choices)}
        # Escaped to ASCII, since a surrogate pair may be split between two chunks. The client joins the halves.
        return "message", json.dumps(body, separators=(",", ":"))


class ContinuedBody:
    """Merger of complete bodies: returns the last one with the usage of all."""

    def __init__(self, rounds: Rounds, limits: AnswerLimits, model: Model) -> None:
        self._rounds = rounds
        self._limits = limits
        self._model = model
        self.latest: Object = {}
        self.raw = b""  # the latest body as received

    def take(self, raw: bytes) -> Round:
        """Process a body.

        Raises:
            BrokenAnswer: it isn't an answer.
        """
        decoder = ChatDecoder(self._limits, reasoning_field=self._model.server.reasoning_field)
        body = parse_event(raw.decode("utf-8", "replace"))
        decoder.whole(body)
        assert isinstance(body, dict)
        self._rounds.timing.ended()
        self._rounds.add_usage(body.get("usage"))
        self.latest, self.raw = body, raw
        message = empty_message(decoder)
        said = cast("Object", _whole_choice(body).get("message") or {})
        given = said.get("tool_calls")
        spelled = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        calls = [{**one, **_call_object(call)} for one, call in zip(spelled, message.calls, strict=False)]
        return self._rounds.add(message, _raw_message(message, self._model), calls)

    def ending(self, reason: FinishReason, extra: Mapping[str, JsonValue]) -> Object:
        """Return the body for the client."""
        last = self._rounds.all[-1]
        choice = _whole_choice(self.latest)
        message = {name: value for name, value in cast("Object", choice.get("message") or {}).items()}
        message.pop("tool_calls", None)
        finish = choice.get("finish_reason")
        if last.theirs:
            message["tool_calls"] = cast("list[JsonValue]", list(last.theirs))
            finish = "tool_calls"
        elif last.ours:
            finish = _ENDS.get(reason, "stop")
        body: Object = {**self.latest, "choices": [{**choice, "message": message, "finish_reason": finish}]}
        if self._rounds.usage:
            body["usage"] = {**self._rounds.usage, **extra}
        return body


def _raw_message(message: AssistantMessage, model: Model) -> Object:
    return with_echo({"role": "assistant", "content": message.text}, kept_echo(message, model.origin))


def add_counts(total: Mapping[str, JsonValue], more: Mapping[str, JsonValue]) -> Object:
    """Add two answers' counts, including those in nested objects."""
    added: Object = dict(total)
    for name, value in more.items():
        had = added.get(name)
        if isinstance(value, dict):
            added[name] = add_counts(had if isinstance(had, dict) else {}, value)
        elif _is_count(value) and _is_count(had):
            added[name] = cast("int", had) + cast("int", value)
        elif had is None or value is not None:
            added[name] = value
    return added


def count_of(counts: Mapping[str, JsonValue], name: str) -> int:
    """Return a count, or 0 if it is missing or not an integer."""
    value = counts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 3) if seconds > 0 else 0.0


def _first_choice(body: Object) -> tuple[Object, str]:
    """Return delta and finish reason of the first choice."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return {}, ""
    delta, finish = choice.get("delta"), choice.get("finish_reason")
    return delta if isinstance(delta, dict) else {}, finish if isinstance(finish, str) else ""


def _beside(body: Object) -> Object:
    """Return the fields of a chunk other than its choices and usage."""
    return {name: value for name, value in body.items() if name not in ("choices", "usage")}


def _whole_choice(body: Object) -> Object:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def _as_delta(message: JsonValue) -> Object:
    """Convert a message to a delta, in which each call has an index."""
    delta = dict(message) if isinstance(message, dict) else Object()
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        given = [call for call in calls if isinstance(call, dict)]
        delta["tool_calls"] = [{**call, "index": place} for place, call in enumerate(given)]
    return delta


def _call_object(call: ToolCall) -> Object:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
