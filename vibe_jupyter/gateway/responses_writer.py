"""The answer as OpenAI's Responses API has it: items that are added, grow and are done, one after another."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_writer import agentic_event, file_event
from vibe_jupyter.gateway.chunk_reader import ChunkReader, detail_count
from vibe_jupyter.gateway.responses_items import SHELL, citations, new_id, shell_call, shell_output
from vibe_jupyter.gateway.rounds import count_of
from vibe_jupyter.gateway.writer import Ending, Object, WriterTerms
from vibe_jupyter.llm.event_streams import ServerEvent, encode_event
from vibe_jupyter.protocol import (
    AssistantMessage,
    Event,
    MessageAdded,
    ReasoningDelta,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
)

_INCOMPLETE: Final[Mapping[str, str]] = {
    "length": "max_output_tokens",
    "model_length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}
"""Why a response is incomplete, by finish reason."""


class ToolPlace(NamedTuple):
    """Where a tool of ours is from."""

    server: str
    tool: str
    """As its server calls it."""


FindTool = Callable[[str], ToolPlace]


class _Form(NamedTuple):
    """How a text in the output is spelled."""

    item: str
    prefix: str
    part: str
    event: str
    item_fields: Object
    part_fields: Object
    event_fields: Object


_MESSAGE: Final = _Form(
    "message",
    "msg",
    "output_text",
    "response.output_text",
    {"role": "assistant"},
    {"annotations": []},
    {"logprobs": []},
)
_REASONING: Final = _Form("reasoning", "rs", "reasoning_text", "response.reasoning_text", {"summary": []}, {}, {})


@dataclass
class _GrowingText:
    form: _Form
    place: int
    item_id: str
    pieces: list[str]


class _NumberedEvents:
    """Events that wait to be sent."""

    def __init__(self) -> None:
        self.number = 0
        """Of the next."""
        self._waiting: list[bytes] = []

    def say(self, kind: str, **fields: JsonValue) -> None:
        """The next event of the API's own."""
        body = {"type": kind, "sequence_number": self.number, **fields}
        self.number += 1
        self.add(encode_event(kind, json.dumps(body, ensure_ascii=False)))

    def add(self, event: bytes) -> None:
        """An event of another kind."""
        self._waiting.append(event)

    def flush(self) -> bytes:
        """All that wait."""
        said, self._waiting = b"".join(self._waiting), []
        return said


