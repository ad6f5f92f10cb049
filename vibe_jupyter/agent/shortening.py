"""Replace old tool results and images with one-line stubs when the context window fills up.

The history is rewritten once, then it is append-only again: a rewrite invalidates the server's prompt cache from the
first edited message on (see `WORTH`).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.agent.context_size import count_message
from vibe_jupyter.files.truncation import brief_text, cut_line
from vibe_jupyter.protocol import HistoryEdit, ImagePart, Message, TextPart, ToolMessage, UserMessage, is_prompt

WORTH: Final = 0.05  # share of the context window that a rewrite must free to pay for the lost prompt cache
PICTURE_PROMPTS: Final = 2  # images of the latest prompts are preserved
RESULT_PROMPTS: Final = 3  # results of the latest prompts are preserved
SHORT_RESULT: Final = 1_000  # characters; shorter results are left unchanged
_LABEL: Final = 120  # characters of an image's stub


class Shortening(NamedTuple):
    """A planned rewrite of the history."""

    edits: tuple[HistoryEdit, ...] = ()
    results: int = 0
    pictures: int = 0
    freed: int = 0  # estimated tokens


def plan_shortening(history: Sequence[Message], folder: Path | None, *, pending: int, sees_images: bool) -> Shortening:
    """Plan which messages to replace with stubs.

    Args:
        history: all messages.
        folder: directory with full results, or None if they aren't stored.
        pending: number of prompts that follow these messages but aren't among them yet.
        sees_images: whether the model receives images.
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
            short = without_pictures(message)  # before shortening the text, which describes the images
            pictures += sum(isinstance(part, ImagePart) for part in message.parts)
        if place < results_before and isinstance(short, ToolMessage):
            brief = _without_text(short, folder)
            results += brief is not short
            short = brief
        if short is not message:
            edits.append(HistoryEdit(at=place, length=1, by=(short,)))
            freed += _size(message) - _size(short)
    return Shortening(tuple(edits), results, pictures, freed)


def without_pictures(message: UserMessage | ToolMessage) -> UserMessage | ToolMessage:
    """Replace each image with a one-line label. Returns the same object if there are none."""
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
    """Return the description of an image from the text next to it."""
    found = re.search(rf"(?:(?P<chart>[^\n]*)\n)?\[image/[^\]\n]*; image {number}\b(?P<cell>[^\]\n]*)\]", text)
    said = ", ".join(filter(None, map(str.strip, found.groups(default="")))) if found is not None else ""
    return cut_line(said, _LABEL) or (
        f"result of {message.name}" if isinstance(message, ToolMessage) else "of a prompt"
    )


def _without_text(message: ToolMessage, folder: Path | None) -> ToolMessage:
    """Replace each long text with its first line and a reference to the rest."""
    again = f"{message.name} gets it again"
    parts = tuple(
        TextPart(text=brief_text(part.text, folder, again=again))
        if isinstance(part, TextPart) and len(part.text) > SHORT_RESULT
        else part
        for part in message.parts
    )
    return message if parts == message.parts else message.model_copy(update={"parts": parts})


def _place_of_prompt(history: Sequence[Message], latest: int) -> int:
    """Return the index of the `latest`-to-last prompt, or 0 if there are fewer."""
    if latest <= 0:
        return len(history)
    places = [place for place, message in enumerate(history) if is_prompt(message)]
    return places[-latest] if len(places) >= latest else 0


def _size(message: Message) -> int:
    return sum(count_message(message).values())
