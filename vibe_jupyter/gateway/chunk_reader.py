"""Reader for Chat Completions streams and bodies, for the writers that translate them to another API."""

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from vibe_jupyter.gateway.rounds import Object, count_of, empty_message
from vibe_jupyter.llm.dialects.openai import ChatDecoder, parse_event
from vibe_jupyter.llm.event_streams import ServerEvent
from vibe_jupyter.llm.request import AnswerLimits
from vibe_jupyter.protocol import AssistantMessage, ReasoningDelta, TextDelta


class ChunkReader:
    """Reader for one answer."""

    def __init__(self, *, reasoning_field: str = "") -> None:
        self.model = ""  # as the model server names itself
        self.finish = "stop"  # finish reason in the terms of Chat Completions
        self.usage: Object = {}
        self._decoder = ChatDecoder(AnswerLimits(), reasoning_field=reasoning_field)

    def take(self, chunk: ServerEvent) -> list[TextDelta | ReasoningDelta]:
        """Parse the next chunk into text and reasoning deltas.

        Raises:
            BrokenAnswer: the answer is too long.
        """
        name, data = chunk
        body = parse_event(data) if name == "message" else None
        if not isinstance(body, dict):
            return []
        self._note(body)
        return [one for one in self._decoder.chunk(body) if isinstance(one, TextDelta | ReasoningDelta)]

    def take_whole(self, body: Object) -> AssistantMessage:
        """Parse an answer that wasn't streamed."""
        self._note(body)
        self._decoder.whole(body)
        return self.message()

    @property
    def reasoning_field(self) -> str:
        """The model server's field for reasoning, or "" before the first reasoning."""
        return self._decoder.reasoning_field

    def take_signature(self) -> str | None:
        """Return the signature of the latest reasoning, once; None if the model server sent none."""
        return self._decoder.take_signature()

    def end_round(self) -> None:
        """Discard vendor fields of the current answer, which the client doesn't see as a whole."""
        self._decoder.forget_fields()

    def message(self) -> AssistantMessage:
        """Return the answer with the client's calls."""
        return empty_message(self._decoder)

    def _note(self, body: Object) -> None:
        model, usage, choices = body.get("model"), body.get("usage"), body.get("choices")
        if isinstance(model, str):
            self.model = model
        if isinstance(usage, dict):
            self.usage = usage
        for choice in choices if isinstance(choices, list) else ():
            reason = choice.get("finish_reason") if isinstance(choice, dict) else None
            if isinstance(reason, str) and reason:
                self.finish = reason


def detail_count(usage: Mapping[str, JsonValue], group: str, name: str) -> int:
    """Return a count of a nested group, such as the cached tokens of a prompt, or 0 if it isn't reported."""
    details = usage.get(group)
    return count_of(cast("Object", details), name) if isinstance(details, dict) else 0
