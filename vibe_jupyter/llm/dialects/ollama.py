"""Ollama's native API, ``/api/chat``.

As in Chat Completions, null means absent and values of an unknown shape are skipped.
"""

import json
import uuid

from pydantic import JsonValue

from vibe_jupyter.llm.dialects.odd_forms import function_of
from vibe_jupyter.llm.dialects.openai import kind_of_finish, parse_event, token_count
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
from vibe_jupyter.llm.echoes import echoed_message, joined
from vibe_jupyter.llm.failures import BrokenAnswer, provider_message
from vibe_jupyter.llm.growing_answer import GrowingAnswer, call_fields
from vibe_jupyter.llm.hosted_events import CountsSoFar
from vibe_jupyter.llm.request import AnswerLimits, HeadTerms, Model, ModelRequestTerms, Thinking
from vibe_jupyter.protocol import (
    AssistantMessage,
    Delta,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

_TAKES_LEVELS = "gpt-oss"  # part of the names of models that support thinking levels; others only support on and off
_THOUGHTS = "thinking"
_IN_MESSAGE = frozenset({"role", "content", _THOUGHTS, "images", "tool_calls"})
_NO_THINKING = "support thinking"
_NO_LEVEL = "think value"

Object = dict[str, JsonValue]


class OllamaDecoder:
    """Decoder for Ollama, see `vibe_jupyter.llm.request.AnswerDecoder`."""

    def __init__(self, limits: AnswerLimits) -> None:
        self.finished = False
        self.ended = False
        self._answer = GrowingAnswer(limits, new_id=_new_id)
        self._calls = 0
        self._seen: list[Object] = []  # calls with ids

    @property
    def text(self) -> str:
        return self._answer.text

    def event(self, name: str, data: str) -> list[Delta | CountsSoFar]:
        """Decode one line."""
        if not self.ended and data and not data.isspace():
            line = parse_event(data)
            if isinstance(line, dict):
                self._read_line(line)
        return self._answer.take()

    def whole(self, body: JsonValue) -> list[Delta | CountsSoFar]:
        if not isinstance(body, dict) or not isinstance(body.get("message"), dict):
            raise BrokenAnswer("provider", provider_message(body), passing=False)
        self._read_line(body)
        self.finished = self.ended = True
        return self._answer.take()

    def rest(self) -> list[Delta | CountsSoFar]:
        return self._answer.take()

    def message(self) -> AssistantMessage:
        return self._answer.finish()

    def _read_line(self, line: Object) -> None:
        if line.get("error"):
            raise BrokenAnswer("provider", provider_message(line), passing=False)
        if isinstance(model := line.get("model"), str) and model:
            self._answer.model = model
        if isinstance(message := line.get("message"), dict):
            self._read_message(message)
        if line.get("done") in (True, "true"):
            self._read_end(line)

    def _read_message(self, message: Object) -> None:
        if isinstance(thinking := message.get(_THOUGHTS), str) and thinking:
            self._answer.reasoning_field = _THOUGHTS
            self._answer.add_reasoning(thinking)
        if isinstance(content := message.get("content"), str) and content:
            self._answer.add_text(content)
        if not message.keys() <= _IN_MESSAGE:
            self._answer.fields_of().add(message, _IN_MESSAGE, whole=False)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if not isinstance(call, dict) or ("id" in call and self._is_known(call)):
                continue
            function = call.get("function")
            if not isinstance(function, dict) or "arguments" not in function:
                function = function_of(call)
            if function:
                self._read_call(call, function)

    def _is_known(self, call: Object) -> bool:
        """Return whether a call came before: some servers repeat all calls in the last line."""
        if not call.get("id"):
            return False
        if call in self._seen:  # the id isn't enough: others number each call "call_0"
            return True
        self._seen.append(call)
        return False

    def _read_call(self, call: Object, function: Object) -> None:
        """Add a call. Each entry is a separate call, whatever its index, and its id is always generated here."""
        name, arguments = function.get("name"), function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        named = name if isinstance(name, str) else ""
        place = self._answer.add_call(index=self._calls, call_id="", name=named, arguments=text, whole=True)
        if fields := call_fields(call, function):
            self._answer.fields_of(place).add(fields, whole=True)
        self._calls += 1

    def _read_end(self, line: Object) -> None:
        reason = line.get("done_reason")
        self._answer.stop_reason = (kind_of_finish(reason) if isinstance(reason, str) else None) or "stop"
        prompt, completion = line.get("prompt_eval_count"), line.get("eval_count")
        if prompt is not None or completion is not None:
            self._answer.usage = Usage(prompt_tokens=token_count(prompt), completion_tokens=token_count(completion))
        self.finished = self.ended = True


class OllamaDialect:
    """Ollama's native API, see `vibe_jupyter.llm.request.Dialect`."""

    path = "/api/chat"
    models_path = "/v1/models"
    base_ends = ("/v1", "/api")
    alternates = False
    tail = b"]}"

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """Encode the tools with references resolved: Ollama knows types and properties only, and drops the rest."""
        return tool_list(tools, inline=True)

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """Encode everything before the first message.

        The API has no tool choice: `ReplyReader` enforces mode ``none``.
        """
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
        """Return the refused fields. Models without thinking reject the option even if it turns thinking off."""
        refused = status == 400 and (_NO_THINKING in body or _NO_LEVEL in body)
        return frozenset({"think"}) if refused else frozenset()

    def decoder(self, model: Model, limits: AnswerLimits) -> OllamaDecoder:
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
    fields, beside = echoed_message(message, model, field=_THOUGHTS)
    encoded = {"role": "assistant", **joined({"content": message.text}, fields)}
    if message.calls:
        calls = zip(message.calls, beside, strict=True)
        encoded["tool_calls"] = [joined(_tool_call(call), extra) for call, extra in calls]
    return encoded


def _tool_call(call: ToolCall) -> Object:
    return {"function": {"name": wire_name(call.name), "arguments": call_arguments(call.arguments)}}


def _new_id() -> str:
    return f"ollama_{uuid.uuid4().hex}"