class ResponsesWriter:
    """See `vibe_jupyter.gateway.writer.AnswerWriter`."""

    passes_through = False
    keep_alive = b": keep-alive\n\n"

    def __init__(self, asked: Mapping[str, JsonValue], find_tool: FindTool, terms: WriterTerms) -> None:
        """
        Args:
            asked: the response's id, and what it repeats of the request.
            find_tool: where a tool is from that is run here.
            terms: of the request.
        """
        self._head: Object = {"object": "response", "created_at": int(time.time()), **asked}
        self._find_tool = find_tool
        self._terms = terms
        self._reader = ChunkReader(reasoning_field=terms.reasoning_field)
        self._output: list[Object] = []
        self._text: _GrowingText | None = None
        self._calls: dict[str, int] = {}
        """Places of calls that run here, by id."""
        self._finished: dict[str, ToolFinished] = {}
        """How calls ended whose results are not here yet."""
        self._container = new_id("cntr")
        self._files: list[Object] = []
        """Those that were made, and that no text cites yet."""
        self._events = _NumberedEvents()

    # ---- a stream ----

    def chunk(self, chunk: ServerEvent) -> bytes:
        deltas = self._reader.take(chunk)
        self._begin()
        for delta in deltas:
            self._grow(_REASONING if isinstance(delta, ReasoningDelta) else _MESSAGE, delta.text)
        return self._events.flush()

    def event(self, event: Event, round_number: int) -> bytes:
        self._begin()
        session_id = self._terms.session_id
        if self._terms.tells_events and (told := agentic_event(event, round_number, session_id)) is not None:
            self._events.add(encode_event(told[0], json.dumps(told[1], ensure_ascii=False)))
        match event:
            case MessageAdded(message=AssistantMessage() as message):
                for call in message.calls:
                    self._begin_call(call)
            case ToolFinished(call_id=call_id):
                self._finished[call_id] = event
            case MessageAdded(message=ToolMessage() as message) if message.call_id in self._calls:
                said = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
                self._end_call(message.call_id, said)
            case _:
                pass
        return self._events.flush()

    def file(self, made: Object) -> bytes:
        self._begin()
        self._files += [] if "code" in made else [made]
        if self._terms.tells_events:
            self._events.add(file_event(made))
        return self._events.flush()

    def end(self, last: Sequence[ServerEvent], ending: Ending) -> bytes:
        before = b"".join(map(self.chunk, last))
        self._end_text()
        for call in self._reader.message().calls:
            self._add_client_call(call)
        reason = _INCOMPLETE.get(self._reader.finish)
        self._events.say(
            f"response.{'incomplete' if reason else 'completed'}", response=self._ended(self._output, ending)
        )
        return before + self._events.flush()

    def fail(self, error: Mapping[str, object]) -> bytes:
        self._begin()
        words = str(error.get("message") or "The request failed.")
        self._events.say("error", code=_text(error.get("code")), message=words, param=_text(error.get("param")))
        for item in self._output:
            if item["status"] == "in_progress":
                item["status"] = "incomplete"
        failure: Object = {"code": "server_error", "message": words}
        self._events.say("response.failed", response=self._response("failed", self._output, error=failure))
        return self._events.flush()

    # ---- a whole answer ----

    def whole(self, body: Object, ending: Ending) -> Object:
        message = self._reader.take_whole(body)
        output: list[Object] = []
        for call in ending.calls:
            made = ToolCall(id=call.call_id, name=call.name, arguments=call.arguments)
            if call.name == SHELL:
                output += [{**shell_call(made), "status": "completed"}]
                output += [shell_output(call.call_id, call.result, call.details)]
            else:
                result = _call_result(call.result, failed=call.outcome != "ok")
                output.append({**self._call_item(made), **result})
        self._files = [one for one in ending.files if "code" not in one]
        for part in message.parts:
            if isinstance(part, ToolCall):
                output.append(_client_call(part, "completed"))
            else:
                form = _REASONING if isinstance(part, ReasoningPart) else _MESSAGE
                output.append(_text_item(form, new_id(form.prefix), part.text, self._cite(form, part.text)))
        return self._ended(output, ending)

    # ---- the response ----

    def _begin(self) -> None:
        if not self._events.number:
            self._events.say("response.created", response=self._response("in_progress", ()))
            self._events.say("response.in_progress", response=self._response("in_progress", ()))

    def _response(self, status: str, output: Sequence[Object], **fields: JsonValue) -> Object:
        model = self._reader.model or self._head.get("model")
        return {**self._head, "model": model, "status": status, "output": list(output), **fields}

    def _ended(self, output: Sequence[Object], ending: Ending) -> Object:
        fields: Object = {"completed_at": int(time.time()), "usage": _usage(self._reader.usage)}
        if ending.session_id:
            fields["session_id"] = ending.session_id
        if reason := _INCOMPLETE.get(self._reader.finish):
            return self._response("incomplete", output, incomplete_details={"reason": reason}, **fields)
        return self._response("completed", output, **fields)

    # ---- its items ----

    def _add(self, item: Object) -> int:
        self._end_text()
        place = len(self._output)
        self._output.append(item)
        self._events.say("response.output_item.added", output_index=place, item=item)
        return place

    def _done(self, place: int, item: Object) -> None:
        self._output[place] = item
        self._events.say("response.output_item.done", output_index=place, item=item)

    def _grow(self, form: _Form, piece: str) -> None:
        if self._text is None or self._text.form is not form:
            item_id = new_id(form.prefix)
            place = self._add(_text_item(form, item_id, None))
            self._text = _GrowingText(form, place, item_id, [])
            self._say_text("response.content_part.added", part=_part(form, ""))
        self._text.pieces.append(piece)
        self._say_text(f"{form.event}.delta", delta=piece, **form.event_fields)

    def _end_text(self) -> None:
        if self._text is None:
            return
        form, text = self._text.form, "".join(self._text.pieces)
        cited = self._cite(form, text)
        for place, one in enumerate(cited):
            self._say_text("response.output_text.annotation.added", annotation_index=place, annotation=one)
        self._say_text(f"{form.event}.done", text=text, **form.event_fields)
        self._say_text("response.content_part.done", part=_part(form, text, cited))
        self._done(self._text.place, _text_item(form, self._text.item_id, text, cited))
        self._text = None

    def _cite(self, form: _Form, text: str) -> list[JsonValue]:
        if form is not _MESSAGE:
            return []
        files, self._files = self._files, []
        return citations(text, files, self._container)

    def _say_text(self, kind: str, **fields: JsonValue) -> None:
        assert self._text is not None
        self._events.say(kind, item_id=self._text.item_id, output_index=self._text.place, content_index=0, **fields)

    def _begin_call(self, call: ToolCall) -> None:
        if call.name == SHELL:
            self._calls[call.id] = self._add(shell_call(call))
            return
        item = self._call_item(call)
        place = self._calls[call.id] = self._add({**item, "arguments": ""})
        where: Object = {"item_id": item["id"], "output_index": place}
        self._events.say("response.mcp_call.in_progress", **where)
        self._events.say("response.mcp_call_arguments.delta", **where, delta=call.arguments)
        self._events.say("response.mcp_call_arguments.done", **where, arguments=call.arguments)
        self._output[place] = item

    def _end_call(self, call_id: str, result: str) -> None:
        place = self._calls.pop(call_id)
        item, ended = self._output[place], self._finished.pop(call_id, None)
        if item["type"] == "shell_call":
            self._done(place, {**item, "status": "completed"})
            output = shell_output(call_id, result, {} if ended is None else ended.details)
            self._done(self._add({**output, "output": [], "status": "in_progress"}), output)
            return
        failed = ended is None or ended.outcome != "ok"
        self._events.say(
            f"response.mcp_call.{'failed' if failed else 'completed'}", item_id=item["id"], output_index=place
        )
        self._done(place, {**item, **_call_result(result, failed=failed)})

    def _call_item(self, call: ToolCall) -> Object:
        server, tool = self._find_tool(call.name)
        return {
            "type": "mcp_call",
            "id": new_id("mcp"),
            "server_label": server,
            "name": tool,
            "arguments": call.arguments,
            "status": "in_progress",
        }

    def _add_client_call(self, call: ToolCall) -> None:
        item = _client_call(call, "in_progress")
        place = self._add({**item, "arguments": ""})
        where: Object = {"item_id": item["id"], "output_index": place}
        self._events.say("response.function_call_arguments.delta", **where, delta=call.arguments)
        self._events.say("response.function_call_arguments.done", **where, name=call.name, arguments=call.arguments)
        self._done(place, {**item, "status": "completed"})


