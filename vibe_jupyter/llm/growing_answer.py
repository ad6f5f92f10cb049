"""Accumulator of a streamed answer and its calls. Pieces are collected in lists, then joined and validated once at the
end."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.event_streams import BOM, EventTooLong, LineDecoder, ServerEvent, SSEDecoder
from vibe_jupyter.llm.failures import BEGIN_SETTING, BrokenAnswer, late_answer
from vibe_jupyter.llm.hosted_events import CountsSoFar, Piece
from vibe_jupyter.llm.json_text import PairJoiner, repair_surrogates
from vibe_jupyter.llm.request import AnswerDecoder, AnswerLimits
from vibe_jupyter.protocol import (
    AssistantMessage,
    Delta,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    Usage,
)

if TYPE_CHECKING:
    from vibe_jupyter.llm.vendor_fields import VendorFields

_EXCERPT = 200  # characters of an unusable body to show the user
_EVENTS = "text/event-stream"
# Starts of an event stream
_FIELDS = (b"data:", b"event:", b"retry:", b"id:", b":")
_LONGEST_FIELD = max(map(len, _FIELDS))
_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
_IN_CALL = frozenset({"index", "id", "type", "function"})
_IN_FUNCTION = frozenset({"index", "name", "arguments"})


def new_call_id() -> str:
    """Make an id for a call that has none: nine alphanumeric characters, the only form Mistral accepts."""
    return uuid.uuid4().hex[:9]


def call_fields(call: Mapping[str, JsonValue], function: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields of a call that no dialect knows, with those of its function under ``function``."""
    if call.keys() <= _IN_CALL and function.keys() <= _IN_FUNCTION:
        return {}
    beside: dict[str, JsonValue] = {name: value for name, value in call.items() if name not in _IN_CALL}
    inner: dict[str, JsonValue] = {
        name: value for name, value in function.items() if name not in _IN_FUNCTION and value is not None
    }
    return {**beside, "function": inner} if inner else beside


