"""An answer as each API puts it: Chat Completions, Mistral, Ollama; whole or in pieces."""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from vibe_jupyter.testing.requests import Dialect, ModelRequest

CHARACTERS_A_TOKEN = 4
"""For estimated counts."""
ARGUMENT_PIECE = 12
"""Characters of a call's arguments in one chunk."""

_WORD = re.compile(r"\s*\S+\s*|\s+")

Object = dict[str, Any]


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
class ScriptedAnswer:
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


Reply = str | Call | ScriptedAnswer | Status | Raw
"""A string is an answer of that text."""


def say(
    text: str, *, delay: float = 0.0, pieces: int | None = None, reasoning: str = "", usage: Tokens | None = None
) -> ScriptedAnswer:
    """An answer of text alone."""
    return ScriptedAnswer(text=text, delay=delay, pieces=pieces, reasoning=reasoning, usage=usage)


def call(name: str, /, **arguments: Any) -> Call:
    """A call of a tool: ``call("run_code", code="1 + 1")``."""
    return Call(name, json.dumps(arguments, ensure_ascii=False))


def answer(text: str = "", calls: Sequence[Call] = (), **rest: Any) -> ScriptedAnswer:
    """Text and calls in one answer; `rest` are the other fields of `ScriptedAnswer`."""
    return ScriptedAnswer(text=text, calls=tuple(calls), **rest)


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


def hold(event: threading.Event, text: str = "One moment", after: str = " … done.") -> ScriptedAnswer:
    """Stream `text`, then wait for `event`: to interrupt a model while it speaks."""
    return ScriptedAnswer(text=text, hold=event, after=after)


