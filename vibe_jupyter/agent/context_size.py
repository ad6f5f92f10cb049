"""How much of the model's context window the next request takes: the server's own count, and an estimate of the rest.

A server counts a request in its answer. What the history got since then is estimated, and all of it where no server
counted; after the history was rewritten earlier counts mean nothing.
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

DEFAULT_WINDOW: Final = 128_000
"""Tokens, where nobody set the window of a model and the catalogue does not know it."""
CHARACTERS_PER_TOKEN: Final = 4
"""What is counted with: the server's own tokens differ a little."""
IMAGE_TOKENS: Final = 1_500
"""For one picture; servers count 85 to 4,000."""
MESSAGE_TOKENS: Final = 8
"""For what a server puts around a message or a call."""
SHORTEN_SHARE: Final = 0.60
"""Of the window, from which old results and pictures are shortened."""
REWRITE_GROWTH: Final = 0.25
"""Share of the window that comes between two rewrites."""
REPORT_BEGINS: Final = "<notebook>"

ContextPart = Literal["system", "tools", "report", "messages", "results", "images"]
CONTEXT_PARTS: Final[tuple[ContextPart, ...]] = ("system", "tools", "report", "messages", "results", "images")


class ContextSize(NamedTuple):
    """The next request, in tokens."""

    tokens: int
    window: int
    """What the model takes at most."""
    is_known: bool = True
    """Whether the window is the model's own, and not `DEFAULT_WINDOW`."""
    rewritten: int = 0
    """What the request was right after the history was rewritten last; 0 where it never was."""

    @property
    def share(self) -> float:
        """Of the window, 0 to 1 and above."""
        return self.tokens / self.window

    @property
    def may_be_shortened(self) -> bool:
        """Whether it is full enough, and grew enough since the history was rewritten last."""
        since = self.tokens - self.rewritten
        return self.share >= SHORTEN_SHARE and (not self.rewritten or since >= REWRITE_GROWTH * self.window)


def count_text(text: str) -> int:
    """Tokens of a text, about."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // CHARACTERS_PER_TOKEN)


def count_tools(tools: Sequence[ToolSpec]) -> int:
    """Tokens of the tools on offer, about."""
    # By json: before the first request pydantic would have to make the class ready to write it.
    written = (json.dumps(dict(spec), ensure_ascii=False, separators=(",", ":")) for spec in tools)
    return sum(map(count_text, written))


def count_message(message: Message, *, sees_images: bool = True) -> dict[ContextPart, int]:
    """Tokens of a message by part, about."""
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
    """Tokens of them together, about."""
    total = 0
    for message in messages:
        total += sum(count_message(message, sees_images=sees_images).values())
    return total


def _count_part(part: TextPart | ImagePart, main: ContextPart, *, sees_images: bool) -> tuple[ContextPart, int]:
    if isinstance(part, ImagePart):
        return "images", IMAGE_TOKENS if sees_images else MESSAGE_TOKENS
    return "report" if part.text.startswith(REPORT_BEGINS) else main, count_text(part.text)


def _count_spoken(part: TextPart | ReasoningPart | ToolCall) -> int:
    if isinstance(part, ToolCall):
        return MESSAGE_TOKENS + count_text(part.name) + count_text(part.arguments)
    return count_text(part.text)


class ContextMeter:
    """Follows the history of one conversation during a run; what a server counted is not counted again. On the loop."""

    def __init__(self, conversation: Conversation, model: Model, system: str) -> None:
        self._conversation = conversation
        self._model = model
        self._system = count_text(system)
        self._tools: tuple[ToolSpec, ...] = ()
        self._tool_tokens = 0
        self._generation = -1
        self._taken = 0
        self._base = 0
        """What a server counted up to the latest of its answers; 0 where none did."""
        self._added = 0
        """Estimate of what came after that."""

    def size(self, tools: Callable[[], Sequence[ToolSpec]], pending: Sequence[Message] = ()) -> ContextSize:
        """The next request.

        Args:
            tools: gives those on offer in it; asked where no server counted them.
            pending: messages that are about to be added.
        """
        self._take_history()
        fixed = 0 if self._base else self._system + self._count_tools(tuple(tools()))
        known = self._conversation.overflowed_at or self._model.context_window
        return ContextSize(
            tokens=fixed + self._base + self._added + (self._count(pending) if pending else 0),
            window=min(filter(None, (known, self._model.context_window)), default=DEFAULT_WINDOW),
            is_known=known is not None,
            rewritten=self._conversation.rewritten_size,
        )

    def _take_history(self) -> None:
        conversation = self._conversation
        if self._generation != conversation.rewrites:
            self._generation, self._taken, self._base, self._added = conversation.rewrites, 0, 0, 0
        history = conversation.history
        # An answer that was rewritten or came before it counted another history.
        since = max(self._taken, conversation.counted_from)
        for place in range(len(history) - 1, since - 1, -1):
            message = history[place]
            counted = message.usage if isinstance(message, AssistantMessage) else None
            if counted is not None and counted.prompt_tokens:
                self._base, self._added, self._taken = counted_size(counted), 0, place + 1
                break
        if self._taken < len(history):
            self._added += self._count(history[self._taken :])
            self._taken = len(history)

    def _count(self, messages: Sequence[Message]) -> int:
        return count_messages(messages, sees_images=self._model.sees_images)

    def _count_tools(self, tools: tuple[ToolSpec, ...]) -> int:
        if tools != self._tools:
            self._tools, self._tool_tokens = tools, count_tools(tools)
        return self._tool_tokens


def counted_size(usage: Usage) -> int:
    """A request with its answer, which the next request has too."""
    return usage.prompt_tokens + usage.completion_tokens
