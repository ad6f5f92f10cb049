"""mistral.rs: Chat Completions, and beside them what the server does by itself (docs/models.md)."""

from collections.abc import Sequence

from pydantic import JsonValue

from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.dialects.openai import ChatDecoder, OpenAIDialect
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.hosted_events import Piece, answer_session, read_answer, read_event
from vibe_jupyter.llm.request import AnswerLimits, HeadTerms, Model, ModelRequestTerms
from vibe_jupyter.protocol import AssistantMessage

DEFAULT_MODEL = "default"
"""The server's name for the model it answers with when none is named."""

_EVENTS = frozenset({"agentic_tool_call_progress", "agentic_tool_approval_required", "file_produced"})
_SESSION = '"session_id"'


class MistralrsDialect(OpenAIDialect):
    """See `vibe_jupyter.llm.request.Dialect`."""

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """No name of a model means the server's own choice."""
        if not request.model.name:
            request = request._replace(model=request.model._replace(name=DEFAULT_MODEL))
        return super().encode_head(request, tools=tools, terms=terms)

    def options(self, request: ModelRequestTerms, terms: HeadTerms) -> dict[str, JsonValue]:
        """The server may only tighten what it allows itself: it asks, and where it cannot ask it runs nothing."""
        options = super().options(request, terms)
        options["agent_permission"] = "ask" if request.stream else "deny"
        if request.server_session:
            options["session_id"] = request.server_session
        return options

    def decoder(self, model: Model, limits: AnswerLimits) -> "MistralrsDecoder":  # pyright: ignore[reportIncompatibleMethodOverride]
        """A reader for one answer."""
        return MistralrsDecoder(super().decoder(model, limits))


class MistralrsDecoder:
    """See `vibe_jupyter.llm.request.AnswerDecoder`."""

    def __init__(self, chat: ChatDecoder) -> None:
        self.finished = False
        self.ended = False
        self._chat = chat

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return self._chat.text

    def event(self, name: str, data: str) -> Sequence[Piece]:
        """Take one event of a stream; one of a name we do not know is passed over."""
        if name in _EVENTS and not self.ended:
            return read_event(name, _readable_json(data))
        session = answer_session(_readable_object(data)) if name == "message" and _SESSION in data else []
        try:
            deltas = self._chat.event(name, data)
        except BrokenAnswer as failure:
            if failure.kind == "bad_json":  # an error in the midst of a stream is sent as bare words
                raise BrokenAnswer("provider", data) from None
            raise
        self.finished, self.ended = self._chat.finished, self._chat.ended
        return [*session, *deltas] if session else deltas

    def whole(self, body: JsonValue) -> Sequence[Piece]:
        """Take an answer that came as one JSON body."""
        deltas = self._chat.whole(body)
        self.finished = self.ended = True
        return [*(read_answer(body) if isinstance(body, dict) else ()), *deltas]

    def rest(self) -> Sequence[Piece]:
        """Deltas of an event that was broken further on."""
        return self._chat.rest()

    def message(self) -> AssistantMessage:
        """The complete answer."""
        return self._chat.message()


def _readable_json(data: str) -> JsonValue:
    """What cannot be read tells nothing; the answer goes on."""
    try:
        return json_text.parse_json(data)
    except ValueError:
        return None


def _readable_object(data: str) -> dict[str, JsonValue]:
    body = _readable_json(data)
    return body if isinstance(body, dict) else {}