class GrowingAnswer:
    """The answer being built by a decoder. Deltas are queued until `take`."""

    def __init__(self, limits: AnswerLimits, *, new_id: Callable[[], str] = new_call_id) -> None:
        self.model = ""
        self.usage: Usage | None = None  # latest token counts, or None
        self.stop_reason: StopReason = "stop"
        self.signature: str | None = None  # the server's signature of the reasoning
        self.reasoning_field = ""  # field in which the reasoning arrives, or '' before any has
        self._fields: dict[int | None, VendorFields] = {}
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
        return "".join(self._text)

    @property
    def has_begun(self) -> bool:
        """True once a piece of the answer has come."""
        return self._size > 0

    def add_text(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > self._limits.message:
            raise self._too_long()
        if shown := piece if piece.isascii() and not self._text_joiner.held else self._text_joiner.feed(piece):
            self._text.append(shown)
            self._deltas.append(TextDelta(shown))

    def add_reasoning(self, piece: str) -> None:
        self._count_characters(len(piece))
        if shown := self._reasoning_joiner.feed(piece):
            self._reasoning.append(shown)
            self._deltas.append(ReasoningDelta(shown))

    def forget_fields(self) -> None:
        """Discard unknown fields: another answer follows, which is shown as one with this."""
        self._fields = {}
        self.signature = None

    def fields_of(self, call: int | None = None) -> "VendorFields":
        """Return the collector of fields that the dialect doesn't know.

        Args:
            call: Position of a call, or None for the message itself.
        """
        if call not in self._fields:
            from vibe_jupyter.llm.vendor_fields import VendorFields  # noqa: PLC0415 - few servers send any

            self._fields[call] = VendorFields(self._count_characters)
        return self._fields[call]

    def add_call(self, *, index: int | None, call_id: str, name: str, arguments: str, whole: bool = False) -> int:
        """Add a fragment of a call, see `CallList.add`. Returns the position of the call."""
        self._count_characters(len(name) + len(arguments))
        delta = self._calls.add(index=index, call_id=call_id, name=name, arguments=arguments, whole=whole)
        if delta.position >= self._limits.calls:
            raise BrokenAnswer("limit", f"more than {self._limits.calls} calls in one answer")
        self._deltas.append(delta)
        return delta.position

    def grow_call(self, index: int, arguments: str) -> bool:
        """Append arguments to the call at `index`. Returns False, without effect, if no such call has begun."""
        call = self._calls.newest.get(index)
        if call is None:
            return False
        self._size += len(arguments)
        if self._size > self._limits.message:
            raise self._too_long()
        self._deltas.append(ToolCallDelta(call.position, call.shown_name, call.add_arguments(arguments)))
        return True

    def tell_counts(self) -> None:
        """Queue the token counts so far while the answer continues."""
        if self.usage is not None:
            self._deltas.append(CountsSoFar(self.usage))

    def take(self) -> list[Delta | CountsSoFar]:
        """Return the queued deltas and clear the queue."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def finish(self) -> AssistantMessage:
        """Build the complete message.

        Raises:
            BrokenAnswer: It has neither text nor calls.
        """
        self._text.append(self._text_joiner.end())
        self._reasoning.append(self._reasoning_joiner.end())
        text, reasoning, calls = self.text, "".join(self._reasoning), self._calls.finish(self._fields)
        if not text.strip() and not calls:
            raise BrokenAnswer(
                "empty", why_empty(self.stop_reason, reasoning), passing=self.stop_reason != "content_filter"
            )
        parts: list[TextPart | ReasoningPart | ToolCall] = []
        if reasoning:
            parts.append(ReasoningPart(text=reasoning, signature=self.signature))
        if text:
            parts.append(TextPart(text=text))
        return AssistantMessage(
            parts=(*parts, *calls),
            stop_reason=self.stop_reason,
            usage=self.usage,
            model=repair_surrogates(self.model),
            reasoning_field=self.reasoning_field,
            beside=self._fields[None].finish() if None in self._fields else {},
        )

    def _count_characters(self, characters: int) -> None:
        self._size += characters
        if self._size > self._limits.message:
            raise self._too_long()

    def _too_long(self) -> BrokenAnswer:
        return BrokenAnswer("limit", f"more than {self._limits.message} characters in one answer")


def why_empty(stop_reason: StopReason, reasoning: str) -> str:
    """Explain why an answer has neither text nor calls."""
    if stop_reason == "content_filter":
        return "the provider's content filter held the answer back"
    if stop_reason == "length":
        return "the token limit was reached before the answer began"
    return "it produced reasoning, but no answer" if reasoning else ""


class _Growing:
    """A call being built."""

    def __init__(self, position: int, index: int | None) -> None:
        self.position = position
        self.index = index
        self.id = ""
        self.name: str = ""
        self.shown_name = ""
        self._arguments: list[str] = []
        self._joiner = PairJoiner()

    def add_name(self, piece: str) -> None:
        """Append a fragment, unless it repeats the name so far, which some servers send with every chunk."""
        if piece != self.name:
            self.name = piece if piece.startswith(self.name) else self.name + piece
            self.shown_name = repair_surrogates(self.name)

    def is_complete(self) -> bool:
        """Return whether no further piece can belong to the arguments. None at all may be a placeholder for them."""
        if not self.name or (len(self._arguments) > 0 and not self._arguments[-1].rstrip().endswith("}")):
            return False
        try:
            return bool(json_text.parse_json_object(self.arguments))
        except ValueError:
            return False

    def has_arguments(self, text: str) -> bool:
        """Return whether the complete arguments are these, in whatever spelling."""
        try:
            return json_text.parse_json_object(text) == json_text.parse_json_object(self.arguments)
        except ValueError:
            return False

    def add_arguments(self, piece: str) -> str:
        """Append a fragment and return the part that can be shown."""
        shown = piece if piece.isascii() and not self._joiner.held else self._joiner.feed(piece)
        self._arguments.append(shown)
        return shown

    def set_arguments(self, text: str) -> str:
        """Set arguments that arrived as a JSON value instead of text."""
        self._arguments = [repair_surrogates(text)]
        return self._arguments[0]

    @property
    def arguments(self) -> str:
        return "".join(self._arguments) + self._joiner.end()


class CallList:
    """Calls of one answer, in order."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._new_id = new_id
        self._calls: list[_Growing] = []
        self.newest: dict[int, _Growing] = {}  # latest call at each index

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, *, index: int | None, call_id: str, name: str, arguments: str, whole: bool) -> ToolCallDelta:
        """Add a fragment of a call.

        Args:
            index: The server's index of the call, or None.
            call_id: Its id, or '' if the fragment has none.
            name: Its name, or '' if the fragment has none.
            arguments: A fragment of the arguments.
            whole: Whether `arguments` replaces the arguments so far.
        """
        if index is None:
            call = self._without_index(call_id, name)
        else:
            call = self.newest.get(index)
            if call is None or call_id:
                call = self._call_at(index, call_id, is_piece=bool(arguments and not name))
        if name and arguments.startswith("{") and call.is_complete():
            if call.name == name and call.has_arguments(arguments):
                return ToolCallDelta(call.position, call.shown_name, "")  # the same call once more
            if not (whole and call_id and (call_id, name) == (call.id, call.name)):  # else its arguments so far
                call = self._new_call(index)
                call_id = "" if call_id in {one.id for one in self._calls} else call_id
                self.newest |= {} if index is None else {index: call}
        if call_id and not call.id:
            call.id = call_id
        if name:
            call.add_name(name)
        shown = call.set_arguments(arguments) if whole else call.add_arguments(arguments)
        return ToolCallDelta(call.position, call.shown_name, shown)

    def finish(self, fields: "Mapping[int | None, VendorFields]") -> list[ToolCall]:
        """Build all calls, with missing or duplicate ids replaced. Empty fragments are dropped.

        Args:
            fields: Further fields of each call, by position.
        """
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
            beside = fields[growing.position].finish() if growing.position in fields else {}
            name = repair_surrogates(growing.name)
            calls.append(ToolCall(id=call_id, name=name, arguments="{}" if blank else arguments, beside=beside))
        return calls

    def _call_at(self, index: int, call_id: str, *, is_piece: bool) -> _Growing:
        """Return the call of a fragment; `is_piece`: it goes on with a call, even if each fragment has its own id."""
        call = self.newest.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            places = (index, None) if call_id else (index,)
            earlier = next((old for old in self._calls if old.index in places and old.id == call_id), None)
            if call is None or not is_piece or earlier is not None:
                call = self.newest[index] = earlier or self._new_call(index)
        return call

    def _without_index(self, call_id: str, name: str) -> _Growing:
        if call_id:
            return next((call for call in self._calls if call.id == call_id), None) or self._new_call(None)
        return self._calls[-1] if self._calls and not name else self._new_call(None)

    def _new_call(self, index: int | None) -> _Growing:
        self._calls.append(_Growing(len(self._calls), index))
        return self._calls[-1]


