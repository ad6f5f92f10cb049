"""Pieces of a request that all dialects write alike."""

import json
import re
from collections.abc import Sequence

from pydantic import JsonValue

from vibe_jupyter.llm import strict_json
from vibe_jupyter.llm.schemas import sanitised
from vibe_jupyter.llm.surrogates import repair
from vibe_jupyter.protocol import ImagePart, TextPart, ToolSpec

_NO_NAME_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 64
"""Characters of a tool's name."""

Parts = tuple[TextPart | ImagePart, ...]


def dump(value: JsonValue) -> bytes:
    """JSON without blanks, in UTF-8."""
    return repair(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def tool_list(tools: Sequence[ToolSpec], *, inline: bool = False) -> bytes:
    """A JSON list, or nothing for no tools: some servers refuse an empty list. `inline`: see `sanitised`."""
    if not tools:
        return b""
    functions: list[JsonValue] = [
        {"name": t.name, "description": t.description, "parameters": sanitised(t.parameters, inline=inline)}
        for t in tools
    ]
    return dump([{"type": "function", "function": function} for function in functions])


def wire_name(name: str) -> str:
    """A name the model made up may be one no server takes back, and would fail every later request."""
    return _NO_NAME_CHARACTER.sub("_", name)[:_MAX_NAME] or "unnamed"


def arguments_of(text: str) -> dict[str, JsonValue]:
    """The arguments of a call in the history. Broken ones make servers fail every later request, so none are sent
    in their place; the tool's message says what was wrong with them."""
    try:
        arguments = strict_json.parse_object(text)
        # A half character in a string is no text either; the error of encoding it is a ValueError.
        json.dumps(arguments, ensure_ascii=False).encode()
    except ValueError:
        return {}
    return arguments


def arguments_text(text: str) -> str:
    """The same as JSON text: what the model wrote where it is sound, so that a server's cache knows it again."""
    return text if arguments_of(text) else "{}"


def joined(parts: Parts) -> str:
    """The text of some parts."""
    return "\n\n".join(part.text for part in parts if isinstance(part, TextPart))


def images_of(parts: Parts) -> list[ImagePart]:
    """The images among some parts."""
    return [part for part in parts if isinstance(part, ImagePart)]


def said(parts: Parts, *, sees_images: bool) -> str:
    """The text, and a word on images that are not sent."""
    images = 0 if sees_images else len(images_of(parts))
    notes = [f"({images} image{'s' if images > 1 else ''} not shown here)"] if images else []
    return "\n\n".join(filter(None, [joined(parts), *notes]))


def result_text(parts: Parts, *, sees_images: bool) -> str:
    """The text of a result. An empty one is said, since some servers refuse an empty content; images that are sent
    follow in a message of their own (`vibe_jupyter.llm.sequence`)."""
    images = images_of(parts)
    follows = f"(its image{'s follow' if len(images) > 1 else ' follows'} below)" if images and sees_images else ""
    return "\n\n".join(filter(None, [said(parts, sees_images=sees_images), follows])) or "(no output)"


def content_of(parts: Parts, *, sees_images: bool) -> JsonValue:
    """What a person says, as Chat Completions put it: text, or a list where there are images to see."""
    if not sees_images or not images_of(parts):
        return said(parts, sees_images=sees_images)
    return [_part(part) for part in parts]


def _part(part: TextPart | ImagePart) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
