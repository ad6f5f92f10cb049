"""Repair tool names and arguments that have exactly one reading.

Names may carry residue of special tokens, and arguments may be almost JSON. Ambiguous arguments are refused with the
position of the first error.
"""

import ast
import json
import re
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, NoReturn, cast

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.json_text import parse_json, parse_json_object
from vibe_jupyter.llm.reply_formats import reply_formats

Object = dict[str, JsonValue]

LAYERS: Final = 6  # layers of residue removed from a name
PYTHON_SIZE: Final = 1_000_000  # characters; longer arguments aren't parsed as a Python literal

_FENCE: Final = lazy_pattern(r"\A```(?:json)?\s*\n(.*)\n\s*```\Z", re.DOTALL)
# Harmony markup before the arguments
_LEAD: Final = lazy_pattern(r"\A(?:<\|[^|<>]{1,40}\|>|(?:to=functions\.\w+|json|commentary)\b|\s)+(?=\{)")
_NAMESPACE: Final = lazy_pattern(r"\A[A-Za-z]\w*(?:\.|::)(\w+)\Z")
_NUMBERED: Final = lazy_pattern(r"\A(\w*[^\W\d])_\d{1,2}\Z")  # the index of the call, behind the name
_KEY: Final = lazy_pattern(r"\A(\s*(?:\{\s*)?)([A-Za-z_]\w*)(?=\s*:)|(?<=\{)(\s*)([A-Za-z_]\w*)(?=\s*:)")
_JOINS: Final = lazy_pattern(r"[\W_]+")
_CLOSERS: Final = lazy_pattern(r"[}\]\s]*\Z")
_PIECE: Final = lazy_pattern(r'"(?:[^"\\]|\\.)*"|\\[ntr]|(?P<trailing>,(?=\s*[}\]]))|[^"\\,]+|.', re.DOTALL)
# A backslash escape with another meaning in JSON, or none.
_UNLIKE_JSON: Final = lazy_pattern(r"(?<!\\)(?:\\\\)*\\[^\\'\"nrt]")
# Names of arguments under which a server repeats the call's arguments.
_WRAPPERS: Final = ("arguments", "parameters", "args", "input", "params")
_AROUND: Final = frozenset({*_WRAPPERS, "name", "tool", "function", "type"})
_TAGGED: Final = lazy_pattern(r"<parameter=([\w.-]+)>(.*?)</parameter>", re.DOTALL)
_SPELLED: Final = lazy_pattern(r"\b(True|False|None)\b")
_TYPOGRAPHIC: Final = lazy_pattern("[“”]")
_JSON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


class ReadArguments(NamedTuple):
    """Parsed arguments of a call."""

    value: Object
    repair: str = ""  # what was repaired, or '' if the text was valid JSON

    @property
    def text(self) -> str:
        """The arguments as JSON text."""
        return json.dumps(self.value, ensure_ascii=False)


def read_arguments(text: str) -> ReadArguments:
    """Parse the arguments of a call, repairing them where only one reading is possible.

    Raises:
        ValueError: The text isn't a JSON object and can't be repaired. The message gives the position of the first
            error.
    """
    try:
        return ReadArguments(parse_json_object(text))
    except ValueError as error:
        problem = error
    bare = _bare_text(text)
    attempts: tuple[tuple[str, Callable[[str], JsonValue]], ...] = (
        ("text around the object", parse_json),
        ("control characters in a text", LENIENT.decode),
        ("JSON inside a text", lambda said: LENIENT.decode(_as_text(said))),
        ("more than one object", _one_of_several),
        ("almost JSON", lambda said: LENIENT.decode(_normalized(said))),
        ("typographic quotes", _straight_quotes),
        ("a Python literal", _python_literal),
        ("tags", _tagged),
        ("a list of one object", _only_one),
    )
    for repair, attempt in attempts:
        try:
            value = attempt(bare)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return ReadArguments(value, repair)
    raise problem


