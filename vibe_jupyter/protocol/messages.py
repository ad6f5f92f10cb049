"""Messages of a conversation in the four roles of Chat Completions, their parts, and their pieces while they come.

The pieces are named tuples: a run makes thousands of them, and validation would cost more than the parsing.
"""

from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.safe_imports import without_plugins

NOTE: Final = "vibe_note"
"""The tag around what the product says to the model in the user's place."""
SUMMARY_TAG: Final = "conversation_summary"
"""The tag around what a compaction leaves of a history."""

StopReason = Literal["stop", "tool_calls", "length", "content_filter", "interrupted", "other"]


class LazyModel(BaseModel):
    """Made ready when its first value is: most classes have none before the first request is on its way."""

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def model_rebuild(cls, *, _parent_namespace_depth: int = 2, **options: Any) -> bool | None:
        """As pydantic's, but for plugins."""
        with without_plugins():
            return super().model_rebuild(_parent_namespace_depth=_parent_namespace_depth + 1, **options)


class Value(LazyModel):
    """Frozen and closed: an unknown key is an error, never silently dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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

    def minus(self, other: "Usage") -> "Usage":
        """What was used since."""
        return Usage(
            prompt_tokens=self.prompt_tokens - other.prompt_tokens,
            completion_tokens=self.completion_tokens - other.completion_tokens,
            cached_tokens=self.cached_tokens - other.cached_tokens,
        )


class SystemMessage(Value):
    """The instructions a conversation begins with."""

    role: Literal["system"] = "system"
    text: str


class TextPart(Value):
    """Plain or Markdown text."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(Value):
    """A raster image."""

    type: Literal["image"] = "image"
    media_type: str
    """Such as ``image/png``."""
    data: str
    """Base64, without line breaks."""


class UserMessage(Value):
    """What the user wrote, with what the notebook added to it."""

    role: Literal["user"] = "user"
    parts: tuple[Annotated[TextPart | ImagePart, Field(discriminator="type")], ...]


class ReasoningPart(Value):
    """What the model thought before it answered, where the server tells."""

    type: Literal["reasoning"] = "reasoning"
    text: str
    signature: str | None = None
    """The server's opaque seal on the text, replayed unchanged; None where it has none."""


class ToolCall(Value):
    """One call the model asks for."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    """Never empty and unique in its message; made up by the decoder where the server sends none."""
    name: str
    arguments: str
    """The JSON text the model wrote. It may be malformed: the call then gets an error result and never runs."""
    mark: str = ""
    """How the call came where that was unusual: written as text, repaired, or cut off and therefore never run."""
    beside: dict[str, Any] = {}
    """Further fields of the call, such as a signature, as the server sent them; they go back to it unchanged."""


class AssistantMessage(Value):
    """One complete answer of the model. Never empty: it has text or at least one call."""

    role: Literal["assistant"] = "assistant"
    parts: tuple[Annotated[TextPart | ReasoningPart | ToolCall, Field(discriminator="type")], ...]
    stop_reason: StopReason
    usage: Usage | None = None
    """None when the server sent no counts."""
    model: str = ""
    """The name the server gave itself, empty when it gave none."""
    origin: str = ""
    """Mark of the server and model that sent it, the only ones that get its thoughts and fields back."""
    reasoning_field: str = ""
    """Field in which its reasoning came, such as ``reasoning_content``; empty if it stood in the text."""
    beside: dict[str, Any] = {}
    """Further fields of the message as the server sent them; they go back to it unchanged."""

    @property
    def text(self) -> str:
        """All text parts joined."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

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

Part = Annotated[TextPart | ImagePart | ReasoningPart | ToolCall, Field(discriminator="type")]


class TextDelta(NamedTuple):
    """A piece of the answer."""

    text: str
    type: Literal["text_delta"] = "text_delta"


class ReasoningDelta(NamedTuple):
    """A piece of what the model thinks."""

    text: str
    type: Literal["reasoning_delta"] = "reasoning_delta"


class ToolCallDelta(NamedTuple):
    """A piece of a call that is being written."""

    position: int
    """Which call of the answer, from 0."""
    name: str
    """The name as far as it is known."""
    arguments: str
    """The new piece of its arguments."""
    type: Literal["tool_call_delta"] = "tool_call_delta"


Delta = TextDelta | ReasoningDelta | ToolCallDelta


def is_prompt(message: Message) -> bool:
    """Return whether the user wrote a message, and not a middleware or a compaction."""
    return isinstance(message, UserMessage) and not prompt_text(message).startswith((f"<{NOTE}>", f"<{SUMMARY_TAG}>"))


def prompt_text(message: UserMessage) -> str:
    """Return the user's own words: what goes with them stands before them."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    return texts[-1] if texts else ""
