"""Writer for OpenAI's Responses API, where an answer is a list of items that are added, grow and finish in turn."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_writer import agentic_event, file_event
from vibe_jupyter.gateway.chunk_reader import ChunkReader, detail_count
from vibe_jupyter.gateway.client_tools import ClientTool, ClientTools, custom_input
from vibe_jupyter.gateway.echoes import thoughts_echo
from vibe_jupyter.gateway.responses_items import SHELL, citations, new_id, sealed, shell_call, shell_output, state_items
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

# Reasons of an incomplete response, by finish reason.
_INCOMPLETE: Final[Mapping[str, str]] = {
    "length": "max_output_tokens",
    "model_length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}


# By type of a client's call: the field with the text that the model wrote, and the prefix of its events.
_CONTENTS: Final[Mapping[str, tuple[str, str]]] = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
}


class ToolPlace(NamedTuple):
    """Origin of a tool that the gateway runs."""

    server: str
    tool: str  # its name at the server


FindTool = Callable[[str], ToolPlace]


class ShownTools(NamedTuple):
    """Tools whose calls a response shows."""

    find: FindTool  # returns the origin of a tool that the gateway runs
    client: ClientTools
    left_out: Sequence[str] = ()  # tools that the response reports as not offered


class _Form(NamedTuple):
    """Names and fixed fields for one kind of text in the output."""

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
    """Buffer of encoded events. Those of the API get a sequence number."""

    def __init__(self) -> None:
        self.number = 0  # of the next event
        self._waiting: list[bytes] = []

    def say(self, kind: str, **fields: JsonValue) -> None:
        """Append an event of the API."""
        body = {"type": kind, "sequence_number": self.number, **fields}
        self.number += 1
        self.add(encode_event(kind, json.dumps(body, ensure_ascii=False)))

    def add(self, event: bytes) -> None:
        """Append an event of the gateway's extensions."""
        self._waiting.append(event)

    def flush(self) -> bytes:
        """Return all events and clear the buffer."""
        said, self._waiting = b"".join(self._waiting), []
        return said


