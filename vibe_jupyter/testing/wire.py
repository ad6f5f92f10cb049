"""An answer as Chat Completions puts it: one JSON object, or the chunks of a stream."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from vibe_jupyter.testing.replies import Answer, Call, Tokens
from vibe_jupyter.testing.requests import ModelRequest

CHARACTERS_A_TOKEN = 4
"""For estimated counts."""
ARGUMENT_PIECE = 12
"""Characters of a call's arguments in one chunk."""

_WORD = re.compile(r"\s*\S+\s*|\s+")

Object = dict[str, Any]


@dataclass(frozen=True)
class Wire:
    """One answer on its way to one request. The calls have ids by now."""

    answer: Answer
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
            message["tool_calls"] = [_call(call) for call in self.answer.calls]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {**self._envelope("chat.completion"), "choices": [choice], "usage": self.usage()}

    def opening(self) -> Iterator[Object]:
        """The chunks up to the place where an answer may be held."""
        yield self.chunk({"role": "assistant", "content": ""})
        for piece in split(self.answer.reasoning, None):
            yield self.chunk({"reasoning_content": piece})
        for piece in split(self.answer.text, self.answer.pieces):
            yield self.chunk({"content": piece})

    def rest(self) -> Iterator[Object]:
        """The chunks after that place, to the counts."""
        for piece in split(self.answer.after, None):
            yield self.chunk({"content": piece})
        for index, call in enumerate(self.answer.calls):
            head = _call(replace(call, arguments=""))
            yield self.chunk({"tool_calls": [{"index": index, **head}]})
            for start in range(0, len(call.arguments), ARGUMENT_PIECE):
                piece = call.arguments[start : start + ARGUMENT_PIECE]
                yield self.chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self.chunk({}, finish=self.finish)
        if self.request.body.get("stream_options", {}).get("include_usage"):
            yield {**self._envelope("chat.completion.chunk"), "choices": [], "usage": self.usage()}

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

    def _envelope(self, kind: str) -> Object:
        name = f"scripted-{self.number}"
        return {"id": name, "object": kind, "created": int(time.time()), "model": self.model}

    def chunk(self, delta: Object, *, finish: str | None = None) -> Object:
        """One chunk of the stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._envelope("chat.completion.chunk"), "choices": [choice]}


def split(text: str, pieces: int | None) -> list[str]:
    """The text in so many pieces, or one a word."""
    if pieces is None:
        return _WORD.findall(text)
    size = max(-(-len(text) // max(pieces, 1)), 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _call(call: Call) -> Object:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
