"""JSON as the standard has it, and text that can always be encoded as UTF-8.

JSON may hold half a surrogate pair, and a server that cuts its text by UTF-16 units sends the two halves of one
character in two pieces.
"""

import json
from typing import NoReturn

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern

_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def parse_json(text: str) -> JsonValue:
    """One JSON value.

    Raises:
        ValueError: with the reason in one line.
    """
    try:
        if text.startswith(("{", "[")):
            # Without the search for blanks on both sides: it would cost a third of all for a small chunk.
            value, end = _DECODER.raw_decode(text)
            if end == len(text):
                return value
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def parse_json_object(text: str) -> dict[str, JsonValue]:
    """The arguments of a call; blank text and ``null`` count as an empty object (security 3, Calls).

    Raises:
        ValueError: the text is not one JSON object; with the reason in one line.
    """
    if not text.strip():
        return {}
    value = parse_json(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {_json_kind(value)}")
    return value


def _json_kind(value: JsonValue) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "a list"


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def repair_surrogates(text: str) -> str:
    """Join the pairs and replace what stays single."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PairJoiner:
    """Repairs text that comes in pieces, holding back a first half until its second may come."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What of the text so far can be shown."""
        if not self._held and text.isascii():
            return text
        text = self._held + text
        self._held = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return repair_surrogates(text[:-1] if self._held else text)

    def end(self) -> str:
        """What is left at the end of the text."""
        held, self._held = self._held, ""
        return _REPLACEMENT if held else ""
