"""JSON as the standard has it: no NaN, no Infinity, and no crash on what is nested too deep."""

import json
from typing import NoReturn

from pydantic import JsonValue


def parse(text: str) -> JsonValue:
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


def parse_object(text: str) -> dict[str, JsonValue]:
    """The arguments of a call; blank text and ``null`` count as an empty object (security 3, Calls).

    Raises:
        ValueError: the text is not one JSON object; with the reason in one line.
    """
    if not text.strip():
        return {}
    value = parse(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {_kind(value)}")
    return value


def _kind(value: JsonValue) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "a list"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
