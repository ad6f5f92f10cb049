"""Parse the body of a tool call written as text.

Bodies come as JSON, one tag or a pair of tags per argument, a Python call, or Gemma's own notation.
"""

import ast
import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.call_repairs import LENIENT, Object, read_arguments
from vibe_jupyter.llm.reply_formats import Body, CallFormat

_NAMES: Final = ("name", "tool", "tool_name", "function_name", "function", "recipient_name")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "params", "kwargs", "tool_input")
_EXPLAINING: Final = ("explanation", "reason", "reasoning", "thought", "thoughts")
_OF_CALL: Final = ("call_id", "id", "index", "tool_call_id", "type")
# Keys of a JSON entry that is nothing but a call.
_BESIDE: Final = frozenset({*_NAMES, *_ARGUMENTS, *_EXPLAINING, *_OF_CALL})

_PREFIX: Final = r"(?:antml:|[｜|]{1,2}DSML[｜|]{1,2}|minimax:|steptml:)?"
_PARAMETER: Final = lazy_pattern(rf'\s*<{_PREFIX}parameter(?:\s+name)?\s*=\s*"?(?P<key>[\w.-]+)"?[^>\n]*>')
_PARAMETER_END: Final = lazy_pattern(rf"</{_PREFIX}parameter>(?=\s*(?:</?{_PREFIX}(?:parameter|invoke|function)\b|\Z))")
_CALL_BEGIN: Final = lazy_pattern(rf"<{_PREFIX}(?:function|invoke)\b")
_PAIR: Final = lazy_pattern(
    r"\s*<(?P<mark>(?:\w+_)?arg)_key>\s*(?P<key>.*?)\s*</(?P=mark)_key>\s*<(?P=mark)_value>(?P<value>.*?)</(?P=mark)_value>",
    re.DOTALL,
)
_PAIR_BEGUN: Final = lazy_pattern(r"\s*<(?:\w+_)?arg_")
_ELEMENT: Final = lazy_pattern(r"\s*<(?P<key>[A-Za-z_]\w*)>(?P<value>.*?)</(?P=key)>", re.DOTALL)
_SURPLUS: Final = lazy_pattern(r"\s*[}\]]+")
_BARE_KEY: Final = lazy_pattern(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
_GEMMA_QUOTE: Final = '<|"|>'
_GEMMA_PIECE: Final = lazy_pattern(r'<\|"\|>.*?<\|"\|>|"(?:[^"\\]|\\.)*"|(?:(?!<\|"\|>)[^"])+', re.DOTALL)


class WrittenCall(NamedTuple):
    """A tool call parsed from text."""

    name: str
    arguments: Object

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)


class UnfinishedCallText(Exception):
    """Raised when the text ends inside a call."""


class UnreadableCallText(Exception):
    """Raised when a call is closed but malformed, or followed by other text."""

    def __init__(self, end: int, calls: tuple[WrittenCall, ...] = ()) -> None:
        super().__init__(end)
        self.end = end
        self.calls = calls


