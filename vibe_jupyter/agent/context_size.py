"""Share of the context window that the next request takes: the server's own count plus an estimate of the rest.

A server reports the token count of a request with its answer. Messages added since then are estimated, as is the whole
history if no server reported a count. Rewriting the history invalidates earlier counts. Some servers report zero, only
the tokens that were not cached, or the counts of another request, so a count that is too small for what was sent is
ignored.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from vibe_jupyter.session.conversation import Conversation

DEFAULT_WINDOW: Final = 128_000  # tokens, if neither the settings nor the catalog know the model's context window
CHARACTERS_PER_TOKEN: Final = 4  # for estimates; tokenizers differ a little
# Smallest plausible count, as a share of the estimate without images and reasoning: tokens have at most 8 characters on
# average
LEAST_SHARE: Final = 0.5
IMAGE_TOKENS: Final = 1_500  # per image; servers count 85 to 4,000
MESSAGE_TOKENS: Final = 8  # added by servers around a message or a call
SHORTEN_SHARE: Final = 0.60  # share of the context window from which old results and images are shortened
REWRITE_GROWTH: Final = 0.25  # share of the context window by which the history grows between two rewrites
REPORT_BEGINS: Final = "<notebook>"

ContextPart = Literal["system", "tools", "report", "messages", "results", "images"]
CONTEXT_PARTS: Final[tuple[ContextPart, ...]] = ("system", "tools", "report", "messages", "results", "images")


class ContextSize(NamedTuple):
    """Size of the next request, in tokens."""

    tokens: int
    window: int  # context window of the model
    is_known: bool = True  # True if the window is the model's own, False for `DEFAULT_WINDOW`
    rewritten: int = 0  # size right after the latest rewrite of the history; 0 if there was none

    @property
    def share(self) -> float:
        """Used share of the context window. Exceeds 1 if the request doesn't fit."""
        return self.tokens / self.window

    @property
    def may_be_shortened(self) -> bool:
        """True if the window is full enough, and the history grew enough since the latest rewrite."""
        since = self.tokens - self.rewritten
        return self.share >= SHORTEN_SHARE and (not self.rewritten or since >= REWRITE_GROWTH * self.window)


def count_text(text: str) -> int:
    """Estimate the tokens of a text."""
    # Bytes rather than characters, because non-ASCII characters take more tokens.
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // CHARACTERS_PER_TOKEN)


def count_tools(tools: Sequence[ToolSpec]) -> int:
    """Estimate the tokens of the available tools."""
    # With `json`: pydantic would have to build its serializer for the class before the first request.
    return count_text(json.dumps(list(map(dict, tools)), ensure_ascii=False, separators=(",", ":"))) if tools else 0


def count_message(message: Message, *, sees_images: bool = True) -> dict[ContextPart, int]:
    """Estimate the tokens of a message, by part."""
    match message:
        case UserMessage(parts=parts) | ToolMessage(parts=parts):
            main: ContextPart = "messages" if isinstance(message, UserMessage) else "results"
            counts: dict[ContextPart, int] = {main: MESSAGE_TOKENS}
            for part in parts:
                kind, tokens = _count_part(part, main, sees_images=sees_images)
                counts[kind] = counts.get(kind, 0) + tokens
            return counts
        case AssistantMessage(parts=parts):
            return {"messages": MESSAGE_TOKENS + sum(map(_count_spoken, parts))}
        case _:
            return {"system": count_text(message.text)}


def count_messages(messages: Sequence[Message], *, sees_images: bool = True) -> int:
    """Estimate the total tokens of several messages."""
    total = 0
    for message in messages:
        total += sum(count_message(message, sees_images=sees_images).values())
    return total