class StreamReader:
    """Reader of a streamed body. All methods raise `BrokenAnswer` if it is unusable."""

    is_streamed = True

    def __init__(self, decoder: AnswerDecoder, limits: AnswerLimits, frames: SSEDecoder | LineDecoder) -> None:
        self._decoder = decoder
        self._limits = limits
        self._frames = frames
        self._last_event = time.monotonic()

    def feed(self, chunk: bytes) -> Iterable[Piece]:
        """Parse the next read. Pieces before a broken event are returned before the error is raised."""
        try:
            events = self._frames.feed(chunk)
        except EventTooLong:
            raise BrokenAnswer("limit", f"one event of more than {self._limits.event} bytes") from None
        now = time.monotonic()
        if not events:
            if now - self._last_event > self._limits.answer:
                raise late_answer("nothing but keep-alive signs for", self._limits.answer, BEGIN_SETTING)
            return ()
        self._last_event = now
        if len(events) > 1:
            return self._read_events(events)
        try:
            return self._decoder.event(*events[0])
        except BrokenAnswer as broken:
            return self._before_break(broken)

    def _read_events(self, events: Sequence[ServerEvent]) -> Iterator[Piece]:
        try:
            for name, data in events:
                yield from self._decoder.event(name, data)
        except BrokenAnswer as broken:
            yield from self._before_break(broken)

    def _before_break(self, broken: BrokenAnswer) -> Iterator[Piece]:
        yield from self._decoder.rest()
        raise broken

    def end(self) -> Iterator[Piece]:
        """Finish the body. A final line that isn't valid JSON counts as truncated."""
        try:
            if not self._decoder.finished:
                yield from self._read_events(self._frames.end())
        except BrokenAnswer as broken:
            if broken.kind == "bad_json":
                raise BrokenAnswer("truncated") from broken
            raise
        if not self._decoder.finished:
            raise BrokenAnswer("truncated")


