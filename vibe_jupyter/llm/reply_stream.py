"""Incremental display of an answer's text: reasoning is split off, and text that may be a call is held back."""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Final, Literal

from vibe_jupyter.llm.reply_formats import ThoughtMarks, reply_formats
from vibe_jupyter.llm.written_calls import BEGIN, Heard, begins_as_call
from vibe_jupyter.llm.written_thoughts import first_close, opening_mark
from vibe_jupyter.protocol import ReasoningDelta, TextDelta

LONGEST_MARK: Final = 64  # upper bound of the characters in a closing mark

Delta = TextDelta | ReasoningDelta
State = Literal["begin", "thought", "open", "held", "whole"]

_WORD: Final = re.compile(r"\s*([\w.:-]+)(?=[^\w.:-])")
# Openings that aren't calls: a list of numbers, a Markdown link, an object without a name, code.
_NO_CALL: Final = re.compile(
    r"\[(?:\d|[^\]\n]{0,80}\]\()"
    r"|\{\s*\"(?!name|tool|type|func|param|arg|inp)\w+\"\s*:"
    r"|```(?!json|tool|\s)\w+\s|```\w*\s*\n\s*[^\s{\[]"
)
_VALUES: Final = (("<parameter", "</parameter>"), ("<arg_value>", "</arg_value>"))  # tags around an argument
_OWN_WORDS: Final = ("function", "functions", "call", "assistant", "json", "default_api", "tool", "to")


class TextHold:
    """Buffer that decides which part of the streamed text can be shown yet."""

    def __init__(
        self, tools: Callable[[], Collection[str]], heard: Callable[[], Heard], *, is_streamed: bool = True
    ) -> None:
        """
        Args:
            is_streamed: False for an answer that arrives as one body: nothing is shown before it is judged.
            tools: Returns the offered tools.
            heard: Returns the context the model received.
        """
        self.is_open = False  # True while pieces without a bracket can be shown unchanged
        self._tools = tools
        self._heard = heard
        self._state: State = "begin" if is_streamed else "whole"
        self._waiting = ""  # text not shown yet
        self._mark: ThoughtMarks | None = None
        self._is_trimmed = False  # True if a mark preceded the text: the whitespace after it isn't part of the answer
        self._closed_at = 0  # offset in the waiting text after the latest closing mark of a call, or 0
        self._searched_to = 0  # offset in the waiting text up to which closing marks were searched
        self._before = ""  # character before the waiting text

    @property
    def held(self) -> int:
        """Number of characters not shown yet."""
        return len(self._waiting)

    def take(self, text: str) -> Sequence[Delta]:
        """Add text and return the deltas that can be shown."""
        self._waiting += text
        shown: list[Delta] = []
        steps = {"begin": self._begin, "thought": self._think, "open": self._speak, "held": self._wait}
        while self._waiting and self._state != "whole" and steps[self._state](shown):
            pass
        self.is_open = self._state == "open" and not self._waiting
        return shown

    def end(self, whole: str, kept: str, begin: int) -> Sequence[Delta]:
        """Return the held-back text that belongs to the answer.

        Args:
            whole: The text as received.
            kept: The part of it that remains.
            begin: The offset of `kept` in `whole`.
        """
        waiting, self._waiting = self._waiting, ""
        if self._state == "whole":
            return [TextDelta(kept)] if kept else []
        if self._state == "thought":
            return [ReasoningDelta(waiting)] if waiting else []
        if not waiting:
            return []
        rest = whole[max(begin, len(whole) - len(waiting)) : begin + len(kept)]
        return [TextDelta(rest)] if rest else []

    # ---- Steps: each returns True if another one can follow ----

    def _begin(self, shown: list[Delta]) -> bool:
        text = self._waiting.lstrip()
        if not text:
            return False
        if text in _prefixes(_beginnings()):
            return False
        if (begun := opening_mark(text, self._heard().prompt)) is not None:
            self._mark, length = begun
            self._waiting, self._is_trimmed = text[length:], True
            self._state = "begin" if self._mark is None else "thought"
            return True
        tools = self._tools()
        if tools and (text[0] in "{[" or text.startswith("```") or text.startswith(reply_formats().bare)):
            is_bare = text.startswith(("{", "[", "```"))
            if not is_bare or _may_be_call(text, tools):
                # until bare JSON shows what it is, judge it again from its start with the next piece
                self._state = "begin" if is_bare and len(text) <= BEGIN else "held"
                return False
        self._state = "open"
        if self._is_trimmed:
            self._waiting = text
        return True

    def _think(self, shown: list[Delta]) -> bool:
        assert self._mark is not None
        place, close = first_close(self._waiting, self._mark)
        if close:
            # a longer closing mark may begin at the same place
            thought, self._waiting = self._waiting[:place], self._waiting[place + len(close) :]
            if close in self._mark.keep_close:
                self._waiting = close + self._waiting
            self._state, self._mark = "begin", None
        else:
            place = _kept_back(self._waiting, self._mark.close)
            thought, self._waiting = self._waiting[:place], self._waiting[place:]
        if thought:
            shown.append(ReasoningDelta(thought))
        return bool(close)

    def _speak(self, shown: list[Delta]) -> bool:
        text, place = self._waiting, 0
        marks = _held_marks(frozenset(self._tools()))
        while (found := marks.search(text, place)) is not None:
            if (text[found.start() - 1] if found.start() else self._before) != "`":
                break
            place = found.end()
        if found is not None:
            stop = found.start()
            self._state, self._closed_at, self._searched_to = "held", 0, 0
        else:
            stop = _kept_back(text, _held_texts(frozenset(self._tools())), place)
        self._show(stop, shown)
        return found is not None

    def _wait(self, shown: list[Delta]) -> bool:
        """Resume showing text once the held-back part can't be a call anymore."""
        text = self._waiting
        if text.lstrip()[:1] in ("{", "[", "`") and _held_marks(frozenset(self._tools())).match(text) is None:
            return False  # a whole answer in bare JSON, judged at the end
        closes = _closing_marks()
        for found in closes.finditer(text, max(self._closed_at, self._searched_to, 1)):
            if not _is_in_value(text, found.start()):
                self._closed_at = found.end()
        self._searched_to = len(text) - LONGEST_MARK  # the last mark may be incomplete
        after = text[self._closed_at :].lstrip() if self._closed_at else ""
        marks = _held_texts(frozenset(self._tools()))
        goes_on = bool(after) and not any(one.startswith(after[: len(one)]) or after.startswith(one) for one in marks)
        goes_on = goes_on and after not in _prefixes(("</", "[", "```"))
        if not goes_on and not self._is_prose(text):
            return False
        self._state = "open"
        self._show(self._closed_at or 1, shown)
        return True

    def _is_prose(self, text: str) -> bool:
        """Return whether the word after the opening mark can't be a tool's name."""
        mark = max((one for one in _held_texts(frozenset(self._tools())) if text.startswith(one)), key=len, default="")
        word = _WORD.match(text, len(mark))
        if not mark or word is None or self._closed_at:
            return False
        said = word[1].casefold()
        return said not in _OWN_WORDS and not any(name.casefold() in said for name in self._tools())

    def _show(self, stop: int, shown: list[Delta]) -> None:
        if stop:
            shown.append(TextDelta(self._waiting[:stop]))
            self._before = self._waiting[stop - 1]
            self._waiting = self._waiting[stop:]


