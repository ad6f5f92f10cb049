"""`%vibe sent`: the latest request to the model server, byte by byte, and what its parts cost."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from vibe_jupyter.agent.context_size import CHARACTERS_PER_TOKEN
from vibe_jupyter.llm.client import SentRequest

PARTS: Final = ("system", "tools", "report", "messages", "images", "settings")
"""What a request is made of; every byte of it belongs to one of these."""
WHOLE: Final = "all"
_REPORT: Final = re.compile(r"<notebook>.*?</notebook>", re.DOTALL)
_IMAGE: Final = re.compile(r'"data:image/[^"]*"|(?<="images":)\s*\[[^\]]*\]')
_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*")


class RequestPart(NamedTuple):
    """One part of a request."""

    text: str
    """As it was sent; pieces that are apart in the request stand one to a line."""
    size: int
    """Bytes of the request that belong to it."""
    pieces: int
    """How many."""


def sent_command(sent: SentRequest | None, part: str = "") -> str | None:
    """What to print; None where there is no such part.

    Args:
        sent: the latest request; None where nothing was sent yet.
        part: one of `PARTS`, or `WHOLE`; empty for what each costs.
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
    """The parts of a request by their names, in the order of `PARTS`.

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
    """Tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _members(text: str, at: int) -> Iterator[tuple[str, str]]:
    """Names and values of a JSON object, the values as they are written."""
    at = _after_blank(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        begin = _after_blank(text, _after_blank(text, at) + 1)
        _, at = _DECODER.raw_decode(text, begin)
        yield str(name), text[begin:at]
        at = _after_blank(text, at)
        at = _after_blank(text, at + 1) if text[at] == "," else at


def _items(text: str) -> Iterator[str]:
    """The items of a JSON list, as they are written."""
    at = _after_blank(text, 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _after_blank(text, end)
        at = _after_blank(text, at + 1) if text[at] == "," else at


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
