"""An answer that is growing, with its calls: pieces are kept in lists, joined and validated once, at the end."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.event_streams import EventTooLong, LineDecoder, SSEDecoder
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.hosted_events import CountsSoFar, Piece
from vibe_jupyter.llm.json_text import PairJoiner, repair_surrogates
from vibe_jupyter.llm.request import AnswerDecoder, AnswerLimits
from vibe_jupyter.protocol import (
    AssistantMessage,
    Delta,
    Message,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    Usage,
)

_EXCERPT = 200
"""Characters of a body that is no answer, shown to the user."""
_EVENTS = "text/event-stream"
_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})


def new_call_id() -> str:
    """An id for a call that came without one: nine letters and digits, since Mistral takes no other."""
    return uuid.uuid4().hex[:9]


class GrowingAnswer:
    """What the decoders of all dialects fill. Deltas gather until `take`."""

    def __init__(self, limits: AnswerLimits, *, new_id: Callable[[], str] = new_call_id) -> None:
        self.model = ""
        self.usage: Usage | None = None
        """The last counts that came; None while none came."""
        self.stop_reason: StopReason = "stop"
        self.signature: str | None = None
        """The server's seal on the reasoning."""
        self._limits = limits
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_joiner = PairJoiner()
        self._reasoning_joiner = PairJoiner()
        self._calls = CallList(new_id)
        self._size = 0
        self._deltas: list[Delta | CountsSoFar] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add_text(self, piece: str) -> None:
        """A piece of the answer."""
        self._count_characters(len(piece))
        if shown := self._text_joiner.feed(piece):
            self._text.append(shown)
            self._deltas.append(TextDelta(shown))

    def add_reasoning(self, piece: str) -> None:
        """A piece of what the model thinks."""
        self._count_characters(len(piece))
        if shown := self._reasoning_joiner.feed(piece):
            self._reasoning.append(shown)
            self._deltas.append(ReasoningDelta(shown))

    def add_call(self, *, index: int | None, call_id: str, name: str, arguments: str, whole: bool = False) -> None:
        """A piece of a call, see `CallList.add`."""
        self._count_characters(len(name) + len(arguments))
        delta = self._calls.add(index=index, call_id=call_id, name=name, arguments=arguments, whole=whole)
        if delta.position >= self._limits.calls:
            raise BrokenAnswer("limit", f"more than {self._limits.calls} calls in one answer")
        self._deltas.append(delta)

    def grow_call(self, index: int, arguments: str) -> bool:
        """The next piece of the arguments of a call that has begun; False where none has, and nothing was taken."""
        delta = self._calls.grow(index, arguments)
        if delta is None:
            return False
        self._count_characters(len(arguments))
        self._deltas.append(delta)
        return True

    def tell_counts(self) -> None:
        """Say what the answer has used, although it goes on."""
        if self.usage is not None:
            self._deltas.append(CountsSoFar(self.usage))

    def take(self) -> list[Delta | CountsSoFar]:
        """The deltas since the last time."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def finish(self) -> AssistantMessage:
        """The complete message.

        Raises:
            Broken: there is neither text nor a call.
        """
        self._text.append(self._text_joiner.end())
        self._reasoning.append(self._reasoning_joiner.end())
        text, reasoning, calls = self.text, "".join(self._reasoning), self._calls.finish()
        if not text.strip() and not calls:
            raise BrokenAnswer("empty", _why_empty(self.stop_reason, reasoning))
        parts: list[TextPart | ReasoningPart | ToolCall] = []
        if reasoning:
            parts.append(ReasoningPart(text=reasoning, signature=self.signature))
        if text:
            parts.append(TextPart(text=text))
        return AssistantMessage(
            parts=(*parts, *calls), stop_reason=self.stop_reason, usage=self.usage, model=repair_surrogates(self.model)
        )

    def _count_characters(self, characters: int) -> None:
        self._size += characters
        if self._size > self._limits.message:
            raise BrokenAnswer("limit", f"more than {self._limits.message} characters in one answer")


def allowed_deltas(deltas: Iterable[Piece], *, calls: bool) -> Iterable[Piece]:
    """The deltas, without those of calls where none are allowed."""
    return deltas if calls else (delta for delta in deltas if not isinstance(delta, ToolCallDelta))


def without_calls(message: AssistantMessage) -> AssistantMessage:
    """An answer to a request that allowed no calls.

    Raises:
        Broken: it is nothing but calls.
    """
    if message.calls and not message.text:
        raise BrokenAnswer("empty", "it called a tool, although none was allowed")
    kept = tuple(part for part in message.parts if not isinstance(part, ToolCall))
    return message.model_copy(update={"parts": kept})


def with_new_ids(message: AssistantMessage, before: Sequence[Message]) -> AssistantMessage:
    """An answer whose calls have no id of an earlier one: some servers count from 0 in each answer."""
    taken = {call.id for one in before if isinstance(one, AssistantMessage) for call in one.calls}
    if taken.isdisjoint(call.id for call in message.calls):
        return message
    parts = tuple(
        part.model_copy(update={"id": new_call_id()}) if isinstance(part, ToolCall) and part.id in taken else part
        for part in message.parts
    )
    return message.model_copy(update={"parts": parts})


def _why_empty(stop_reason: StopReason, reasoning: str) -> str:
    if stop_reason == "content_filter":
        return "the provider's content filter held the answer back"
    if stop_reason == "length":
        return "the token limit was reached before the answer began"
    return "it produced reasoning, but no answer" if reasoning else ""


class _Growing:
    """One call."""

    def __init__(self, position: int, index: int | None) -> None:
        self.position = position
        self.index = index
        self.id = ""
        self.name = ""
        self.shown_name = ""
        self._arguments: list[str] = []
        self._joiner = PairJoiner()

    def add_name(self, piece: str) -> None:
        """Join a fragment; a repeat of the whole name is none."""
        if piece != self.name:
            self.name += piece
            self.shown_name = repair_surrogates(self.name)

    def add_arguments(self, piece: str) -> str:
        """Join a fragment and return what of it can be shown."""
        shown = self._joiner.feed(piece)
        self._arguments.append(shown)
        return shown

    def set_arguments(self, text: str) -> str:
        """Take arguments that came as a value instead of text."""
        self._arguments = [repair_surrogates(text)]
        return self._arguments[0]

    @property
    def arguments(self) -> str:
        return "".join(self._arguments) + self._joiner.end()


class CallList:
    """The calls of one answer, in order."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._new_id = new_id
        self._calls: list[_Growing] = []
        self._by_index: dict[int, _Growing] = {}
        """The newest call at each index."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, *, index: int | None, call_id: str, name: str, arguments: str, whole: bool) -> ToolCallDelta:
        """Take a fragment. `call_id` and `name` are empty where none came; `whole` replaces the arguments so far."""
        if index is None:
            call = self._without_index(call_id, name)
        else:
            call = self._by_index.get(index)
            if call is None or call_id:
                call = self._call_at(index, call_id)
        if call_id and not call.id:
            call.id = call_id
        if name:
            call.add_name(name)
        shown = call.set_arguments(arguments) if whole else call.add_arguments(arguments)
        return ToolCallDelta(call.position, call.shown_name, shown)

    def grow(self, index: int, arguments: str) -> ToolCallDelta | None:
        """Take a fragment that is nothing but arguments; None where no call is at this index."""
        call = self._by_index.get(index)
        if call is None:
            return None
        return ToolCallDelta(call.position, call.shown_name, call.add_arguments(arguments))

    def finish(self) -> list[ToolCall]:
        """All calls, with ids that are there and unique. A fragment that never said anything is none."""
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for growing in self._calls:
            arguments = growing.arguments
            if not (growing.id or growing.name or arguments.strip()):
                continue
            call_id = repair_surrogates(growing.id)
            while not call_id or call_id in taken:
                call_id = self._new_id()
            taken.add(call_id)
            blank = arguments.strip() in {"", "null"}
            calls.append(
                ToolCall(id=call_id, name=repair_surrogates(growing.name), arguments="{}" if blank else arguments)
            )
        return calls

    def _call_at(self, index: int, call_id: str) -> _Growing:
        call = self._by_index.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            earlier = (old for old in self._calls if old.index == index and old.id == call_id)
            call = self._by_index[index] = next(earlier, None) or self._new_call(index)
        return call

    def _without_index(self, call_id: str, name: str) -> _Growing:
        if call_id:
            return next((call for call in self._calls if call.id == call_id), None) or self._new_call(None)
        return self._calls[-1] if self._calls and not name else self._new_call(None)

    def _new_call(self, index: int | None) -> _Growing:
        self._calls.append(_Growing(len(self._calls), index))
        return self._calls[-1]


class StreamReader:
    """A body of events, server-sent or a line each. Every method raises `BrokenAnswer` for what cannot be used."""

    def __init__(self, decoder: AnswerDecoder, limits: AnswerLimits, frames: SSEDecoder | LineDecoder) -> None:
        self._decoder = decoder
        self._limits = limits
        self._frames = frames
        self._last_event = time.monotonic()

    @property
    def finished(self) -> bool:
        """The answer is complete; counts may still come."""
        return self._decoder.finished

    @property
    def ended(self) -> bool:
        """Nothing that comes now is looked at."""
        return self._decoder.ended

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return self._decoder.text

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """Take the next read. What came before something broken is given out before that is raised."""
        try:
            events = self._frames.feed(chunk)
        except EventTooLong:
            raise BrokenAnswer("limit", f"one event of more than {self._limits.event} bytes") from None
        now = time.monotonic()
        if not events:
            if now - self._last_event > self._limits.answer:
                raise BrokenAnswer("limit", f"nothing but keep-alive signs for {self._limits.answer:.0f} s")
            return
        self._last_event = now
        try:
            for name, data in events:
                yield from self._decoder.event(name, data)
        except BrokenAnswer:
            yield from self._decoder.rest()
            raise

    def end(self) -> Sequence[Piece]:
        """The body is over. A last line that is no JSON is one that was cut."""
        try:
            deltas = [delta for name, data in self._frames.end() for delta in self._decoder.event(name, data)]
        except BrokenAnswer as broken:
            if broken.kind == "bad_json":
                raise BrokenAnswer("truncated") from broken
            raise
        if not self.finished:
            raise BrokenAnswer("truncated")
        return deltas

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._decoder.message()


class BodyReader:
    """A body of one JSON object. Every method raises `BrokenAnswer` for what cannot be used."""

    finished = False
    ended = False

    def __init__(self, decoder: AnswerDecoder, limits: AnswerLimits) -> None:
        self._decoder = decoder
        self._limits = limits
        self._pieces: list[bytes] = []
        self._size = 0
        self._until = time.monotonic() + limits.answer

    @property
    def text(self) -> str:
        """The answer's text; empty until the body is over."""
        return self._decoder.text

    def feed(self, chunk: bytes) -> Iterable[Piece]:
        """Take the next read."""
        self._pieces.append(chunk)
        self._size += len(chunk)
        if self._size > self._limits.message:
            raise BrokenAnswer("limit", f"a body of more than {self._limits.message} bytes")
        if time.monotonic() > self._until:
            raise BrokenAnswer("limit", f"a body that took more than {self._limits.answer:.0f} s")
        return ()

    def end(self) -> Sequence[Piece]:
        """The body is over."""
        text = b"".join(self._pieces).decode("utf-8-sig", "replace")
        if not text.strip():
            raise BrokenAnswer("empty")
        try:
            body = json_text.parse_json(text)
        except ValueError as problem:
            raise BrokenAnswer("bad_json", f"{problem}, in: {text[:_EXCERPT]}") from problem
        return self._decoder.whole(body)

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._decoder.message()


Reader = StreamReader | BodyReader


def reader_for(content_type: str, decoder: AnswerDecoder, limits: AnswerLimits, *, streamed: bool) -> Reader:
    """The reader for a type; what was asked for decides where the server names none."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _LINES:
        return StreamReader(decoder, limits, LineDecoder(max_event=limits.event))
    if kind == _EVENTS or (not kind and streamed):
        return StreamReader(decoder, limits, SSEDecoder(max_event=limits.event))
    if kind == "application/json" or kind.endswith("+json") or not kind:
        return BodyReader(decoder, limits)
    raise BrokenAnswer("not_sse", f"content type {kind}")


def is_stream(content_type: str) -> bool:
    """Whether pieces of the answer come one by one."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _EVENTS or kind in _LINES
