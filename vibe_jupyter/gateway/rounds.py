"""The model server's answers to one request, one a round, made into the one answer that the client gets.

Calls of our tools are taken out and answered here; all else is the client's, and is passed on as it came wherever it
can be: an answer of one round that calls none of our tools is not changed.
"""

import json
import secrets
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.llm.dialects.openai import ChatDecoder, parse_event
from vibe_jupyter.llm.event_streams import ServerEvent
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.request import AnswerLimits
from vibe_jupyter.protocol import AssistantMessage, FinishReason, TextPart, ToolCall

Object = dict[str, JsonValue]
_Held = tuple[ServerEvent, Object]

DONE: Final = "[DONE]"
_ENVELOPE: Final = ("id", "created", "model", "system_fingerprint", "object", "service_tier")
_IN_CALL: Final = frozenset({"index", "id", "type", "function"})
_ENDS: Final[Mapping[FinishReason, str]] = {
    "turn_limit": "length",
    "price_limit": "length",
    "token_limit": "length",
    "time_limit": "length",
}
"""How an answer ends whose run was ended after a round with calls of ours."""


@dataclass(frozen=True)
class Round:
    """One answer of the model server."""

    message: AssistantMessage
    """As the loop gets it: its text, and the calls that are ours."""
    raw: Object
    """As it goes back to the model server: with all its calls."""
    ours: tuple[ToolCall, ...]
    theirs: tuple[Object, ...]
    """The client's calls, as the model server spelled them; with ids of ours where calls were answered here."""
    ids: Mapping[str, str]
    """What those ids stand for."""


@dataclass
class Timing:
    """How long the model server took."""

    prompt: float = 0.0
    """Seconds until answers began."""
    completion: float = 0.0
    """Seconds from there to their ends."""
    _asked: float = field(default_factory=time.monotonic)
    _began: float | None = None

    def asked(self) -> None:
        """A request is sent."""
        self._asked, self._began = time.monotonic(), None

    def began(self) -> None:
        """The first piece of its answer is here."""
        if self._began is None:
            self._began = time.monotonic()
            self.prompt += self._began - self._asked

    def ended(self) -> None:
        """Its answer is whole."""
        self.began()
        assert self._began is not None
        self.completion += time.monotonic() - self._began

    def fields(self, usage: Mapping[str, JsonValue]) -> Object:
        """What stands beside the counts."""
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
    """What the answers so far add up to."""

    def __init__(self, is_ours: Callable[[str], bool]) -> None:
        """
        Args:
            is_ours: whether a call of that name is answered here.
        """
        self.all: list[Round] = []
        self.usage: Object = {}
        """Summed, as the model server spells it; empty where it says nothing."""
        self.timing = Timing()
        self._is_ours = is_ours

    @property
    def theirs(self) -> tuple[Object, ...]:
        """The client's calls of the latest answer."""
        return self.all[-1].theirs if self.all else ()

    @property
    def used_tools(self) -> bool:
        """Whether a call of ours was in any answer."""
        return any(one.ours for one in self.all)

    def add(self, message: AssistantMessage, raw: Object, calls: Sequence[Object]) -> Round:
        """Take an answer.

        Args:
            message: as it was understood.
            raw: its message without the calls.
            calls: as they were spelled, beside those of `message`.
        """
        ours = tuple(call for call in message.calls if self._is_ours(call.name))
        names = {call.id for call in ours}
        theirs = tuple(call for call in calls if call.get("id") not in names)
        ids: dict[str, str] = {}
        if ours or self.used_tools:
            # The rest of the conversation is kept under them, and servers may give an id twice.
            ids = {_new_id(): str(call.get("id")) for call in theirs}
            theirs = tuple({**call, "id": own} for own, call in zip(ids, theirs, strict=True))
        parts = tuple(part for part in message.parts if not isinstance(part, ToolCall))
        shown = message.model_copy(update={"parts": (*(parts or (TextPart(text=""),)), *ours)})
        if calls:
            raw = {**raw, "tool_calls": cast("list[JsonValue]", list(calls))}
        self.all.append(Round(shown, raw, ours, theirs, ids))
        return self.all[-1]

    def add_usage(self, usage: JsonValue) -> None:
        """Add the counts of an answer."""
        if isinstance(usage, dict):
            self.usage = add_counts(self.usage, usage)


