"""The same answers as Mistral's API and Ollama put them."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from vibe_jupyter.testing.complaints import Dialect
from vibe_jupyter.testing.replies import Call
from vibe_jupyter.testing.wire import ARGUMENT_PIECE, Object, Wire, split


class MistralWire(Wire):
    """Thinking as parts of the content; later pieces of a call with the id ``"null"`` and no name; counts unasked."""

    def whole(self) -> Object:
        """The answer as one object."""
        body = super().whole()
        message = body["choices"][0]["message"]
        if reasoning := message.pop("reasoning_content", ""):
            text = [{"type": "text", "text": message["content"]}] if message["content"] else []
            message["content"] = [_thought(reasoning), *text]
        message.setdefault("tool_calls", None)
        return body

    def opening(self) -> Iterator[Object]:
        """The chunks up to the place where an answer may be held."""
        yield self.chunk({"role": "assistant", "content": ""})
        for piece in split(self.answer.reasoning, None):
            yield self.chunk({"content": [_thought(piece)]})
        for piece in split(self.answer.text, self.answer.pieces):
            yield self.chunk({"content": piece})

    def rest(self) -> Iterator[Object]:
        """The chunks after that place, to the counts."""
        for piece in split(self.answer.after, None):
            yield self.chunk({"content": piece})
        in_pieces = self.request.body.get("stream_options", {}).get("stream_tool_calls") is True
        for index, call in enumerate(self.answer.calls):
            for piece in _pieces(call) if in_pieces else [_function(call, call.arguments)]:
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
        return self._line(message) | self._ending()

    def opening(self) -> Iterator[Object]:
        """The lines up to the place where an answer may be held."""
        for piece in split(self.answer.reasoning, None):
            yield self._line({"content": "", "thinking": piece})
        for piece in split(self.answer.text, self.answer.pieces):
            yield self._line({"content": piece})

    def rest(self) -> Iterator[Object]:
        """The lines after that place, to the counts."""
        for piece in split(self.answer.after, None):
            yield self._line({"content": piece})
        if self.answer.calls:
            yield self._line({"content": "", "tool_calls": self._tool_calls()})
        yield self._line({"content": ""}) | self._ending()

    def _tool_calls(self) -> list[Object]:
        return [{"function": {"name": call.name, "arguments": _object(call.arguments)}} for call in self.answer.calls]

    def _line(self, message: Object) -> Object:
        moment = "2026-01-01T00:00:00Z"
        return {"model": self.model, "created_at": moment, "message": {"role": "assistant", **message}, "done": False}

    def _ending(self) -> Object:
        tokens = self.tokens
        counts = {"prompt_eval_count": tokens.prompt, "eval_count": tokens.completion, "total_duration": 1}
        return {"done": True, "done_reason": self.answer.finish or "stop", **counts}


WIRES: dict[Dialect, type[Wire]] = {"openai": Wire, "mistral": MistralWire, "ollama": OllamaWire}


def spoken(path: str, dialect: Literal["openai", "mistral"]) -> Dialect:
    """How a request to a path is answered."""
    return "ollama" if urlsplit(path).path.endswith("/api/chat") else dialect


def _thought(text: str) -> Object:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _pieces(call: Call) -> Iterator[Object]:
    yield _function(call, "")
    for start in range(0, len(call.arguments), ARGUMENT_PIECE):
        function = {"name": "", "arguments": call.arguments[start : start + ARGUMENT_PIECE]}
        yield {"id": "null", "function": function}


def _function(call: Call, arguments: str) -> Object:
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}


def _object(arguments: str) -> Any:
    """Ollama has parsed what the model wrote; what it could not is text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
