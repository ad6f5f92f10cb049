"""Messages of a conversation, in the four roles of Chat Completions (seed 000, Message Types)."""

from typing import Annotated, Literal

from pydantic import Field

from vibe_jupyter.protocol.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from vibe_jupyter.protocol.value import Value

StopReason = Literal["stop", "tool_calls", "length", "content_filter", "interrupted", "other"]


class Usage(Value):
    """Token counts of one request, or of several added up."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Part of prompt_tokens that the server read from its cache."""

    def __add__(self, other: "Usage") -> "Usage":
        """Count two requests together."""
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


class SystemMessage(Value):
    """The instructions a conversation begins with."""

    role: Literal["system"] = "system"
    text: str


class UserMessage(Value):
    """What the person wrote, with what the notebook added to it."""

    role: Literal["user"] = "user"
    parts: tuple[Annotated[TextPart | ImagePart, Field(discriminator="type")], ...]


class AssistantMessage(Value):
    """One complete answer of the model. Never empty: it has text or at least one call."""

    role: Literal["assistant"] = "assistant"
    parts: tuple[Annotated[TextPart | ReasoningPart | ToolCall, Field(discriminator="type")], ...]
    stop_reason: StopReason
    usage: Usage | None = None
    """None when the server sent no counts."""
    model: str = ""
    """The name the server gave itself, empty when it gave none."""

    @property
    def text(self) -> str:
        """All text parts joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, in the order the model made them."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ToolMessage(Value):
    """The one result of one call."""

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    parts: tuple[Annotated[TextPart | ImagePart, Field(discriminator="type")], ...]
    is_error: bool = False


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]