def _part(form: _Form, text: str, cited: Sequence[JsonValue] = ()) -> Object:
    part: Object = {"type": form.part, "text": text, **form.part_fields}
    return {**part, "annotations": list(cited)} if cited else part


def _text_item(form: _Form, item_id: str, text: str | None, cited: Sequence[JsonValue] = ()) -> Object:
    """A text in the output; one of None has only begun."""
    parts: list[JsonValue] = [] if text is None else [_part(form, text, cited)]
    status = "in_progress" if text is None else "completed"
    return {"type": form.item, "id": item_id, "status": status, "content": parts, **form.item_fields}


def _client_call(call: ToolCall, status: str) -> Object:
    return {
        "type": "function_call",
        "id": new_id("fc"),
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": status,
    }


def _call_result(result: str, *, failed: bool) -> Object:
    if not failed:
        return {"status": "completed", "output": result}
    error: Object = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": result}]}
    return {"status": "failed", "output": None, "error": error}


def _usage(counts: Mapping[str, JsonValue]) -> JsonValue:
    if not counts:
        return None
    cached = detail_count(counts, "prompt_tokens_details", "cached_tokens")
    thought = detail_count(counts, "completion_tokens_details", "reasoning_tokens")
    prompt, completion = count_of(counts, "prompt_tokens"), count_of(counts, "completion_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + completion,
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
