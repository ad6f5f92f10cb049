"""Writer for Anthropic's Messages API, where an answer is a message of content blocks."""

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_writer import agentic_event, agentic_fields, file_event
from vibe_jupyter.gateway.chunk_reader import ChunkReader, detail_count
from vibe_jupyter.gateway.echoes import kept_echo, token_of, without_thoughts
from vibe_jupyter.gateway.rounds import count_of
from vibe_jupyter.gateway.writer import Ending, Object, WriterTerms
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.event_streams import ServerEvent, encode_event
from vibe_jupyter.protocol import AssistantMessage, Event, MessageAdded, ReasoningDelta, ReasoningPart, ToolCall

_ID_BYTES: Final = 16  # random bytes of an ID
# Stop reasons by finish reason.
_STOPS: Final[Mapping[str, str]] = {
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "refusal",
}
_KNOWN_ERRORS: Final = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "overloaded_error",
    }
)


class MessagesWriter:
    """Answer writer for the Messages API. Implements `vibe_jupyter.gateway.writer.AnswerWriter`."""

    passes_through = False
    keep_alive = encode_event("ping", '{"type": "ping"}')

    def __init__(self, model: str, terms: WriterTerms, names: Mapping[str, str]) -> None:
        """
        Args:
            model: the model's name in the request.
            terms: properties of the request.
            names: the client's names of its tools, by function name.
        """
        self._model = model
        self._names = names
        self._terms = terms
        self._reader = ChunkReader(reasoning_field=terms.reasoning_field)
        self._blocks = 0  # number of finished blocks
        self._open = ""  # type of the unfinished block, or ""
        self._has_begun = False
        self._waiting: list[bytes] = []

    # ---- streams ----

    def chunk(self, chunk: ServerEvent) -> bytes:
        deltas = self._reader.take(chunk)
        self._begin()
        for delta in deltas:
            self._grow("thinking" if isinstance(delta, ReasoningDelta) else "text", delta.text)
        return self._flush()

    def event(self, event: Event, round_number: int) -> bytes:
        self._begin()
        if isinstance(event, MessageAdded) and isinstance(event.message, AssistantMessage) and event.message.calls:
            self._end_block()
            self._reader.end_round()
        session_id = self._terms.session_id
        if self._terms.tells_events and (told := agentic_event(event, round_number, session_id)) is not None:
            self._waiting.append(encode_event(told[0], json.dumps(told[1], ensure_ascii=False)))
        return self._flush()

    def file(self, made: Object) -> bytes:
        self._begin()
        if self._terms.tells_events:
            self._waiting.append(file_event(made))
        return self._flush()

    def end(self, last: Sequence[ServerEvent], ending: Ending) -> bytes:
        before = b"".join(map(self.chunk, last))
        self._end_block()
        message = self._reader.message()
        for sealed in self._rest(message):
            self._begin_block("redacted_thinking", sealed)
            self._end_block()
        for call in message.calls:
            self._begin_block("tool_use", self._tool_use(call, {}))
            self._say_delta("input_json_delta", "partial_json", call.arguments)
            self._end_block()
        stop: Object = {"stop_reason": self._stop_reason(), "stop_sequence": None}
        self._say("message_delta", delta=stop, usage=_usage(self._reader.usage))
        self._say("message_stop")
        return before + self._flush()

    def fail(self, error: Mapping[str, object]) -> bytes:
        kind = error.get("type")
        known = kind if isinstance(kind, str) and kind in _KNOWN_ERRORS else "api_error"
        self._say("error", error={"type": known, "message": str(error.get("message") or "The request failed.")})
        return self._flush()

    # ---- complete bodies ----

    def whole(self, body: Object, ending: Ending) -> Object:
        blocks: list[JsonValue] = []
        calls: list[JsonValue] = []
        message = self._reader.take_whole(body)
        for part in message.parts:
            match part:
                case ReasoningPart():
                    signature = self._signature(part.signature)
                    blocks.append({"type": "thinking", "thinking": part.text, "signature": signature})
                case ToolCall():
                    calls.append(self._tool_use(part, _arguments(part.arguments)))
                case _:
                    blocks.append({"type": "text", "text": part.text})
        blocks += [*self._rest(message), *calls]
        return {**self._message(blocks, self._stop_reason()), **agentic_fields(ending)}

    # ---- the message ----

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._say("message_start", message=self._message([], None))

    def _message(self, content: list[JsonValue], stop_reason: str | None) -> Object:
        message: Object = {
            "id": f"msg_{secrets.token_hex(_ID_BYTES)}",
            "type": "message",
            "role": "assistant",
            "model": self._reader.model or self._model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": _usage(self._reader.usage),
        }
        session_id = self._terms.session_id
        return {**message, "session_id": session_id} if session_id else message

    def _tool_use(self, call: ToolCall, arguments: Object) -> Object:
        name = self._names.get(call.name, call.name)
        return {"type": "tool_use", "id": call.id, "name": name, "input": arguments}

    def _signature(self, seal: str | None) -> str:
        """Return the signature of a thinking block: a token with the model server's field for the block's text."""
        field = self._reader.reasoning_field
        echo: Object = {"origin": self._terms.origin, "field": field} if field else {}
        return token_of({**echo, "signature": seal} if echo and seal else echo)

    def _rest(self, message: AssistantMessage) -> list[Object]:
        """Return a block that carries the vendor fields of the answer other than reasoning, or [] if there are none."""
        echo = without_thoughts(kept_echo(message, self._terms.origin), message.reasoning_field)
        return [{"type": "redacted_thinking", "data": token_of(echo)}] if echo else []

    def _stop_reason(self) -> str:
        return _STOPS.get(self._reader.finish, "end_turn")

    # ---- its blocks ----

    def _grow(self, kind: str, piece: str) -> None:
        if self._open != kind:
            self._end_block()
            block: Object = {"type": kind, kind: ""}
            self._begin_block(kind, {**block, "signature": ""} if kind == "thinking" else block)
        self._say_delta(f"{kind}_delta", kind, piece)

    def _begin_block(self, kind: str, block: Object) -> None:
        self._open = kind
        self._say("content_block_start", index=self._blocks, content_block=block)

    def _end_block(self) -> None:
        if self._open:
            if self._open == "thinking" and (signature := self._signature(self._reader.take_signature())):
                self._say_delta("signature_delta", "signature", signature)
            self._say("content_block_stop", index=self._blocks)
            self._blocks += 1
            self._open = ""

    def _say_delta(self, kind: str, field: str, piece: str) -> None:
        self._say("content_block_delta", index=self._blocks, delta={"type": kind, field: piece})

    # ---- events ----

    def _say(self, kind: str, **fields: JsonValue) -> None:
        self._waiting.append(encode_event(kind, json.dumps({"type": kind, **fields}, ensure_ascii=False)))

    def _flush(self) -> bytes:
        said, self._waiting = b"".join(self._waiting), []
        return said


def _usage(counts: Mapping[str, JsonValue]) -> Object:
    """Convert token counts. `input_tokens` of the Messages API excludes cached tokens."""
    cached = detail_count(counts, "prompt_tokens_details", "cached_tokens")
    return {
        "input_tokens": max(count_of(counts, "prompt_tokens") - cached, 0),
        "output_tokens": count_of(counts, "completion_tokens"),
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
    }


def _arguments(text: str) -> Object:
    """Parse a call's arguments. Returns {} if the model wrote no JSON object."""
    try:
        return json_text.parse_json_object(text)
    except ValueError:
        return {}
