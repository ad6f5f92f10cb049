"""Answers in the format of each API (Chat Completions, Mistral, Ollama), complete or streamed."""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from vibe_jupyter.testing.requests import Dialect, ModelRequest

CHARACTERS_A_TOKEN = 4  # for estimated counts
ARGUMENT_PIECE = 12  # characters of a call's arguments per chunk

_WORD = re.compile(r"\s*\S+\s*|\s+")

Object = dict[str, Any]


@dataclass(frozen=True)
class Tokens:
    """Token counts reported by a server."""

    prompt: int
    completion: int
    cached: int = 0
    """Included in `prompt`."""


@dataclass(frozen=True)
class Call:
    """A tool call: a reply by itself, or a part of an `answer`."""

    name: str
    arguments: str
    """JSON text. May be invalid, to test how that is handled."""
    id: str | None = None
    """If None, the server generates one."""
    beside: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Additional fields of the call, such as a signature."""


@dataclass(frozen=True)
class ScriptedAnswer:
    """An answer with text, calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str | None = None
    """If None, ``tool_calls`` if there are calls, else ``stop``."""
    usage: Tokens | None = None
    """If None, estimated at four characters per token."""
    pieces: int | None = None
    """Number of deltas in which the text is streamed. If None, one per word."""
    delay: float = 0.0
    """Seconds between two deltas."""
    hold: threading.Event | None = None
    """Pause after the text until this is set, the server stops, or the client disconnects; None for no pause."""
    after: str = ""
    """Text that follows the pause."""
    beside: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Additional fields of the message, such as ``reasoning_details``."""


@dataclass(frozen=True)
class Status:
    """An error, or any other HTTP status, with a body."""

    status: int
    body: str | Mapping[str, Any] | None = None
    """A string is sent as text/plain, a mapping as JSON. If None, an error object in OpenAI's format is sent."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Raw:
    """Exact bytes of a response, one network write per chunk."""

    chunks: tuple[bytes, ...]
    content_type: str = "text/event-stream"
    end: Literal["eof", "reset"] = "eof"
    """``reset`` resets the connection instead of ending the body."""
    delay_between: float = 0.0
    """Seconds between two writes."""
    status: int = 200


Reply = str | Call | ScriptedAnswer | Status | Raw  # a string is an answer that consists of this text


def say(
    text: str, *, delay: float = 0.0, pieces: int | None = None, reasoning: str = "", usage: Tokens | None = None
) -> ScriptedAnswer:
    """Create an answer that consists of text only."""
    return ScriptedAnswer(text=text, delay=delay, pieces=pieces, reasoning=reasoning, usage=usage)


def call(name: str, /, **arguments: Any) -> Call:
    """Create a tool call, such as ``call("run_code", code="1 + 1")``."""
    return Call(name, json.dumps(arguments, ensure_ascii=False))


def answer(text: str = "", calls: Sequence[Call] = (), **rest: Any) -> ScriptedAnswer:
    """Create an answer with text and calls. `rest` sets other fields of `ScriptedAnswer`."""
    return ScriptedAnswer(text=text, calls=tuple(calls), **rest)


