"""From the bytes of a response's body to deltas and one message, whatever way the server chose to send them."""

import time
from collections.abc import Iterable, Iterator, Sequence

from vibe_jupyter.llm import strict_json
from vibe_jupyter.llm.agentic import Piece
from vibe_jupyter.llm.dialect import Decoder
from vibe_jupyter.llm.failures import Broken
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.ndjson import LineDecoder
from vibe_jupyter.llm.sse import EventTooLong, SSEDecoder
from vibe_jupyter.protocol import AssistantMessage

_EXCERPT = 200
"""Characters of a body that is no answer, shown to the person."""
_EVENTS = "text/event-stream"
_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})


class StreamReader:
    """A body of events, server-sent or a line each. Every method raises `Broken` for what cannot be used."""

    def __init__(self, decoder: Decoder, limits: Limits, frames: SSEDecoder | LineDecoder) -> None:
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
            raise Broken("limit", f"one event of more than {self._limits.event} bytes") from None
        now = time.monotonic()
        if not events:
            if now - self._last_event > self._limits.answer:
                raise Broken("limit", f"nothing but keep-alive signs for {self._limits.answer:.0f} s")
            return
        self._last_event = now
        try:
            for name, data in events:
                yield from self._decoder.event(name, data)
        except Broken:
            yield from self._decoder.rest()
            raise

    def end(self) -> Sequence[Piece]:
        """The body is over. A last line that is no JSON is one that was cut."""
        try:
            deltas = [delta for name, data in self._frames.end() for delta in self._decoder.event(name, data)]
        except Broken as broken:
            if broken.kind == "bad_json":
                raise Broken("truncated") from broken
            raise
        if not self.finished:
            raise Broken("truncated")
        return deltas

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._decoder.message()


class WholeReader:
    """A body of one JSON object. Every method raises `Broken` for what cannot be used."""

    finished = False
    ended = False

    def __init__(self, decoder: Decoder, limits: Limits) -> None:
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
            raise Broken("limit", f"a body of more than {self._limits.message} bytes")
        if time.monotonic() > self._until:
            raise Broken("limit", f"a body that took more than {self._limits.answer:.0f} s")
        return ()

    def end(self) -> Sequence[Piece]:
        """The body is over."""
        text = b"".join(self._pieces).decode("utf-8-sig", "replace")
        if not text.strip():
            raise Broken("empty")
        try:
            body = strict_json.parse(text)
        except ValueError as problem:
            raise Broken("bad_json", f"{problem}, in: {text[:_EXCERPT]}") from problem
        return self._decoder.whole(body)

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._decoder.message()


Reader = StreamReader | WholeReader


def reader_for(content_type: str, decoder: Decoder, limits: Limits, *, streamed: bool) -> Reader:
    """The reader for a type; what was asked for decides where the server names none."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _LINES:
        return StreamReader(decoder, limits, LineDecoder(max_event=limits.event))
    if kind == _EVENTS or (not kind and streamed):
        return StreamReader(decoder, limits, SSEDecoder(max_event=limits.event))
    if kind == "application/json" or kind.endswith("+json") or not kind:
        return WholeReader(decoder, limits)
    raise Broken("not_sse", f"content type {kind}")


def is_stream(content_type: str) -> bool:
    """Whether pieces of the answer come one by one."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _EVENTS or kind in _LINES
