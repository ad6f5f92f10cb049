"""mistral.rs: Chat Completions plus events of tools hosted by the server (docs/models.md)."""

from collections.abc import Sequence

from pydantic import JsonValue

from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.dialects.openai import ChatDecoder, OpenAIDialect
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.hosted_events import Piece, answer_session, read_answer, read_event
from vibe_jupyter.llm.request import AnswerLimits, HeadTerms, Model, ModelRequestTerms
from vibe_jupyter.protocol import AssistantMessage

DEFAULT_MODEL = "default"  # the server's name for its default model

_EVENTS = frozenset({"agentic_tool_call_progress", "agentic_tool_approval_required", "file_produced"})
_SESSION = '"session_id"'


class MistralrsDialect(OpenAIDialect):
    """mistral.rs's variant of Chat Completions, see `vibe_jupyter.llm.request.Dialect`."""

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """Encode the head, with the server's default model if none is named."""
        if not request.model.name:
            request = request._replace(model=request.model._replace(name=DEFAULT_MODEL))
        return super().encode_head(request, tools=tools, terms=terms)

    def options(self, request: ModelRequestTerms, terms: HeadTerms) -> dict[str, JsonValue]:
        """Return the optional fields.

        The agent permission can only tighten the server's own policy: it asks before running a tool, and without a
        stream, where it can't ask, runs nothing.
        """
        options = super().options(request, terms)
        options["agent_permission"] = "ask" if request.stream else "deny"
        if request.server_session:
            options["session_id"] = request.server_session
        return options

    def decoder(self, model: Model, limits: AnswerLimits) -> "MistralrsDecoder":  # pyright: ignore[reportIncompatibleMethodOverride]
        return MistralrsDecoder(super().decoder(model, limits))


class MistralrsDecoder:
    """Decoder for mistral.rs, see `vibe_jupyter.llm.request.AnswerDecoder`."""

    def __init__(self, chat: ChatDecoder) -> None:
        self.finished = False
        self.ended = False
        self._chat = chat

    @property
    def text(self) -> str:
        return self._chat.text

    def event(self, name: str, data: str) -> Sequence[Piece]:
        """Decode one event of a stream. Events with an unknown name are skipped."""
        if name in _EVENTS and not self.ended:
            return read_event(name, _readable_json(data))
        session = answer_session(_readable_object(data)) if name == "message" and _SESSION in data else []
        try:
            deltas = self._chat.event(name, data)
        except BrokenAnswer as failure:
            if failure.kind == "bad_json":  # errors in mid-stream are sent as plain text
                raise BrokenAnswer("provider", data, passing=False) from None
            raise
        self.finished, self.ended = self._chat.finished, self._chat.ended
        return [*session, *deltas] if session else deltas

    def whole(self, body: JsonValue) -> Sequence[Piece]:
        deltas = self._chat.whole(body)
        self.finished = self.ended = True
        return [*(read_answer(body) if isinstance(body, dict) else ()), *deltas]

    def rest(self) -> Sequence[Piece]:
        return self._chat.rest()

    def message(self) -> AssistantMessage:
        return self._chat.message()


def _readable_json(data: str) -> JsonValue:
    """Parse JSON, or return None so that a malformed event is skipped and streaming continues."""
    try:
        return json_text.parse_json(data)
    except ValueError:
        return None


def _readable_object(data: str) -> dict[str, JsonValue]:
    body = _readable_json(data)
    return body if isinstance(body, dict) else {}
