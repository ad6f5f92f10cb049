"""Pieces of an answer while it comes.

Slotted dataclasses: a run makes thousands of them, and validation would cost more than the parsing.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what the model thinks."""

    type: ClassVar[Literal["reasoning_delta"]] = "reasoning_delta"
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a call that is being written."""

    type: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"
    position: int
    """Which call of the answer, from 0."""
    name: str
    """The name as far as it is known."""
    arguments: str
    """The new piece of its arguments."""


Delta = TextDelta | ReasoningDelta | ToolCallDelta
