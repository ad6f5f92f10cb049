"""What a message is made of."""

from typing import Annotated, Literal

from pydantic import Field

from vibe_jupyter.protocol.value import Value


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


class ReasoningPart(Value):
    """What the model thought before it answered, where the server tells."""

    type: Literal["reasoning"] = "reasoning"
    text: str
    signature: str | None = None
    """The server's opaque seal on the text, replayed unchanged; None where it has none."""


class ToolCall(Value):
    """One call the model asks for (seed 004, New Type Definitions)."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    """Never empty and unique in its message; made up by the decoder where the server sends none."""
    name: str
    arguments: str
    """The JSON text the model wrote. It may be malformed: the call then gets an error result and never runs."""


Part = Annotated[TextPart | ImagePart | ReasoningPart | ToolCall, Field(discriminator="type")]