class CallBody:
    """Parser of one call body, which may hold several calls in a list."""

    def __init__(self, text: str, form: CallFormat, name: str) -> None:
        self._text = text
        self._form = form
        self._name = name
        self._closing = form.closing(name) if form.close else None

    def read(self, start: int) -> tuple[list[WrittenCall], int]:
        """Parse the calls and return them with the position after the closing mark.

        Raises:
            UnfinishedCallText: The text ends before the call does.
            UnreadableCallText: The call is malformed.
        """
        readers: dict[Body, Callable[[int], tuple[list[WrittenCall], int]]] = {
            "json": self._json,
            "arguments": self._arguments,
            "tags": self._tags,
            "pairs": self._pairs,
            "elements": self._elements,
            "python": self._python,
            "gemma": self._gemma,
        }
        calls, end = readers[self._form.body](start)
        if self._closing is not None and (closed := self._closing.match(self._text, end)):
            return calls, closed.end()
        if self._form.closed:
            raise self._broken(end)
        return calls, end

    def _broken(self, place: int) -> Exception:
        closed = self._closing.search(self._text, place) if self._closing is not None else None
        return UnfinishedCallText() if closed is None else UnreadableCallText(closed.end())

    def _value(self, start: int) -> tuple[JsonValue, int]:
        """Parse a JSON value leniently, adding one closing brace if the closing mark shows that it is missing."""
        try:
            value, end = LENIENT.raw_decode(self._text, start)
        except (ValueError, RecursionError):
            closed = self._closing.search(self._text, start) if self._closing is not None else None
            end = len(self._text) if closed is None else closed.start()
            for missing in ("", "}") if closed is not None else ("",):
                try:
                    return read_arguments(self._text[start:end] + missing).value, end
                except ValueError:
                    continue
            raise self._broken(start) from None
        surplus = _SURPLUS.match(self._text, end)
        if surplus is not None and self._is_end(surplus.end()):
            end = surplus.end()
        return value, end

    def _is_end(self, place: int) -> bool:
        closes = self._closing is not None and self._closing.match(self._text, place) is not None
        return closes or not self._text[place:].strip()

    def _json(self, start: int) -> tuple[list[WrittenCall], int]:
        value, end = self._value(start)
        calls = _calls_in(value)
        # a full record of a call (with an id, a status) isn't a request to run it, and no mark announces one here
        if calls is None or (self._form.whole and not _is_bare(value)):
            raise UnreadableCallText(end)
        return calls, end

    def _arguments(self, start: int) -> tuple[list[WrittenCall], int]:
        value, end = self._value(start)
        if not isinstance(value, dict):
            raise UnreadableCallText(end)
        return [WrittenCall(self._name, value)], end

    def _tags(self, start: int) -> tuple[list[WrittenCall], int]:
        given: Object = {}
        place = start
        while begun := _PARAMETER.match(self._text, place):
            ended = _PARAMETER_END.search(self._text, begun.end())
            closed = self._closing.search(self._text, begun.end()) if self._closing is not None else None
            if ended is None and closed is None:
                raise UnfinishedCallText
            # some models omit the last closing tag
            is_closed = ended is not None and (closed is None or not self._begins_call(closed.end(), ended.start()))
            stop, place = (ended.start(), ended.end()) if ended and is_closed else (closed.start(), closed.start())  # type: ignore[union-attr]
            given[begun["key"]] = _bare(self._text[begun.end() : stop])
        return [WrittenCall(self._name, given)], place

    def _begins_call(self, start: int, end: int) -> bool:
        """Return whether another call begins here, so that a closing mark before it is none in a parameter's text."""
        return _CALL_BEGIN.search(self._text, start, end) is not None

    def _pairs(self, start: int) -> tuple[list[WrittenCall], int]:
        given: Object = {}
        place = start
        while found := _PAIR.match(self._text, place):
            given[found["key"]] = _bare(found["value"])
            place = found.end()
        if _PAIR_BEGUN.match(self._text, place):
            raise self._broken(place)
        return [WrittenCall(self._name, given)], place

    def _elements(self, start: int) -> tuple[list[WrittenCall], int]:
        given: Object = {}
        place = start
        while found := _ELEMENT.match(self._text, place):
            given[found["key"]] = _bare(found["value"])
            place = found.end()
        return [WrittenCall(self._name, given)], place

    def _python(self, start: int) -> tuple[list[WrittenCall], int]:
        closed = self._closing.search(self._text, start) if self._closing is not None else None
        if closed is None and self._form.closed:
            raise UnfinishedCallText
        end = len(self._text) if closed is None else closed.start()
        try:
            tree = ast.parse(self._text[start:end].strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise UnreadableCallText(end) from None
        calls = [_python_call(one) for one in (tree.elts if isinstance(tree, ast.List) else [tree])]
        if not calls or not all(calls):
            raise UnreadableCallText(end)
        return [call for call in calls if call is not None], end

    def _gemma(self, start: int) -> tuple[list[WrittenCall], int]:
        closed = self._closing.search(self._text, start) if self._closing is not None else None
        if closed is None:
            raise UnfinishedCallText
        spelled = "".join(map(_gemma_piece, _GEMMA_PIECE.findall(self._text[start : closed.start()])))
        try:
            return [WrittenCall(self._name, read_arguments(spelled).value)], closed.start()
        except ValueError:
            raise UnreadableCallText(closed.end()) from None


def _gemma_piece(piece: str) -> str:
    if piece.startswith(_GEMMA_QUOTE):
        return json.dumps(piece.removeprefix(_GEMMA_QUOTE).removesuffix(_GEMMA_QUOTE))
    return piece if piece.startswith('"') else _BARE_KEY.sub(r'\1"\2":', piece)


def _bare(value: str) -> str:
    """Remove the line breaks that chat templates put around a value."""
    return value.removeprefix("\n").removesuffix("\n")


def _calls_in(value: JsonValue) -> list[WrittenCall] | None:
    """Return the calls if the JSON holds nothing else, or None."""
    if isinstance(value, dict) and isinstance(inner := value.get("tool_calls"), list):
        value = inner
    entries = value if isinstance(value, list) else [value]
    calls = [_json_call(one) for one in entries]
    return [one for one in calls if one is not None] if calls and all(calls) else None


def _is_bare(value: JsonValue) -> bool:
    entries = value if isinstance(value, list) else [value]
    return all(not isinstance(entry, dict) or "tool_calls" in entry or entry.keys() <= _BESIDE for entry in entries)


def _json_call(entry: JsonValue) -> WrittenCall | None:
    if not isinstance(entry, dict):
        return None
    if isinstance(inner := entry.get("function"), dict):
        entry = inner
    name = next((entry[key] for key in _NAMES if isinstance(entry.get(key), str)), None)
    given = next((entry[key] for key in _ARGUMENTS if key in entry), None)
    if isinstance(given, str):
        try:
            given = read_arguments(given).value
        except ValueError:
            return None
    if not isinstance(name, str) or not isinstance(given, dict):
        return None
    return WrittenCall(name, given)


def _python_call(node: ast.expr) -> WrittenCall | None:
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func)
    if name == "print" and len(node.args) == 1 and not node.keywords:
        return _python_call(node.args[0])
    if node.args or any(one.arg is None for one in node.keywords):
        return None
    given: Object = {}
    for one in node.keywords:
        try:
            given[str(one.arg)] = cast("JsonValue", ast.literal_eval(one.value))
        except ValueError:
            return None
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return WrittenCall(name.removesuffix(".call"), given)