def status(code: int, body: str | Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Status:
    """Create an HTTP status to send instead of an answer."""
    return Status(code, body, dict(headers or {}))


def raw(
    chunks: Sequence[bytes],
    *,
    content_type: str = "text/event-stream",
    end: Literal["eof", "reset"] = "eof",
    delay_between: float = 0.0,
) -> Raw:
    """Create a response of exact bytes, to test how a client handles a broken server."""
    return Raw(tuple(chunks), content_type, end, delay_between)


def hold(event: threading.Event, text: str = "One moment", after: str = " … done.") -> ScriptedAnswer:
    """Create an answer that streams `text`, then pauses until `event` is set, to interrupt a model while it streams."""
    return ScriptedAnswer(text=text, hold=event, after=after)


@dataclass(frozen=True)
class Wire:
    """An answer to one request, in the format of Chat Completions. Its calls already have ids."""

    answer: ScriptedAnswer
    request: ModelRequest
    model: str
    number: int  # number of the request that it answers, counted from 1 per server

    content_type: ClassVar[str] = "text/event-stream"
    end: ClassVar[bytes] = b"data: [DONE]\n\n"  # sent after the last chunk

    @staticmethod
    def frame(chunk: bytes) -> bytes:
        """Encode a chunk for the stream."""
        return b"data: " + chunk + b"\n\n"

    @property
    def tokens(self) -> Tokens:
        """Token counts to report."""
        if self.answer.usage is not None:
            return self.answer.usage
        said = self.answer.text + self.answer.after + self.answer.reasoning
        said += "".join(call.name + call.arguments for call in self.answer.calls)
        prompt = len(json.dumps(self.request.body, ensure_ascii=False))
        return Tokens(prompt // CHARACTERS_A_TOKEN, max(len(said) // CHARACTERS_A_TOKEN, 1))

    def whole(self) -> Object:
        """Return the answer as one object."""
        message: Object = {"role": "assistant", "content": self.answer.text + self.answer.after}
        if self.answer.reasoning:
            message["reasoning_content"] = self.answer.reasoning
        if self.answer.calls:
            message["tool_calls"] = [_call_object(call) for call in self.answer.calls]
        message |= self.answer.beside
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {**self._answer_envelope("chat.completion"), "choices": [choice], "usage": self.usage()}

    def opening(self) -> Iterator[Object]:
        """Yield the chunks up to the point where an answer may pause."""
        yield self.chunk({"role": "assistant", "content": ""})
        for piece in split_text(self.answer.reasoning, None):
            yield self.chunk({"reasoning_content": piece})
        for piece in split_text(self.answer.text, self.answer.pieces):
            yield self.chunk({"content": piece})

    def rest(self) -> Iterator[Object]:
        """Yield the chunks after that point, including the counts."""
        for piece in split_text(self.answer.after, None):
            yield self.chunk({"content": piece})
        if self.answer.beside:
            yield self.chunk(dict(self.answer.beside))
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
        """Return the token counts in the format of Chat Completions."""
        tokens = self.tokens
        return {
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.prompt + tokens.completion,
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
        }

    @property
    def finish(self) -> str:
        """Reason why the answer ends, as reported to the client."""
        return self.answer.finish or ("tool_calls" if self.answer.calls else "stop")

    def _answer_envelope(self, kind: str) -> Object:
        name = f"scripted-{self.number}"
        return {"id": name, "object": kind, "created": int(time.time()), "model": self.model}

    def chunk(self, delta: Object, *, finish: str | None = None) -> Object:
        """Return one chunk of the stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._answer_envelope("chat.completion.chunk"), "choices": [choice]}


def split_text(text: str, pieces: int | None) -> list[str]:
    """Split a text into this number of pieces, or after each whitespace if it is None."""
    if pieces is None:
        return _WORD.findall(text)
    size = max(-(-len(text) // max(pieces, 1)), 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _call_object(call: Call) -> Object:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function, **call.beside}


class MistralWire(Wire):
    """Mistral's format.

    Reasoning is in parts of the content, later chunks of a call have the id ``"null"`` and no name, and counts are
    always sent.
    """

    def whole(self) -> Object:
        body = super().whole()
        message = body["choices"][0]["message"]
        if reasoning := message.pop("reasoning_content", ""):
            text = [{"type": "text", "text": message["content"]}] if message["content"] else []
            message["content"] = [_thought_part(reasoning), *text]
        message.setdefault("tool_calls", None)
        return body

    def opening(self) -> Iterator[Object]:
        yield self.chunk({"role": "assistant", "content": ""})
        for piece in split_text(self.answer.reasoning, None):
            yield self.chunk({"content": [_thought_part(piece)]})
        for piece in split_text(self.answer.text, self.answer.pieces):
            yield self.chunk({"content": piece})

    def rest(self) -> Iterator[Object]:
        for piece in split_text(self.answer.after, None):
            yield self.chunk({"content": piece})
        if self.answer.beside:
            yield self.chunk(dict(self.answer.beside))
        in_pieces = self.request.body.get("stream_options", {}).get("stream_tool_calls") is True
        for index, call in enumerate(self.answer.calls):
            for piece in _call_pieces(call) if in_pieces else [_function_object(call, call.arguments)]:
                yield self.chunk({"content": "", "tool_calls": [{"index": index, **piece}]})
        yield {**self.chunk({"content": ""}, finish=self.finish), "usage": self.usage()}


class OllamaWire(Wire):
    """Ollama's format: one object per line, arguments as objects, no ids, and ``stop`` even after calls."""

    content_type: ClassVar[str] = "application/x-ndjson"
    end: ClassVar[bytes] = b""

    @staticmethod
    def frame(chunk: bytes) -> bytes:
        return chunk + b"\n"

    def whole(self) -> Object:
        message: Object = {"content": self.answer.text + self.answer.after}
        if self.answer.reasoning:
            message["thinking"] = self.answer.reasoning
        if self.answer.calls:
            message["tool_calls"] = self._tool_calls()
        return self._message_line({**message, **self.answer.beside}) | self._ending_line()

    def opening(self) -> Iterator[Object]:
        for piece in split_text(self.answer.reasoning, None):
            yield self._message_line({"content": "", "thinking": piece})
        for piece in split_text(self.answer.text, self.answer.pieces):
            yield self._message_line({"content": piece})

    def rest(self) -> Iterator[Object]:
        for piece in split_text(self.answer.after, None):
            yield self._message_line({"content": piece})
        if self.answer.calls or self.answer.beside:
            calls = {"tool_calls": self._tool_calls()} if self.answer.calls else {}
            yield self._message_line({"content": "", **calls, **self.answer.beside})
        yield self._message_line({"content": ""}) | self._ending_line()

    def _tool_calls(self) -> list[Object]:
        return [
            {"function": {"name": call.name, "arguments": _parsed_arguments(call.arguments)}, **call.beside}
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
    """Return the dialect of the response for a request path."""
    return "ollama" if urlsplit(path).path.endswith("/api/chat") else dialect


def _thought_part(text: str) -> Object:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _call_pieces(call: Call) -> Iterator[Object]:
    yield _function_object(call, "")
    for start in range(0, len(call.arguments), ARGUMENT_PIECE):
        function = {"name": "", "arguments": call.arguments[start : start + ARGUMENT_PIECE]}
        yield {"id": "null", "function": function}


def _function_object(call: Call, arguments: str) -> Object:
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}, **call.beside}


def _parsed_arguments(arguments: str) -> Any:
    """Parse arguments like Ollama, which returns them as text if they are not JSON."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
