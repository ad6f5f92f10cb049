"""`%vibe sent`: show the latest model request verbatim, and the size of its parts."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from vibe_jupyter.agent.context_size import CHARACTERS_PER_TOKEN
from vibe_jupyter.llm.client import SentRequest

# Parts of a request; each of its bytes belongs to exactly one.
PARTS: Final = ("system", "tools", "report", "messages", "images", "settings")
WHOLE: Final = "all"
_REPORT: Final = re.compile(r"<notebook>.*?</notebook>", re.DOTALL)
_IMAGE: Final = re.compile(r'"data:image/[^"]*"|(?<="images":)\s*\[[^\]]*\]')
_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*")


class RequestPart(NamedTuple):
    """A part of a request."""

    text: str  # verbatim text; pieces that aren't adjacent in the request are on separate lines
    size: int  # bytes of the request that belong to it
    pieces: int  # number of pieces


def sent_command(sent: SentRequest | None, part: str = "") -> str | None:
    """Return the text to print, or None for an unknown part.

    Args:
        sent: The latest request, or None if there was none.
        part: One of `PARTS` or `WHOLE`, or "" for the sizes of all parts.
    """
    if part and part not in (*PARTS, WHOLE):
        return None
    if sent is None:
        return "Nothing was sent to a model in this conversation."
    text = sent.body.decode("utf-8", "replace")
    if part == WHOLE:
        return text
    parts = split_request(text)
    if part:
        return parts[part].text or f"The request has no {part}."
    lines = [f"To {sent.model} at {sent.host}: {len(sent.body):,} bytes, about {token_count(text):,} tokens."]
    for name, one in parts.items():
        number = f"  ({one.pieces})" if name in ("messages", "images") else ""
        lines.append(f"  {name:<10}{one.size:>11,} bytes {token_count(one.text):>9,} tokens{number}")
    lines.append("A token is taken for four characters; images cost what the server says.")
    lines.append(
        f"%vibe sent PART shows one as it was sent ({', '.join(PARTS)}), %vibe sent {WHOLE} the whole request."
    )
    return "\n".join(lines)


def split_request(text: str) -> Mapping[str, RequestPart]:
    """Split a request into its parts, keyed in the order of `PARTS`.

    Args:
        text: JSON of the whole request.
    """
    fields = dict(_members(text, 0))
    pieces: dict[str, list[str]] = {name: [] for name in PARTS}
    if "tools" in fields:
        pieces["tools"].append(fields["tools"])
    for message in _items(fields.get("messages", "[]")):
        if json.loads(message).get("role") in ("system", "developer"):
            pieces["system"].append(message)
            continue
        for name, form in (("images", _IMAGE), ("report", _REPORT)):
            pieces[name] += form.findall(message)
            message = form.sub("", message)
        pieces["messages"].append(message)
    pieces["settings"] = [f'"{name}": {value}' for name, value in fields.items() if name not in ("tools", "messages")]
    parts = {
        name: RequestPart("\n".join(texts), sum(len(one.encode()) for one in texts), len(texts))
        for name, texts in pieces.items()
    }
    rest = len(text.encode()) - sum(one.size for one in parts.values())
    parts["settings"] = parts["settings"]._replace(size=parts["settings"].size + rest)
    return parts


def token_count(text: str) -> int:
    """Estimate the tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _members(text: str, at: int) -> Iterator[tuple[str, str]]:
    """Yield the names and unparsed values of a JSON object."""
    at = _after_blank(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        begin = _after_blank(text, _after_blank(text, at) + 1)
        _, at = _DECODER.raw_decode(text, begin)
        yield str(name), text[begin:at]
        at = _after_blank(text, at)
        at = _after_blank(text, at + 1) if text[at] == "," else at


def _items(text: str) -> Iterator[str]:
    """Yield the unparsed items of a JSON array."""
    at = _after_blank(text, 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _after_blank(text, end)
        at = _after_blank(text, at + 1) if text[at] == "," else at


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