def _is_in_value(text: str, place: int) -> bool:
    """Return whether a place within a call is inside a JSON string or between the tags of an argument."""
    if any(text.rfind(begin, 0, place) > text.rfind(end, 0, place) for begin, end in _VALUES):
        return True
    return (text.count('"', 0, place) - text.count('\\"', 0, place)) % 2 == 1


def _may_be_call(text: str, tools: Collection[str]) -> bool:
    if begins_as_call(text, tools):
        return True
    return len(text) <= BEGIN and not _NO_CALL.match(text)


def _kept_back(text: str, marks: tuple[str, ...], start: int = 0) -> int:
    """Return the offset of the longest suffix that may become a mark, or the length of the text if there is none."""
    prefixes = _prefixes(marks)
    longest = max(map(len, prefixes), default=0)
    for place in range(max(start, len(text) - longest + 1, 0), len(text)):
        if text[place:] in prefixes:
            return place
    return len(text)


@cache
def _prefixes(marks: tuple[str, ...]) -> frozenset[str]:
    """Return all prefixes of the marks, including the marks themselves."""
    return frozenset(mark[:length] for mark in marks for length in range(1, len(mark) + 1))


@cache
def _beginnings() -> tuple[str, ...]:
    """Return all marks with which an answer may begin."""
    formats = reply_formats()
    opens = (one for mark in formats.thoughts for one in mark.open)
    calls = (form.mark for form in formats.calls if len(form.mark) > 1)
    return (*formats.begins, *opens, *calls, *formats.bare, "```")


@cache
def _held_texts(tools: frozenset[str]) -> tuple[str, ...]:
    formats = reply_formats()
    marks = {form.mark for form in formats.calls if len(form.mark) > 1} | set(formats.ends)
    marks |= {one for one in formats.around if tools}
    return tuple(
        sorted(
            one
            for one in (*marks, *(f"<{tool}>" for tool in tools), *(f"[{tool}]" for tool in tools))
            if one[0] in "<["
        )
    )


@cache
def _held_marks(tools: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(_held_texts(tools), key=len, reverse=True))))


@cache
def _closing_marks() -> re.Pattern[str]:
    formats = reply_formats()
    closes = (form.close.removeprefix(r"\s*") for form in formats.calls if form.close and "@" not in form.close)
    return re.compile("|".join(sorted({one for one in closes if "`" not in one})))
