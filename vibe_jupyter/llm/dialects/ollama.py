"""Ollama's own API, ``/api/chat``: what is sent, and what comes back.

Null means absent, and what has an unknown shape is passed over, as with Chat Completions.
"""

import json
import uuid

from pydantic import JsonValue

from vibe_jupyter.llm.dialects.openai import parse_event, reasoning_text, token_count
from vibe_jupyter.llm.dialects.wire_parts import (
    Parts,
    call_arguments,
    dump_json,
    image_parts,
    result_text,
    text_with_images_note,
    tool_list,
    wire_name,
)
from vibe_jupyter.llm.failures import BrokenAnswer, provider_message
from vibe_jupyter.llm.growing_answer import GrowingAnswer
from vibe_jupyter.llm.hosted_events import CountsSoFar
from vibe_jupyter.llm.request import AnswerLimits, HeadTerms, Model, ModelRequestTerms, Thinking
from vibe_jupyter.protocol import (
    AssistantMessage,
    Delta,
    Message,
    StopReason,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

_TAKES_LEVELS = "gpt-oss"
"""In the name of the models that can be told how much to think; others can only be told whether."""
_NO_THINKING = "support thinking"
_NO_LEVEL = "think value"

_STOP_REASONS: dict[str, StopReason] = {"stop": "stop", "length": "length", "load": "other", "unload": "other"}

Object = dict[str, JsonValue]


class OllamaDecoder:
    """See `vibe_jupyter.llm.request.AnswerDecoder`."""

    def __init__(self, limits: AnswerLimits) -> None:
        self.finished = False
        self.ended = False
        self._answer = GrowingAnswer(limits, new_id=_new_id)
        self._calls = 0

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return self._answer.text

    def event(self, name: str, data: str) -> list[Delta | CountsSoFar]:
        """Take one line."""
        if not self.ended and data and not data.isspace():
            line = parse_event(data)
            if isinstance(line, dict):
                self._read_line(line)
        return self._answer.take()

    def whole(self, body: JsonValue) -> list[Delta | CountsSoFar]:
        """Take an answer that came as one JSON body."""
        if not isinstance(body, dict) or not isinstance(body.get("message"), dict):
            raise BrokenAnswer("provider", provider_message(body))
        self._read_line(body)
        self.finished = self.ended = True
        return self._answer.take()

    def rest(self) -> list[Delta | CountsSoFar]:
        """Deltas of a line that was broken further on."""
        return self._answer.take()

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._answer.finish()

    def _read_line(self, line: Object) -> None:
        if isinstance(error := line.get("error"), str | dict | list):
            raise BrokenAnswer("provider", provider_message(error) or "an error without a message")
        if isinstance(model := line.get("model"), str) and model:
            self._answer.model = model
        if isinstance(message := line.get("message"), dict):
            self._read_message(message)
        if line.get("done") is True:
            self._read_end(line)

    def _read_message(self, message: Object) -> None:
        if isinstance(thinking := message.get("thinking"), str) and thinking:
            self._answer.add_reasoning(thinking)
        if isinstance(content := message.get("content"), str) and content:
            self._answer.add_text(content)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                self._read_call(function)

    def _read_call(self, function: Object) -> None:
        """Each entry is a call of its own, whatever index it has; its id is always ours."""
        name, arguments = function.get("name"), function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        named = name if isinstance(name, str) else ""
        self._answer.add_call(index=self._calls, call_id="", name=named, arguments=text, whole=True)
        self._calls += 1

    def _read_end(self, line: Object) -> None:
        reason = line.get("done_reason")
        self._answer.stop_reason = _STOP_REASONS.get(reason, "other") if isinstance(reason, str) else "stop"
        prompt, completion = line.get("prompt_eval_count"), line.get("eval_count")
        if prompt is not None or completion is not None:
            self._answer.usage = Usage(prompt_tokens=token_count(prompt), completion_tokens=token_count(completion))
        self.finished = self.ended = True


class OllamaDialect:
    """See `vibe_jupyter.llm.request.Dialect`."""

    path = "/api/chat"
    models_path = "/v1/models"
    base_ends = ("/v1", "/api")
    alternates = False
    tail = b"]}"

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """Ollama knows types and properties, and drops what a reference stands for."""
        return tool_list(tools, inline=True)

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """There is no choice of tools here; the reader of the answer sees to mode none."""
        model = request.model
        settings: dict[str, JsonValue] = {"temperature": model.temperature}
        if model.max_tokens is not None:
            settings["num_predict"] = model.max_tokens
        if model.context_window is not None:
            settings["num_ctx"] = model.context_window
        head: dict[str, JsonValue] = {"model": model.name, "stream": request.stream, "options": settings}
        if model.server.keep_alive:
            head["keep_alive"] = model.server.keep_alive
        if model.thinking is not None and "think" not in terms.refused:
            head["think"] = _thinking_value(model.name, model.thinking)
        offered = b',"tools":' + tools if tools else b""
        return dump_json(head)[:-1] + offered + b',"messages":['

    def encode_message(self, message: Message, model: Model) -> bytes:
        """One message in its role."""
        match message:
            case SystemMessage():
                return dump_json({"role": "system", "content": message.text})
            case UserMessage():
                return dump_json({"role": "user", **_content_fields(message.parts, model)})
            case AssistantMessage():
                return dump_json(_assistant_message(message, model))
            case ToolMessage():
                content = result_text(message.parts, sees_images=model.sees_images)
                return dump_json({"role": "tool", "tool_name": wire_name(message.name), "content": content})

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Models that do not think refuse to be asked, even not to."""
        refused = status == 400 and (_NO_THINKING in body or _NO_LEVEL in body)
        return frozenset({"think"}) if refused else frozenset()

    def decoder(self, model: Model, limits: AnswerLimits) -> OllamaDecoder:
        """A reader for one answer."""
        return OllamaDecoder(limits)


def _thinking_value(name: str, thinking: Thinking) -> JsonValue:
    if thinking == "off":
        return False
    if _TAKES_LEVELS in name:
        return "high" if thinking == "max" else thinking
    return True


def _content_fields(parts: Parts, model: Model) -> dict[str, JsonValue]:
    content: dict[str, JsonValue] = {"content": text_with_images_note(parts, sees_images=model.sees_images)}
    if model.sees_images and (images := image_parts(parts)):
        content["images"] = [image.data for image in images]
    return content


def _assistant_message(message: AssistantMessage, model: Model) -> JsonValue:
    encoded: dict[str, JsonValue] = {"role": "assistant", "content": message.text}
    if model.thinking != "off" and (reasoning := reasoning_text(message)):
        encoded["thinking"] = reasoning
    if message.calls:
        encoded["tool_calls"] = [_tool_call(call) for call in message.calls]
    return encoded


def _tool_call(call: ToolCall) -> JsonValue:
    return {"function": {"name": wire_name(call.name), "arguments": call_arguments(call.arguments)}}


def _new_id() -> str:
    return f"ollama_{uuid.uuid4().hex}"
