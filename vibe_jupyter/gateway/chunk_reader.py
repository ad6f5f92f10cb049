"""A Chat Completions stream, or a whole answer, read for a writer that spells it in another API."""

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from vibe_jupyter.gateway.rounds import Object, count_of, empty_message
from vibe_jupyter.llm.dialects.openai import ChatDecoder, parse_event
from vibe_jupyter.llm.event_streams import ServerEvent
from vibe_jupyter.llm.request import AnswerLimits
from vibe_jupyter.protocol import AssistantMessage, ReasoningDelta, TextDelta


class ChunkReader:
    """Of one answer."""

    def __init__(self, *, reasoning_field: str = "") -> None:
        self.model = ""
        """As the model server calls itself."""
        self.finish = "stop"
        """The finish reason of Chat Completions."""
        self.usage: Object = {}
        self._decoder = ChatDecoder(AnswerLimits(), reasoning_field=reasoning_field)

    def take(self, chunk: ServerEvent) -> list[TextDelta | ReasoningDelta]:
        """The next chunk: what it adds to the text and to the reasoning.

        Raises:
            BrokenAnswer: the answer is too long.
        """
        body = parse_event(chunk.data) if chunk.name == "message" else None
        if not isinstance(body, dict):
            return []
        self._note(body)
        return [one for one in self._decoder.chunk(body) if isinstance(one, TextDelta | ReasoningDelta)]

    def take_whole(self, body: Object) -> AssistantMessage:
        """An answer that did not come in chunks."""
        self._note(body)
        self._decoder.whole(body)
        return self.message()

    def message(self) -> AssistantMessage:
        """The answer, with the calls that are the client's."""
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
    """A count in a group of counts, such as the cached tokens of a prompt; 0 where it is not told."""
    details = usage.get(group)
    return count_of(cast("Object", details), name) if isinstance(details, dict) else 0
