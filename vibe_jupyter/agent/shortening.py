"""Old results and pictures are sent in a line each once the context is filling: one rewrite, then append-only again."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.agent.context_size import count_message
from vibe_jupyter.agent.middleware import NOTE
from vibe_jupyter.files.truncation import brief_text, cut_line
from vibe_jupyter.protocol import HistoryEdit, ImagePart, Message, TextPart, ToolMessage, UserMessage

WORTH: Final = 0.05
"""Share of the window that a rewrite must free: the server's cache of what follows is lost by it."""
PICTURE_PROMPTS: Final = 2
"""Latest prompts whose pictures stay."""
RESULT_PROMPTS: Final = 3
"""Latest prompts whose results stay."""
SHORT_RESULT: Final = 1_000
"""Characters of a result that stays whole."""
_LABEL: Final = 120
"""Characters of what stands for a picture."""
SUMMARY_TAG: Final = "conversation_summary"


class Shortening(NamedTuple):
    """What a rewrite would do."""

    edits: tuple[HistoryEdit, ...] = ()
    results: int = 0
    pictures: int = 0
    freed: int = 0
    """Tokens, about."""


def plan_shortening(history: Sequence[Message], folder: Path | None, *, pending: int, sees_images: bool) -> Shortening:
    """What would be sent in a line each.

    Args:
        history: all messages.
        folder: where whole results are kept; None where they are not.
        pending: prompts that come after these messages and are not among them yet.
        sees_images: whether pictures are sent at all.
    """
    pictures_before = _place_of_prompt(history, PICTURE_PROMPTS - pending)
    results_before = _place_of_prompt(history, RESULT_PROMPTS - pending)
    edits: list[HistoryEdit] = []
    results = pictures = freed = 0
    for place, message in enumerate(history[: max(pictures_before, results_before)]):
        if not isinstance(message, UserMessage | ToolMessage):
            continue
        short: UserMessage | ToolMessage = message
        if place < pictures_before and sees_images:
            short = without_pictures(message)  # before the text that says what they show is shortened
            pictures += sum(isinstance(part, ImagePart) for part in message.parts)
        if place < results_before and isinstance(short, ToolMessage):
            brief = _without_text(short, folder)
            results += brief is not short
            short = brief
        if short is not message:
            edits.append(HistoryEdit(at=place, length=1, by=(short,)))
            freed += _size(message) - _size(short)
    return Shortening(tuple(edits), results, pictures, freed)


def is_prompt(message: Message) -> bool:
    """Whether the user wrote it, and not a middleware or a compaction."""
    return isinstance(message, UserMessage) and not prompt_text(message).startswith((f"<{NOTE}>", f"<{SUMMARY_TAG}>"))


def prompt_text(message: UserMessage) -> str:
    """The user's own words: what goes with them stands before them."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    return texts[-1] if texts else ""


def without_pictures(message: UserMessage | ToolMessage) -> UserMessage | ToolMessage:
    """The message with a line in the place of each picture; itself where it has none."""
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return message
    text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
    number = 0
    parts: list[TextPart | ImagePart] = []
    for part in message.parts:
        if isinstance(part, ImagePart):
            number += 1
            parts.append(TextPart(text=f"[image: {_label(text, number, message)}]"))
        else:
            parts.append(part)
    return message.model_copy(update={"parts": tuple(parts)})


def _label(text: str, number: int, message: UserMessage | ToolMessage) -> str:
    """What the text beside a picture says of it."""
    found = re.search(rf"(?:(?P<chart>[^\n]*)\n)?\[image/[^\]\n]*; image {number}\b(?P<cell>[^\]\n]*)\]", text)
    said = ", ".join(filter(None, map(str.strip, found.groups(default="")))) if found is not None else ""
    return cut_line(said, _LABEL) or (
        f"result of {message.name}" if isinstance(message, ToolMessage) else "of a prompt"
    )


def _without_text(message: ToolMessage, folder: Path | None) -> ToolMessage:
    """The result with the first line of each long text, and where the rest is."""
    again = f"{message.name} gets it again"
    parts = tuple(
        TextPart(text=brief_text(part.text, folder, again=again))
        if isinstance(part, TextPart) and len(part.text) > SHORT_RESULT
        else part
        for part in message.parts
    )
    return message if parts == message.parts else message.model_copy(update={"parts": parts})


def _place_of_prompt(history: Sequence[Message], latest: int) -> int:
    """Where the prompt stands that is the last but `latest` - 1; 0 where there are not as many."""
    if latest <= 0:
        return len(history)
    places = [place for place, message in enumerate(history) if is_prompt(message)]
    return places[-latest] if len(places) >= latest else 0


def _size(message: Message) -> int:
    return sum(count_message(message).values())