class BodyReader:
    """Reader of a body with one JSON object. All methods raise `BrokenAnswer` if it is unusable."""

    is_streamed = False

    def __init__(self, decoder: AnswerDecoder, limits: AnswerLimits) -> None:
        self._decoder = decoder
        self._limits = limits
        self._pieces: list[bytes] = []
        self._size = 0
        self._until = time.monotonic() + limits.answer

    def feed(self, chunk: bytes) -> Iterable[Piece]:
        """Collect the next read."""
        self._pieces.append(chunk)
        self._size += len(chunk)
        if self._size > self._limits.message:
            raise BrokenAnswer("limit", f"a body of more than {self._limits.message} bytes")
        if time.monotonic() > self._until:
            raise late_answer("a body that took more than", self._limits.answer, BEGIN_SETTING)
        return ()

    def end(self) -> Iterable[Piece]:
        """Parse the complete body."""
        whole = b"".join(self._pieces)
        text = whole.decode("utf-8-sig", "replace")
        if not text.strip():
            raise BrokenAnswer("empty")
        try:
            body = json_text.parse_json(text)
        except ValueError as problem:
            if (pieces := self._read_first(whole)) is not None:
                return pieces
            raise BrokenAnswer("bad_json", f"{problem}, in: {text[:_EXCERPT]}") from problem
        return self._decoder.whole(body)

    def _read_first(self, whole: bytes) -> Iterable[Piece] | None:
        """Read a body with more than one JSON value: an answer and something behind it, or one piece a line."""
        try:
            body = json_text.parse_first(whole.decode("utf-8-sig", "replace").lstrip())
        except ValueError:
            return None
        if not _is_piece(body):
            return self._decoder.whole(body)
        reader = StreamReader(self._decoder, self._limits, LineDecoder(max_event=self._limits.event))
        return chain(reader.feed(whole), reader.end())


def _is_piece(body: JsonValue) -> bool:
    """Return whether JSON is one of many pieces of an answer, in any dialect."""
    if not isinstance(body, dict):
        return False
    choices = body.get("choices")
    is_chunk = isinstance(choices, list) and any(isinstance(one, dict) and "delta" in one for one in choices)
    return is_chunk or body.get("done") is False


class SniffingReader:
    """A body whose type does not tell what it is, or tells it wrongly: its first characters do."""

    def __init__(self, decoder: AnswerDecoder, limits: AnswerLimits, kind: str) -> None:
        self._decoder = decoder
        self._limits = limits
        self._kind = kind
        self._is_json = not kind or kind == "application/json" or kind.endswith("+json")
        self._begin = b""
        self._reader: StreamReader | BodyReader | None = None

    @property
    def is_streamed(self) -> bool:
        """True if pieces of the answer may come one by one."""
        return not self._is_json

    def feed(self, chunk: bytes) -> Iterable[Piece]:
        """Take the next read."""
        if self._reader is None:
            self._begin += chunk
            if len(self._begin.removeprefix(BOM).lstrip()) < _LONGEST_FIELD:
                return ()
            return self._begun().feed(self._begin)
        return self._reader.feed(chunk)

    def end(self) -> Iterable[Piece]:
        """The body is over."""
        if self._reader is None:
            reader = self._begun()
            return chain(reader.feed(self._begin), reader.end())
        return self._reader.end()

    def _begun(self) -> StreamReader | BodyReader:
        begun = self._begin.removeprefix(BOM).lstrip()
        if begun.startswith(_FIELDS):
            self._reader = StreamReader(self._decoder, self._limits, SSEDecoder(max_event=self._limits.event))
        elif self._is_json or begun.startswith((b"{", b"[")):
            self._reader = BodyReader(self._decoder, self._limits)
        else:
            raise BrokenAnswer("not_sse", f"content type {self._kind}")
        return self._reader


Reader = StreamReader | BodyReader | SniffingReader


def reader_for(content_type: str, decoder: AnswerDecoder, limits: AnswerLimits, *, streamed: bool) -> Reader:
    """Choose the reader for a content type. If the server sends none, `streamed` decides."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _LINES:
        return StreamReader(decoder, limits, LineDecoder(max_event=limits.event))
    if kind == _EVENTS or (not kind and streamed):
        return StreamReader(decoder, limits, SSEDecoder(max_event=limits.event))
    return SniffingReader(decoder, limits, kind)


def is_stream(content_type: str) -> bool:
    """Return whether a content type is streamed."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _EVENTS or kind in _LINES
