"""The messages of a request in the order a server takes them. The history stays as it is.

What is added depends only on what stands before it, so the requests of a conversation stay prefixes of each other.
"""

from collections.abc import Iterator, Sequence

from vibe_jupyter.protocol import AssistantMessage, ImagePart, Message, TextPart, ToolMessage, UserMessage

NO_ANSWER = AssistantMessage(parts=(TextPart(text="(no answer)"),), stop_reason="interrupted")
"""Stands between two messages of the person, and between a tool's result and the person."""
GO_ON = UserMessage(parts=(TextPart(text="Go on."),))
"""Stands between two answers, and after one that is the last message: servers would continue it, and repeat it."""


def arranged(messages: Sequence[Message], *, sees_images: bool, alternates: bool) -> Iterator[tuple[Message, Message]]:
    """Pairs of a message that stays and what is sent for it: itself, or the images of the results that end with it.

    Args:
        messages: the history.
        sees_images: images of results follow as a message of the person, the only place where servers take them.
        alternates: see `vibe_jupyter.llm.dialect.Dialect`.
    """
    previous: Message | None = None
    for anchor, message in _with_images(messages, sees_images=sees_images):
        if alternates and (between := _between(previous, message)) is not None:
            yield between, between
        yield anchor, message
        previous = message
    if isinstance(previous, AssistantMessage):
        yield GO_ON, GO_ON


def _with_images(messages: Sequence[Message], *, sees_images: bool) -> Iterator[tuple[Message, Message]]:
    """Results stand together, so their images come after the last of them."""
    waiting: list[TextPart | ImagePart] = []
    for number, message in enumerate(messages):
        yield message, message
        if not sees_images or not isinstance(message, ToolMessage):
            continue
        images = [part for part in message.parts if isinstance(part, ImagePart)]
        if images:
            waiting += [TextPart(text=f"From the result of {message.name}:"), *images]
        following = messages[number + 1] if number + 1 < len(messages) else None
        if waiting and not isinstance(following, ToolMessage):
            yield message, UserMessage(parts=tuple(waiting))
            waiting = []


def _between(previous: Message | None, message: Message) -> Message | None:
    match previous, message:
        case (UserMessage() | ToolMessage(), UserMessage()):
            return NO_ANSWER
        case (AssistantMessage(), AssistantMessage()):
            return GO_ON
        case _:
            return None