def usage_or_estimate(usage: Usage | None, size: ContextSize, answer: AssistantMessage) -> Usage:
    """Return the counts of a request for the limits of a run: the server's own, or an estimate if it sent none.

    Args:
        usage: counts from the server; None or zero if it sent none.
        size: estimated size of the request.
        answer: the response.
    """
    if usage is not None and usage.prompt_tokens:
        return usage
    completion = usage.completion_tokens if usage is not None else 0
    return Usage(prompt_tokens=size.tokens, completion_tokens=completion or count_messages((answer,)))


def _count_least(message: Message) -> int:
    """Estimate the tokens that every server counts: without images and reasoning, which some leave out."""
    if isinstance(message, AssistantMessage):
        return sum(_count_spoken(part) for part in message.parts if not isinstance(part, ReasoningPart))
    counts = count_message(message, sees_images=False)
    return sum(counts.values()) - counts.get("images", 0)


def _count_part(part: TextPart | ImagePart, main: ContextPart, *, sees_images: bool) -> tuple[ContextPart, int]:
    if isinstance(part, ImagePart):
        return "images", IMAGE_TOKENS if sees_images else MESSAGE_TOKENS
    return "report" if part.text.startswith(REPORT_BEGINS) else main, count_text(part.text)


def _count_spoken(part: TextPart | ReasoningPart | ToolCall) -> int:
    if isinstance(part, ToolCall):
        return MESSAGE_TOKENS + count_text(part.name) + count_text(part.arguments)
    return count_text(part.text)


class ContextMeter:
    """Running token count of one conversation during a run. Engine loop only.

    Messages that a server has counted are not estimated again.
    """

    def __init__(self, conversation: Conversation, model: Model, system: str) -> None:
        self._conversation = conversation
        self._model = model
        self._system = count_text(system)
        self._tools: tuple[ToolSpec, ...] = ()
        self._tool_tokens = 0
        self._generation = -1
        self._taken = 0
        self._base = 0  # tokens that a server counted up to its latest answer; 0 if none did
        self._added = 0  # estimate of the messages after that
        self._least = 0  # estimate of the whole history, without images and reasoning

    def size(self, tools: Callable[[], Sequence[ToolSpec]], pending: Sequence[Message] = ()) -> ContextSize:
        """Return the size of the next request.

        Args:
            tools: returns the tools available in it.
            pending: messages that are about to be added.
        """
        fixed = self._system + self._count_tools(tuple(tools()))
        self._take_history(fixed)
        known = self._conversation.overflowed_at or self._model.context_window
        return ContextSize(
            tokens=(self._base or fixed) + self._added + (self._count(pending) if pending else 0),
            window=min(filter(None, (known, self._model.context_window)), default=DEFAULT_WINDOW),
            is_known=known is not None,
            rewritten=self._conversation.rewritten_size,
        )

    def _take_history(self, fixed: int) -> None:
        conversation, history = self._conversation, self._conversation.history
        if self._generation != conversation.rewrites:
            self._generation, self._taken, self._base = conversation.rewrites, 0, 0
            self._added = self._least = 0
        for place in range(self._taken, len(history)):
            message = history[place]
            # Counts of answers from before the latest rewrite are for a different history.
            counted = message.usage if isinstance(message, AssistantMessage) else None
            is_counted = counted is not None and place >= conversation.counted_from and counted.prompt_tokens > 0
            if counted is not None and is_counted and counted.prompt_tokens >= LEAST_SHARE * (fixed + self._least):
                self._base, self._added = counted_size(counted), 0
            else:
                self._added += self._count((message,))
            self._least += _count_least(message)
        self._taken = len(history)

    def _count(self, messages: Sequence[Message]) -> int:
        return count_messages(messages, sees_images=self._model.sees_images)

    def _count_tools(self, tools: tuple[ToolSpec, ...]) -> int:
        if tools != self._tools:
            self._tools, self._tool_tokens = tools, count_tools(tools)
        return self._tool_tokens


def counted_size(usage: Usage) -> int:
    """Return the tokens of a request and its answer, both of which are part of the next request."""
    return usage.prompt_tokens + usage.completion_tokens
