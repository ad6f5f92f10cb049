"""Recognize calls that a model wrote as text because its server lacks the right parser.

Text counts as a call only if it *ends* in complete calls of offered tools. Formats are data (`reply_formats.toml`).
Text about calls remains text: in code, in quotations, within a sentence, with placeholders, or if it repeats something
from the user, a file or a tool.
"""

import ast
import html
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.call_bodies import CallBody, UnfinishedCallText, UnreadableCallText, WrittenCall
from vibe_jupyter.llm.call_repairs import meant_name
from vibe_jupyter.llm.reply_formats import CallFormat, reply_formats
from vibe_jupyter.llm.shown_text import ShownText
from vibe_jupyter.protocol import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    UserMessage,
    is_prompt,
    prompt_text,
)

STRAY: Final = 120  # characters after an opening mark within which a broken call is still recognized

BEGIN: Final = 200  # characters within which bare JSON must show that it is a call

_BEGUN: Final = lazy_pattern(
    r'\s*(?:```\w*\s*\n)?\s*\[?\s*\{?\s*(?:"type"\s*:\s*"function"\s*,\s*)?(?:"(?:tool_calls|function)"\s*:\s*[\[{\s]*)*'
    r'(?:"(?:name|tool|tool_name|function_name|function)"\s*:\s*"(?P<name>[^"]+)"|(?P<called>[A-Za-z_]\w*)\s*\()'
)
_PLACEHOLDER: Final = lazy_pattern(r"\s*(?:\.{3}|…|<[\w .|-]{1,40}>|\{\w*\})\s*")
# A line number, optionally preceded by a file name as in grep's output.
_LINE_BEGIN: Final = lazy_pattern(r"^[ \t]*(?:[^\s:<>{}\[\]]+:)?\d+[ \t]*[→|:\t-]", re.MULTILINE)
_CLOSED: Final = lazy_pattern(r"</[^<>]+>|\[/[^\[\]]+\]|<\|[^<>]+\|>")  # a closing mark or a special token
_CODE_POINT: Final = lazy_pattern(r"\\u([0-9a-fA-F]{4})")
_NO_SIGN: Final = lazy_pattern(r"[^\w<(\[{]+|_+")
_BRACKETS: Final = lazy_pattern(r"[<(\[{]+")
_AFTER_SENTENCE: Final = lazy_pattern(r"""(?:[.!?…。！？"”]['")”’]*|[:;]-?\)|<[^<>\n]*>)\Z""")
_SHORTENED: Final = lazy_pattern(r"\.{3}|…|\{\{ ?[\w.]+|\{%")  # signs of an abridged call, or of a template
_MAX_SHOWN: Final = 20  # limit of broken quoted calls to parse: a model that repeats itself can write thousands


class Findings(NamedTuple):
    """Calls found in a text, or the reason for doubt."""

    start: int  # start of the calls, or the length of the text if there are none
    calls: tuple[WrittenCall, ...] = ()
    doubt: str = ""  # why the text may contain an unreadable call, or ''


