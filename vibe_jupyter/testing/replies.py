"""What a scripted model can reply."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Tokens:
    """The counts a server reports."""

    prompt: int
    completion: int
    cached: int = 0
    """Part of `prompt`."""


@dataclass(frozen=True)
class Call:
    """One call of a tool; a reply by itself, or a part of an `answer`."""

    name: str
    arguments: str
    """JSON text; may be broken, to see what happens then."""
    id: str | None = None
    """None: the server makes one."""


@dataclass(frozen=True)
class Answer:
    """Text, calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str | None = None
    """None: ``tool_calls`` where there are calls, else ``stop``."""
    usage: Tokens | None = None
    """None: estimated at four characters a token."""
    pieces: int | None = None
    """Deltas the text is streamed in; None: one a word."""
    delay: float = 0.0
    """Seconds between two deltas."""
    hold: threading.Event | None = None
    """After the text, wait until this is set, the server stops, or the client is gone; None: do not wait."""
    after: str = ""
    """Text that follows the wait."""


@dataclass(frozen=True)
class Status:
    """An error, or any other status, with a body."""

    status: int
    body: str | Mapping[str, Any] | None = None
    """Text is sent as text/plain, a mapping as JSON; None: an error object as OpenAI's."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Raw:
    """Exactly these bytes, one network write each."""

    chunks: tuple[bytes, ...]
    content_type: str = "text/event-stream"
    end: Literal["eof", "reset"] = "eof"
    """``reset`` breaks the connection instead of ending the body."""
    delay_between: float = 0.0
    """Seconds between two writes."""
    status: int = 200


Reply = str | Call | Answer | Status | Raw
"""A string is an answer of that text."""


def say(
    text: str, *, delay: float = 0.0, pieces: int | None = None, reasoning: str = "", usage: Tokens | None = None
) -> Answer:
    """An answer of text alone."""
    return Answer(text=text, delay=delay, pieces=pieces, reasoning=reasoning, usage=usage)


def call(name: str, /, **arguments: Any) -> Call:
    """A call of a tool: ``call("run_code", code="1 + 1")``."""
    return Call(name, json.dumps(arguments, ensure_ascii=False))


def answer(text: str = "", calls: Sequence[Call] = (), **rest: Any) -> Answer:
    """Text and calls in one answer; `rest` are the other fields of `Answer`."""
    return Answer(text=text, calls=tuple(calls), **rest)


def status(code: int, body: str | Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Status:
    """An HTTP status instead of an answer."""
    return Status(code, body, dict(headers or {}))


def raw(
    chunks: Sequence[bytes],
    *,
    content_type: str = "text/event-stream",
    end: Literal["eof", "reset"] = "eof",
    delay_between: float = 0.0,
) -> Raw:
    """Bytes as they are, to see what a broken server does to a client."""
    return Raw(tuple(chunks), content_type, end, delay_between)


def hold(event: threading.Event, text: str = "One moment", after: str = " … done.") -> Answer:
    """Stream `text`, then wait for `event`: to interrupt a model while it speaks."""
    return Answer(text=text, hold=event, after=after)