class ResponsesWriter:
    """Answer writer for the Responses API. Implements `vibe_jupyter.gateway.writer.AnswerWriter`."""

    passes_through = False
    keep_alive = b": keep-alive\n\n"

    def __init__(self, asked: Mapping[str, JsonValue], tools: ShownTools, terms: WriterTerms) -> None:
        """
        Args:
            asked: ID of the response, and the fields that it repeats from the request.
            tools: tools of the client and of the gateway.
            terms: properties of the request.
        """
        self._head: Object = {"object": "response", "created_at": int(time.time()), **asked}
        self._tools = tools
        self._terms = terms
        self._reader = ChunkReader(reasoning_field=terms.reasoning_field)
        self._output: list[Object] = []
        self._text: _GrowingText | None = None
        self._calls: dict[str, int] = {}  # output index of each unfinished gateway call, by call ID
        self._finished: dict[str, ToolFinished] = {}  # finished calls whose result message is still to come
        self._container = new_id("cntr")
        self._files: list[Object] = []  # produced files that no text has cited yet
        self._events = _NumberedEvents()

    # ---- streams ----

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
                if message.calls:
                    self._reader.end_round()
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
        message = self._reader.message()
        for state in state_items(message, self._terms.origin):
            self._done(self._add({**state, "status": "in_progress"}), state)
        for call in message.calls:
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

    # ---- complete bodies ----

    def whole(self, body: Object, ending: Ending) -> Object:
        message = self._reader.take_whole(body)
        output: list[Object] = [_warning(self._tools.left_out)] if self._tools.left_out else []
        for call in ending.calls:
            made = ToolCall(id=call.call_id, name=call.name, arguments=call.arguments)
            if call.name == SHELL:
                output += [{**shell_call(made), "status": "completed"}]
                output += [shell_output(call.call_id, call.result, call.details)]
            else:
                result = _call_result(call.result, failed=call.outcome != "ok")
                output.append({**self._call_item(made), **result})
        self._files = [one for one in ending.files if "code" not in one]
        calls: list[Object] = []
        field = message.reasoning_field
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls.append({**_client_call(part, self._tools.client.find(part.name)), "status": "completed"})
            elif isinstance(part, ReasoningPart):
                item = _text_item(_REASONING, new_id(_REASONING.prefix), part.text)
                output.append({**item, **sealed(thoughts_echo(self._terms.origin, field, part.text, part.signature))})
            else:
                cited = self._cite(_MESSAGE, part.text)
                output.append(_text_item(_MESSAGE, new_id(_MESSAGE.prefix), part.text, cited))
        output += [*state_items(message, self._terms.origin), *calls]
        return self._ended(output, ending)

    # ---- the response ----

    def _begin(self) -> None:
        if not self._events.number:
            self._events.say("response.created", response=self._response("in_progress", ()))
            self._events.say("response.in_progress", response=self._response("in_progress", ()))
            if self._tools.left_out:
                warning = _warning(self._tools.left_out)
                self._done(self._add({**warning, "summary": [], "status": "in_progress"}), warning)

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
        item = _text_item(form, self._text.item_id, text, cited)
        if form is _REASONING:
            echo = thoughts_echo(self._terms.origin, self._reader.reasoning_field, text, self._reader.take_signature())
            item |= sealed(echo)
        self._done(self._text.place, item)
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
        server, tool = self._tools.find(call.name)
        return {
            "type": "mcp_call",
            "id": new_id("mcp"),
            "server_label": server,
            "name": tool,
            "arguments": call.arguments,
            "status": "in_progress",
        }

    def _add_client_call(self, call: ToolCall) -> None:
        item = _client_call(call, self._tools.client.find(call.name))
        content, event = _CONTENTS[str(item["type"])]
        place = self._add({**item, content: ""})
        where: Object = {"item_id": item["id"], "output_index": place}
        said = item[content]
        named: Object = {"name": item["name"]} if content == "arguments" else {}
        self._events.say(f"{event}.delta", **where, delta=said)
        self._events.say(f"{event}.done", **where, **named, **{content: said})
        self._done(place, {**item, "status": "completed"})


def _part(form: _Form, text: str, cited: Sequence[JsonValue] = ()) -> Object:
    part: Object = {"type": form.part, "text": text, **form.part_fields}
    return {**part, "annotations": list(cited)} if cited else part


def _text_item(form: _Form, item_id: str, text: str | None, cited: Sequence[JsonValue] = ()) -> Object:
    """Build a text item. It is in progress if the text is None."""
    parts: list[JsonValue] = [] if text is None else [_part(form, text, cited)]
    status = "in_progress" if text is None else "completed"
    return {"type": form.item, "id": item_id, "status": status, "content": parts, **form.item_fields}


def _client_call(call: ToolCall, tool: ClientTool) -> Object:
    """Build the item of a call that the client answers, in the form of its tool."""
    kind = "custom_tool_call" if tool.is_custom else "function_call"
    item: Object = {
        "type": kind,
        "id": new_id("ctc" if tool.is_custom else "fc"),
        "call_id": call.id,
        "name": tool.name,
        "status": "in_progress",
    }
    if tool.namespace:
        item["namespace"] = tool.namespace
    content, _ = _CONTENTS[kind]
    return {**item, content: custom_input(call.arguments) if tool.is_custom else call.arguments}


def _warning(left_out: Sequence[str]) -> Object:
    """Build an item that lists tools that aren't offered.

    It is a reasoning item, which every client can display and none has to answer.
    """
    words = f"Warning: these tools are not served here and were left out: {', '.join(left_out)}."
    summary: list[JsonValue] = [{"type": "summary_text", "text": words}]
    return {"type": "reasoning", "id": new_id("rs"), "summary": summary, "status": "completed"}


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