class Heard:
    """Context the model received before it answered. Indexed only if an answer looks like a call."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = tuple(messages)

    @cached_property
    def prompt(self) -> str:
        """The latest prompt of the user."""
        prompts = (one for one in reversed(self._messages) if isinstance(one, UserMessage) and is_prompt(one))
        latest = next(prompts, None)
        return "" if latest is None else prompt_text(latest)

    @cached_property
    def asks_about_calls(self) -> bool:
        """True if the latest prompt is about calls as such."""
        return _talk().search(self.prompt) is not None

    @cached_property
    def _texts(self) -> "tuple[_Signs, ...]":
        texts = [_said(one) for one in self._messages]
        texts += [_unescaped(text) for text in texts if "\\" in text or "&" in text]
        return tuple(_Signs(one) for text in texts for one in (text, _LINE_BEGIN.sub("", text)))

    def holds(self, block: str) -> bool:
        """Return whether a text repeats something from the context, or from the arguments of the model's own calls.

        Only letters, digits and opening brackets are compared: a diff, a quotation, a comment or HTML contains the same
        text with other punctuation, and perhaps without its end. The letters alone, without the brackets of a call,
        don't count.
        """
        wanted = _Signs(_without_closing(block))
        return bool(wanted.letters) and any(text.holds(wanted) for text in self._texts)


class _Signs:
    """Letters, digits and opening brackets of a text."""

    def __init__(self, text: str) -> None:
        self.all = _NO_SIGN.sub("", text)
        self.letters = _BRACKETS.sub("", self.all)

    @cached_property
    def _places(self) -> list[int]:
        """Offsets of the letters, and the end."""
        return [place for place, sign in enumerate(self.all) if sign not in "<([{"] + [len(self.all)]

    def holds(self, wanted: "_Signs") -> bool:
        """Return whether the letters occur here with at least the same brackets."""
        count, first = len(wanted.letters), self.letters.find(wanted.letters)
        while first >= 0:
            begin = self._places[first - 1] + 1 if first else 0
            signs = iter(self.all[begin : self._places[first + count]])
            begins_alike = wanted.all[0] in self.all[begin : self._places[first] + 1]
            if begins_alike and all(sign in signs for sign in wanted.all):
                return True
            first = self.letters.find(wanted.letters, first + 1)
        return False


@cache
def _talk() -> re.Pattern[str]:
    return re.compile("|".join(reply_formats().talk), re.IGNORECASE)


def _said(message: Message) -> str:
    match message:
        case SystemMessage():
            return message.text
        case AssistantMessage():
            return "\n".join(call.arguments for call in message.calls if not call.mark)
        case _:
            return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def _unescaped(text: str) -> str:
    """Undo JSON and HTML escapes as far as they affect calls."""
    plain = _CODE_POINT.sub(lambda found: chr(int(found[1], 16)), html.unescape(text))
    return plain.replace("\\n", "\n").replace("\\t", "\t")


def _without_closing(text: str) -> str:
    """Strip closing marks and special tokens at the end."""
    end = len(text.rstrip())
    while end and (opening := {">": "<", "]": "["}.get(text[end - 1])):
        begin = text.rfind(opening, 0, end)
        if begin < 0 or _CLOSED.fullmatch(text, begin, end) is None:
            break
        end = begin
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


class CallFinder:
    """Finder of the calls in the text of one answer."""

    def __init__(self, text: str, properties: Mapping[str, frozenset[str]], heard: Heard) -> None:
        """
        Args:
            text: The answer without reasoning.
            properties: The argument names of each offered tool.
            heard: The context the model received.
        """
        formats = reply_formats()
        self._text = text
        self._stripped = without_ends(text)
        self._length = len(self._stripped)
        self._tools = frozenset(properties)
        self._properties = properties
        self._heard = heard
        self._shown = ShownText(text)
        self._inside = [one for one in formats.calls if not one.whole]
        self._whole = [one for one in formats.calls if one.whole]
        self._around = formats.around
        self._ends = formats.ends

    def find(self) -> Findings:
        """Return the calls that end the text, or the reason for doubt."""
        nothing = Findings(len(self._text))
        if not self._text.strip():
            return nothing
        found = self._whole_answer()
        if found is None and any(map(self._text.__contains__, "<[{")):  # every format contains one of them
            found = self._ending_calls() or self._stray_mark()
        return nothing if found is None else found

    # ---- A call and nothing else ----

    def _whole_answer(self) -> Findings | None:
        start = len(self._text) - len(self._text.lstrip())
        doubt: Findings | None = None
        for form in self._whole:
            if not form.opening(self._tools).match(self._text, start, self._length):
                continue
            try:
                calls, end = self._item(start, [form])
                while end < self._length and self._text[end : end + 1].isspace():
                    more, end = self._item(self._skip_blanks(end), [form])
                    calls += more
            except UnfinishedCallText:
                if begins_as_call(self._text[start:], self._tools) and not _is_python(self._stripped):
                    doubt = self._doubt(start, "it is not complete")
                continue
            except (UnreadableCallText, LookupError):
                continue
            if end != self._length or not calls or not all(map(self._fits, calls)):
                continue
            if self._heard.holds(self._text[start : self._length]):
                return None
            if form.fenced and (self._heard.asks_about_calls or any(one.name in self._heard.prompt for one in calls)):
                return self._doubt(start, "it stands in a code block")
            return Findings(start, _distinct(calls))
        return doubt

    def _fits(self, call: WrittenCall) -> bool:
        return call.name in self._tools and set(call.arguments) <= self._properties[call.name]

    # ---- Text that ends in calls ----

    def _ending_calls(self) -> Findings | None:
        skip = shown = 0
        earlier: list[int] = []
        doubt: Findings | None = None
        for start in self._starts():
            if start < skip or self._shown.is_quoted(start):
                continue
            if shown > _MAX_SHOWN and self._shown.is_enclosed(start, start):
                continue
            is_own = self._begins_line(start) and not self._shown.is_example(start)
            try:
                calls = self._run(start)
            except UnfinishedCallText:
                if self._shown.is_enclosed(start, start):
                    shown += 1
                    continue
                own = is_own and not self._heard.holds(self._text[start:])
                return self._doubt(start, "it is not complete") if own else Findings(len(self._text))
            except UnreadableCallText as found:
                if self._shown.is_enclosed(start, found.end if found.calls else start):
                    shown += not found.calls
                    continue
                skip = max(found.end, start + 1)
                if is_own and self._is_meant(start, found):
                    earlier.append(start)
                    doubt = doubt or self._doubt(start, "more text follows it" if found.calls else "it can't be read")
                continue
            if earlier:
                return self._doubt(earlier[0], "there is text between several calls")
            return self._judged(start, calls) or Findings(len(self._text))
        return doubt

    def _judged(self, start: int, calls: list[WrittenCall]) -> Findings | None:
        """Judge complete calls at the end of the text."""
        block, before = self._text[start : self._length], self._text[:start]
        if not calls or self._heard.holds(block) or self._shown.is_named_example(start):
            return None
        alone = not before.strip()
        if not all(call.name in self._tools for call in calls):
            return self._doubt(start, "there is no such tool") if alone else None
        if any(_is_placeholder(value) for call in calls for value in call.arguments.values()):
            return self._doubt(start, "it holds a placeholder") if alone else None
        if self._heard.asks_about_calls:
            return self._doubt(start, "the user asked about such text") if alone else None
        is_residue = before.strip().isalpha()  # a special token that was decoded as letters (claude-code 65130)
        if not self._begins_line(start) and not _AFTER_SENTENCE.search(before.rstrip()) and not is_residue:
            return None  # part of a sentence
        if self._shown.is_example(start):
            return self._doubt(start, "it may be an example")
        return Findings(0 if is_residue and not self._begins_line(start) else start, _distinct(calls))

    def _is_meant(self, start: int, found: UnreadableCallText) -> bool:
        """Return whether an unreadable call was intended rather than shown."""
        block = self._text[start : found.end]
        if self._heard.asks_about_calls or self._heard.holds(block) or _SHORTENED.search(block):
            return False
        if found.calls:
            return all(call.name in self._tools for call in found.calls)
        return any(re.search(rf"\b{re.escape(name)}\b", block) for name in self._tools)

    def _run(self, start: int) -> list[WrittenCall]:
        """Parse calls from here to the end of the text.

        Raises:
            UnfinishedCallText: The text ends inside a call.
            UnreadableCallText: A call is malformed, or other text follows.
        """
        calls: list[WrittenCall] = []
        place = start
        while (place := self._skip_blanks(place)) < self._length:
            try:
                found, place = self._item(place, self._inside)
                calls += found
            except LookupError:
                noise = next((one for one in self._around if self._text.startswith(one, place)), "")
                noise = noise or next((one for one in self._ends if self._text.startswith(one, place)), "")
                if not noise:
                    raise UnreadableCallText(place, tuple(calls)) from None
                place += len(noise)
        if not calls:
            raise UnreadableCallText(place)
        return calls

    def _item(self, place: int, formats: Iterable[CallFormat]) -> tuple[list[WrittenCall], int]:
        """Parse one item.

        Raises:
            LookupError: No format begins here.
            UnfinishedCallText: The text ends inside the item.
            UnreadableCallText: The item is malformed.
        """
        failure: Exception = LookupError()
        for form in formats:
            begun = form.opening(self._tools).match(self._text, place, self._length)
            if begun is None:
                continue
            name = begun.groupdict().get("name") or ""
            try:
                calls, end = CallBody(self._stripped, form, name).read(begun.end())
                return [one._replace(name=meant_name(one.name, self._tools) or one.name) for one in calls], end
            except (UnfinishedCallText, UnreadableCallText) as problem:
                failure = problem if isinstance(failure, LookupError) else failure
        raise failure

    def _skip_blanks(self, place: int) -> int:
        while place < self._length and self._text[place].isspace():
            place += 1
        return place

    def _starts(self) -> Iterator[int]:
        places = {found.start() for form in self._inside for found in form.opening(self._tools).finditer(self._text)}
        for mark in self._around:
            if not mark.startswith("</"):
                places.update(found.start() for found in re.finditer(re.escape(mark), self._text))
        return iter(sorted(places))

    def _stray_mark(self) -> Findings | None:
        """Recognize an opening mark followed by almost nothing."""
        marks = {form.mark for form in self._inside if len(form.mark) > 1} | {
            one for one in self._around if not one.startswith("</")
        }
        start, mark = max((self._text.rfind(mark), mark) for mark in marks)
        if start < 0 or not self._begins_line(start) or self._shown.is_example(start):
            return None
        if self._shown.is_quoted(start) or self._shown.is_enclosed(start, start):
            return None
        rest = self._text[start + len(mark) : self._length].strip()
        word = re.match(r"[\w.-]+", rest)
        named = word is not None and any(tool.startswith(word[0]) for tool in self._tools)
        if len(rest) > STRAY or not (rest == "" or named or rest[0] in '{[<"'):
            return None
        block = self._text[start : self._length]
        if _SHORTENED.search(block) or (rest and self._heard.holds(block)):
            return None
        return self._doubt(start, "it is not complete")

    # ---- Positions ----

    def _begins_line(self, place: int) -> bool:
        before = self._text[:place].rstrip(" \t")
        return not before or before.endswith("\n")

    def _doubt(self, start: int, why: str) -> Findings:
        return Findings(start, doubt=why)


def begins_as_call(text: str, tools: Collection[str]) -> bool:
    """Return whether bare JSON or Python begins like a call of an offered tool."""
    begun = _BEGUN.match(text[:BEGIN])
    return begun is not None and meant_name(begun["name"] or begun["called"], tools) is not None


def without_ends(text: str) -> str:
    """Strip whitespace and special tokens at the end."""
    text = text.rstrip()
    while end := next((one for one in reply_formats().ends if text.endswith(one)), ""):
        text = text.removesuffix(end).rstrip()
    return text


def _is_python(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _distinct(calls: Sequence[WrittenCall]) -> tuple[WrittenCall, ...]:
    """Remove duplicates: some models write a call twice, and it must run only once."""
    return tuple(one for place, one in enumerate(calls) if one not in calls[:place])


def _is_placeholder(value: JsonValue) -> bool:
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None