def _new_id() -> str:
    """Nine letters and digits: where the rest was forgotten it goes to the model server, and Mistral takes no other."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


def empty_message(decoder: ChatDecoder) -> AssistantMessage:
    """The message of an answer, also of one that says nothing."""
    try:
        return decoder.message()
    except BrokenAnswer:
        return AssistantMessage(parts=(), stop_reason="stop")


class ContinuedStream:
    """Chunks of several answers as those of one: one id, one role, one finish reason, calls numbered through.

    From the first piece of a call, or a finish reason, chunks are held until it is known whose the calls are.
    """

    def __init__(self, rounds: Rounds, limits: AnswerLimits, *, reasoning_field: str = "") -> None:
        self._rounds = rounds
        self._limits = limits
        self._reasoning_field = reasoning_field
        self._envelope: Object = {}
        self._role = ""
        """As it came; OpenAI sends it beside the first call, in a chunk that is held."""
        self._role_is_given = False
        self._positions = 0
        """Calls that the client was given."""
        self._begin()

    def _begin(self) -> None:
        self._decoder = ChatDecoder(self._limits, reasoning_field=self._reasoning_field)
        self._held: list[_Held] = []
        self._extras: dict[int, Object] = {}
        self._reasoning: list[str] = []

    @property
    def _is_first(self) -> bool:
        return not self._rounds.all

    @property
    def finished(self) -> bool:
        """Whether the answer that is coming in has said how it ends."""
        return self._decoder.finished

    def feed(self, event: ServerEvent) -> ServerEvent | None:
        """Take an event; what the client gets of it now.

        Raises:
            BrokenAnswer: it is no chunk, or says that the model server failed.
        """
        if event.name != "message":
            return event
        body = parse_event(event.data)
        if not isinstance(body, dict):
            return event if self._is_first else None
        self._rounds.timing.began()
        self._decoder.chunk(body)
        if not self._envelope:
            self._envelope = {name: body[name] for name in _ENVELOPE if name in body}
        delta, finish = _first_choice(body)
        self._gather(delta)
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
        """Take an answer that did not come as a stream, as a chunk that says all of it.

        Raises:
            BrokenAnswer: it is none, or says that the model server failed.
        """
        body = parse_event(raw.decode("utf-8", "replace"))
        ChatDecoder(self._limits).whole(body)
        assert isinstance(body, dict)
        choice = dict(_whole_choice(body))
        choice["delta"] = _as_delta(choice.pop("message", None))
        chunk = {**body, "object": "chat.completion.chunk", "choices": [choice]}
        return self.feed(ServerEvent("message", json.dumps(chunk, separators=(",", ":"))))

    def end(self) -> tuple[Round, list[ServerEvent]]:
        """The answer is over; also what of it can be passed on although another follows."""
        message = empty_message(self._decoder)
        self._rounds.timing.ended()
        raw: Object = {"role": "assistant", "content": message.text}
        if self._reasoning:
            raw[self._reasoning_field] = "".join(self._reasoning)
        calls = [{**_call_object(call), **self._extras.get(number, {})} for number, call in enumerate(message.calls)]
        held = self._held
        # Some servers count in every chunk, each time all so far.
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
        """The last chunks, once the run is over.

        Args:
            reason: why it is.
            extra: what the usage tells beside the counts.
            session_id: stands beside the finish reason; empty for none.
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
            choice.pop("logprobs", None)  # they stand beside the text
        beside = {**_beside(ended), **({"session_id": session_id} if session_id else {})}
        usage: Object = {**self._rounds.usage, **extra} if self._rounds.usage else {}
        if any(body.get("usage") and not body.get("choices") for _, body in held):
            return [*events, self._chunk([choice], beside), self._chunk([], {"usage": usage})]
        return [*events, self._chunk([choice], {**beside, "usage": usage} if usage else beside)]

    def _texts(self, held: Sequence[_Held]) -> list[ServerEvent]:
        """What stands in held chunks beside calls and ends."""
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
        """A chunk of a later answer; None where it only begins one."""
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
        # In ASCII: the halves of a character may come in two chunks, and are joined by the client.
        return ServerEvent("message", json.dumps(body, separators=(",", ":")))

    def _gather(self, delta: Object) -> None:
        """Keep what goes back to the model server and the decoder does not know."""
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict) and len(call) > 2:
                index = call.get("index")
                extra = {name: value for name, value in call.items() if name not in _IN_CALL}
                self._extras.setdefault(index if isinstance(index, int) else position, {}).update(extra)
        if self._reasoning_field and isinstance(thought := delta.get(self._reasoning_field), str):
            self._reasoning.append(thought)


class ContinuedBody:
    """Whole answers as one: the last, with the counts of all."""

    def __init__(self, rounds: Rounds, limits: AnswerLimits, *, reasoning_field: str = "") -> None:
        self._rounds = rounds
        self._limits = limits
        self._reasoning_field = reasoning_field
        self.latest: Object = {}
        self.raw = b""
        """The latest, as it came."""

    def take(self, raw: bytes) -> Round:
        """An answer.

        Raises:
            BrokenAnswer: it is none.
        """
        decoder = ChatDecoder(self._limits, reasoning_field=self._reasoning_field)
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
        kept: Object = {"role": "assistant", "content": message.text}
        if self._reasoning_field and said.get(self._reasoning_field):
            kept[self._reasoning_field] = said[self._reasoning_field]
        return self._rounds.add(message, kept, calls)

    def ending(self, reason: FinishReason, extra: Mapping[str, JsonValue]) -> Object:
        """The body for the client."""
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


def add_counts(total: Mapping[str, JsonValue], more: Mapping[str, JsonValue]) -> Object:
    """Counts of two answers together, whatever they are called."""
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
    """One of the counts; 0 where it is none."""
    value = counts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 3) if seconds > 0 else 0.0


def _first_choice(body: Object) -> tuple[Object, str]:
    """The delta and the finish reason."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return {}, ""
    delta, finish = choice.get("delta"), choice.get("finish_reason")
    return delta if isinstance(delta, dict) else {}, finish if isinstance(finish, str) else ""


def _beside(body: Object) -> Object:
    """What a chunk says beside its choices and counts."""
    return {name: value for name, value in body.items() if name not in ("choices", "usage")}


def _whole_choice(body: Object) -> Object:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def _as_delta(message: JsonValue) -> Object:
    """A message as a chunk has it: each call with its place."""
    delta = dict(message) if isinstance(message, dict) else Object()
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        given = [call for call in calls if isinstance(call, dict)]
        delta["tool_calls"] = [{**call, "index": place} for place, call in enumerate(given)]
    return delta


def _call_object(call: ToolCall) -> Object:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