def meant_name(name: str, offered: Collection[str]) -> str | None:
    """Return the offered tool that a name refers to, or None if that is ambiguous."""
    if name in offered or not offered:
        return name if offered else None
    bare = name.strip()
    for layer in range(LAYERS):
        bare = _stripped(bare) if layer else bare
        if (found := _same(bare, offered)) is not None:
            return found
    if (spaced := _NAMESPACE.match(bare)) is not None and spaced[1] in offered:
        return spaced[1]  # gpt-oss puts tools into namespaces that it knows from its training
    if (numbered := _NUMBERED.match(bare)) is not None and numbered[1] in offered:
        others = (_NUMBERED.match(one) for one in offered)
        return None if any(one is not None and one[1] == numbered[1] for one in others) else numbered[1]
    half = bare[: len(bare) // 2]
    return _same(half, offered) if half and half * 2 == bare else None


def without_residue(name: str) -> str:
    """Strip the special tokens, prefixes and brackets that servers leave around a name."""
    for _ in range(LAYERS):
        name = _stripped(name)
    return name


def _same(name: str, offered: Collection[str]) -> str | None:
    """Match a name ignoring case, then also ignoring separators (`runCode`, `run-code`)."""
    if name in offered:
        return name
    for form in (str.casefold, _letters):
        wanted = form(name)
        same = [one for one in offered if wanted and form(one) == wanted]
        if len(same) == 1:
            return same[0]
    return None


def _letters(name: str) -> str:
    return _JOINS.sub("", name).casefold()


def _stripped(name: str) -> str:
    formats = reply_formats()
    for pattern in formats.names_begin:
        name = re.sub(rf"\A(?:{pattern})", "", name.strip())
    for pattern in formats.names_end:
        name = re.sub(rf"(?:{pattern})\Z", "", name.strip(), flags=re.DOTALL)
    return name.strip()


def _bare_text(text: str) -> str:
    text = text.strip().removeprefix("\ufeff")
    ends = (*reply_formats().ends, *(one for one in reply_formats().around if one.startswith("</")))
    while (end := next((one for one in ends if text.endswith(one)), None)) is not None:
        text = text.removesuffix(end).rstrip()
    fenced = _FENCE.match(text)
    return _LEAD.sub("", fenced[1].strip() if fenced else text)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Accepts raw control characters inside strings, where their meaning is unambiguous.
LENIENT: Final = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _as_text(text: str) -> str:
    value = text
    for _ in range(LAYERS):
        value = LENIENT.decode(value)
        if not isinstance(value, str):
            break
        text = value
    else:
        raise ValueError("no object")
    return text


def _one_of_several(text: str) -> JsonValue:
    """Parse an object that is repeated, follows an empty one, or precedes surplus brackets."""
    found: list[JsonValue] = []
    place = 0
    while place < len(text) and not _CLOSERS.match(text, place):
        value, place = LENIENT.raw_decode(text, place)
        place += len(text[place:]) - len(text[place:].lstrip())
        if value not in ({}, *found):
            found.append(value)
    if len(found) != 1:
        raise ValueError("several objects")
    return found[0]


def _normalized(text: str) -> str:
    """Turn near-JSON into JSON.

    Removes trailing commas, line breaks escaped outside of strings and escaped apostrophes, and spells Python's
    constants as JSON does.
    """
    pieces: list[str] = []
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece.startswith('"'):
            piece = re.sub(r"\\(.)", lambda one: "'" if one[1] == "'" else one[0], piece, flags=re.DOTALL)
        elif piece.startswith("\\"):
            piece = " "
        elif found["trailing"]:
            piece = ""
        else:
            piece = _SPELLED.sub(lambda one: _JSON_WORDS[one[0]], piece).replace("\u00a0", " ")
            piece = _KEY.sub(lambda one: f'{one[1] or one[3] or ""}"{one[2] or one[4]}"', piece)
        pieces.append(piece)
    return "".join(pieces)


def _straight_quotes(text: str) -> JsonValue:
    """Parse an object whose only double quotes are typographic."""
    if '"' in text:
        raise ValueError("both kinds of quotes")
    return LENIENT.decode(_TYPOGRAPHIC.sub('"', text))


def _python_literal(text: str) -> JsonValue:
    if not text.startswith("{") or len(text) > PYTHON_SIZE or _UNLIKE_JSON.search(text):
        raise ValueError("no Python dict")
    value = ast.literal_eval(text)
    json.dumps(value, allow_nan=False)
    return cast("JsonValue", value) if _is_json(value) else None


def _tagged(text: str) -> JsonValue:
    """Parse one tag per argument, as Qwen 3 Coder writes them."""
    found = _TAGGED.findall(text)
    if not found or _TAGGED.sub("", text).strip():
        raise ValueError("other text than tags")
    return {key: value.removeprefix("\n").removesuffix("\n") for key, value in found}


def _only_one(text: str) -> JsonValue:
    value = cast("JsonValue", LENIENT.decode(text))
    return value[0] if isinstance(value, list) and len(value) == 1 else None


def unwrapped(given: Object, properties: Collection[str]) -> Object:
    """Return the arguments of a call that stand in its arguments once more, as a call or below their own name."""
    inner = next((given[name] for name in _WRAPPERS if name in given), None)
    if isinstance(inner, str):
        try:
            inner = parse_json_object(inner)
        except ValueError:
            return given
    is_wrapped = isinstance(inner, dict) and not given.keys() & properties and given.keys() <= _AROUND
    return inner if is_wrapped and isinstance(inner, dict) and inner.keys() <= set(properties) else given


def _is_json(value: object) -> bool:
    """Return whether a value survives JSON unchanged, which tuples, bytes and non-string keys don't."""
    match value:
        case dict():
            items = cast("dict[object, object]", value)
            return all(isinstance(key, str) and _is_json(item) for key, item in items.items())
        case list():
            return all(map(_is_json, cast("list[object]", value)))
        case None | bool() | int() | float() | str():
            return True
        case _:
            return False