@dataclass(frozen=True)
class Wire:
    """One answer on its way to one request. The calls have ids by now."""

    answer: ScriptedAnswer
    request: ModelRequest
    model: str
    number: int
    """Which request of this server it answers, from 1."""

    content_type: ClassVar[str] = "text/event-stream"
    end: ClassVar[bytes] = b"data: [DONE]\n\n"
    """What follows the last chunk."""

    @staticmethod
    def frame(chunk: bytes) -> bytes:
        """A chunk as it stands in the stream."""
        return b"data: " + chunk + b"\n\n"

    @property
    def tokens(self) -> Tokens:
        """The counts to report."""
        if self.answer.usage is not None:
            return self.answer.usage
        said = self.answer.text + self.answer.after + self.answer.reasoning
        said += "".join(call.name + call.arguments for call in self.answer.calls)
        prompt = len(json.dumps(self.request.body, ensure_ascii=False))
        return Tokens(prompt // CHARACTERS_A_TOKEN, max(len(said) // CHARACTERS_A_TOKEN, 1))

    def whole(self) -> Object:
        """The answer as one object."""
        message: Object = {"role": "assistant", "content": self.answer.text + self.answer.after}
        if self.answer.reasoning:
            message["reasoning_content"] = self.answer.reasoning
        if self.answer.calls:
            message["tool_calls"] = [_call_object(call) for call in self.answer.calls]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {**self._answer_envelope("chat.completion"), "choices": [choice], "usage": self.usage()}

    def opening(self) -> Iterator[Object]:
        """The chunks up to the place where an answer may be held."""
        yield self.chunk({"role": "assistant", "content": ""})
        for piece in split_text(self.answer.reasoning, None):
            yield self.chunk({"reasoning_content": piece})
        for piece in split_text(self.answer.text, self.answer.pieces):
            yield self.chunk({"content": piece})

    def rest(self) -> Iterator[Object]:
        """The chunks after that place, to the counts."""
        for piece in split_text(self.answer.after, None):
            yield self.chunk({"content": piece})
        for index, call in enumerate(self.answer.calls):
            head = _call_object(replace(call, arguments=""))
            yield self.chunk({"tool_calls": [{"index": index, **head}]})
            for start in range(0, len(call.arguments), ARGUMENT_PIECE):
                piece = call.arguments[start : start + ARGUMENT_PIECE]
                yield self.chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self.chunk({}, finish=self.finish)
        if self.request.body.get("stream_options", {}).get("include_usage"):
            yield {**self._answer_envelope("chat.completion.chunk"), "choices": [], "usage": self.usage()}

    def usage(self) -> Object:
        """The counts as Chat Completions report them."""
        tokens = self.tokens
        return {
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.prompt + tokens.completion,
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
        }

    @property
    def finish(self) -> str:
        """The finish reason."""
        return self.answer.finish or ("tool_calls" if self.answer.calls else "stop")

    def _answer_envelope(self, kind: str) -> Object:
        name = f"scripted-{self.number}"
        return {"id": name, "object": kind, "created": int(time.time()), "model": self.model}

    def chunk(self, delta: Object, *, finish: str | None = None) -> Object:
        """One chunk of the stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._answer_envelope("chat.completion.chunk"), "choices": [choice]}


def split_text(text: str, pieces: int | None) -> list[str]:
    """The text in so many pieces, or one a word."""
    if pieces is None:
        return _WORD.findall(text)
    size = max(-(-len(text) // max(pieces, 1)), 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _call_object(call: Call) -> Object:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


class MistralWire(Wire):
    """Thinking as parts of the content; later pieces of a call with the id ``"null"`` and no name; counts unasked."""

    def whole(self) -> Object:
        """The answer as one object."""
        body = super().whole()
        message = body["choices"][0]["message"]
        if reasoning := message.pop("reasoning_content", ""):
            text = [{"type": "text", "text": message["content"]}] if message["content"] else []
            message["content"] = [_thought_part(reasoning), *text]
        message.setdefault("tool_calls", None)
        return body

    def opening(self) -> Iterator[Object]:
        """The chunks up to the place where an answer may be held."""
        yield self.chunk({"role": "assistant", "content": ""})
        for piece in split_text(self.answer.reasoning, None):
            yield self.chunk({"content": [_thought_part(piece)]})
        for piece in split_text(self.answer.text, self.answer.pieces):
            yield self.chunk({"content": piece})

    def rest(self) -> Iterator[Object]:
        """The chunks after that place, to the counts."""
        for piece in split_text(self.answer.after, None):
            yield self.chunk({"content": piece})
        in_pieces = self.request.body.get("stream_options", {}).get("stream_tool_calls") is True
        for index, call in enumerate(self.answer.calls):
            for piece in _call_pieces(call) if in_pieces else [_function_object(call, call.arguments)]:
                yield self.chunk({"content": "", "tool_calls": [{"index": index, **piece}]})
        yield {**self.chunk({"content": ""}, finish=self.finish), "usage": self.usage()}


class OllamaWire(Wire):
    """An object a line; arguments as objects, no ids, and ``stop`` also after calls."""

    content_type: ClassVar[str] = "application/x-ndjson"
    end: ClassVar[bytes] = b""

    @staticmethod
    def frame(chunk: bytes) -> bytes:
        """A chunk as it stands in the stream."""
        return chunk + b"\n"

    def whole(self) -> Object:
        """The answer as one object."""
        message: Object = {"content": self.answer.text + self.answer.after}
        if self.answer.reasoning:
            message["thinking"] = self.answer.reasoning
        if self.answer.calls:
            message["tool_calls"] = self._tool_calls()
        return self._message_line(message) | self._ending_line()

    def opening(self) -> Iterator[Object]:
        """The lines up to the place where an answer may be held."""
        for piece in split_text(self.answer.reasoning, None):
            yield self._message_line({"content": "", "thinking": piece})
        for piece in split_text(self.answer.text, self.answer.pieces):
            yield self._message_line({"content": piece})

    def rest(self) -> Iterator[Object]:
        """The lines after that place, to the counts."""
        for piece in split_text(self.answer.after, None):
            yield self._message_line({"content": piece})
        if self.answer.calls:
            yield self._message_line({"content": "", "tool_calls": self._tool_calls()})
        yield self._message_line({"content": ""}) | self._ending_line()

    def _tool_calls(self) -> list[Object]:
        return [
            {"function": {"name": call.name, "arguments": _parsed_arguments(call.arguments)}}
            for call in self.answer.calls
        ]

    def _message_line(self, message: Object) -> Object:
        moment = "2026-01-01T00:00:00Z"
        return {"model": self.model, "created_at": moment, "message": {"role": "assistant", **message}, "done": False}

    def _ending_line(self) -> Object:
        tokens = self.tokens
        counts = {"prompt_eval_count": tokens.prompt, "eval_count": tokens.completion, "total_duration": 1}
        return {"done": True, "done_reason": self.answer.finish or "stop", **counts}


WIRES: dict[Dialect, type[Wire]] = {"openai": Wire, "mistral": MistralWire, "ollama": OllamaWire}


def spoken_dialect(path: str, dialect: Literal["openai", "mistral"]) -> Dialect:
    """How a request to a path is answered."""
    return "ollama" if urlsplit(path).path.endswith("/api/chat") else dialect


def _thought_part(text: str) -> Object:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _call_pieces(call: Call) -> Iterator[Object]:
    yield _function_object(call, "")
    for start in range(0, len(call.arguments), ARGUMENT_PIECE):
        function = {"name": "", "arguments": call.arguments[start : start + ARGUMENT_PIECE]}
        yield {"id": "null", "function": function}


def _function_object(call: Call, arguments: str) -> Object:
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}


def _parsed_arguments(arguments: str) -> Any:
    """Ollama has parsed what the model wrote; what it could not is text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
