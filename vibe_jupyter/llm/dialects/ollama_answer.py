"""Ollama's own API: what comes back, a JSON object a line, or one for a whole answer.

Null means absent, and what has an unknown shape is passed over, as with Chat Completions.
"""

import json
import uuid

from pydantic import JsonValue

from vibe_jupyter.llm.agentic import CountsSoFar
from vibe_jupyter.llm.answer import GrowingAnswer
from vibe_jupyter.llm.dialects.openai_answer import count, parse_event
from vibe_jupyter.llm.failures import Broken, provider_message
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.protocol import AssistantMessage, Delta, StopReason, Usage

_STOP_REASONS: dict[str, StopReason] = {"stop": "stop", "length": "length", "load": "other", "unload": "other"}

Object = dict[str, JsonValue]


class OllamaDecoder:
    """See `vibe_jupyter.llm.dialect.Decoder`."""

    def __init__(self, limits: Limits) -> None:
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
                self._line(line)
        return self._answer.take()

    def whole(self, body: JsonValue) -> list[Delta | CountsSoFar]:
        """Take an answer that came as one JSON body."""
        if not isinstance(body, dict) or not isinstance(body.get("message"), dict):
            raise Broken("provider", provider_message(body))
        self._line(body)
        self.finished = self.ended = True
        return self._answer.take()

    def rest(self) -> list[Delta | CountsSoFar]:
        """Deltas of a line that was broken further on."""
        return self._answer.take()

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._answer.finish()

    def _line(self, line: Object) -> None:
        if isinstance(error := line.get("error"), str | dict | list):
            raise Broken("provider", provider_message(error) or "an error without words")
        if isinstance(model := line.get("model"), str) and model:
            self._answer.model = model
        if isinstance(message := line.get("message"), dict):
            self._message(message)
        if line.get("done") is True:
            self._done(line)

    def _message(self, message: Object) -> None:
        if isinstance(thinking := message.get("thinking"), str) and thinking:
            self._answer.add_reasoning(thinking)
        if isinstance(content := message.get("content"), str) and content:
            self._answer.add_text(content)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                self._call(function)

    def _call(self, function: Object) -> None:
        """Each entry is a call of its own, whatever index it has; its id is always ours."""
        name, arguments = function.get("name"), function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        named = name if isinstance(name, str) else ""
        self._answer.add_call(index=self._calls, call_id="", name=named, arguments=text, whole=True)
        self._calls += 1

    def _done(self, line: Object) -> None:
        reason = line.get("done_reason")
        self._answer.stop_reason = _STOP_REASONS.get(reason, "other") if isinstance(reason, str) else "stop"
        prompt, completion = line.get("prompt_eval_count"), line.get("eval_count")
        if prompt is not None or completion is not None:
            self._answer.usage = Usage(prompt_tokens=count(prompt), completion_tokens=count(completion))
        self.finished = self.ended = True


def _new_id() -> str:
    return f"ollama_{uuid.uuid4().hex}"
