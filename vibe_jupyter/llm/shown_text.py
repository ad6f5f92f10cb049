"""Find parts of a text that quote or show something: code, quotations and examples (`reply_formats.toml`)."""

import re
from bisect import bisect_left, bisect_right
from functools import cache, cached_property
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.reply_formats import reply_formats

_FENCE: Final = lazy_pattern(r"^(?:[ \t]|[-*+>] |\d+[.)] )*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$", re.MULTILINE)
_LANGUAGE: Final = lazy_pattern(r"[\w{.+-]\S*(?:[ \t]+\S+=.*)?[ \t]*")  # a single word after the fence, with attributes
# Ends of lines before an indented block, in reStructuredText and in YAML.
_LITERAL_BEGINS: Final = lazy_pattern(r"::\Z|:[ \t]*[|>][+-]?\Z")
_QUOTED_LINE: Final = lazy_pattern(r"(?:\t| {4}|\s*>)")
# After such a line, signs at the beginning of the paragraph's lines are those of a diff.
_DIFF: Final = lazy_pattern(r"^(?:@@ |diff --git )", re.MULTILINE)
_BLANK_LINE: Final = lazy_pattern(r"\n[ \t]*\n")
_BACKTICKS: Final = lazy_pattern(r"`+")
_LIST_MARK: Final = lazy_pattern(r"\s*(?:\d{1,3}|[A-Za-z])[.)]\s*")
_SENTENCE_END: Final = lazy_pattern(r"(?<=[.!?])\s+(?=\w)|(?<=[。！？])")
_SPEAKER: Final = lazy_pattern(r"\W*(?:assistant|model|ai|bot)\W*", re.IGNORECASE)
_LINE_OF_USER: Final = lazy_pattern(r"^[^\w\n]*(?:user|human)[^\w\n]*:", re.IGNORECASE | re.MULTILINE)
_MARKUP: Final = "*_ \t"
_LEAD: Final = 1_000  # characters before an example to search for an announcement


class ShownText:
    """A text with the positions of its markup.

    All positions are computed once: a model that repeats itself can write thousands of marks, and each is looked up.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def is_quoted(self, place: int) -> bool:
        """Return whether the markup before this place makes it code or a quotation."""
        line = self._text[self._text.rfind("\n", 0, place) + 1 : place]
        if line.count("`") % 2 == 1 or (bool(line) and _QUOTED_LINE.match(line + " ") is not None):
            return True
        return (
            self._is_in_fence(place)
            or (bool(line) and self._follows(self._diffs, place))
            or self._follows(self._quoted_marks, place)
            or _is_in_literal(self._text[:place])
        )

    def is_enclosed(self, start: int, end: int) -> bool:
        """Return whether a quotation that begins before `start` closes at or after `end`."""
        return self._is_in_span(start, end) or any(one.holds(start, end) for one in self._quotes)

    def is_named_example(self, place: int) -> bool:
        """Return whether the preceding text calls the following text an example."""
        before = self._text[max(0, place - _LEAD) : place]
        if _LIST_MARK.fullmatch(before[before.rfind("\n") + 1 :]):
            return True
        lead = before.rstrip().rpartition("\n")[2]
        if _SPEAKER.fullmatch(lead):
            return self._first_line_of_user < place
        return self._says(place, reply_formats().names)

    def is_example(self, place: int) -> bool:
        """Return whether the preceding text introduces an example rather than a call."""
        return self.is_named_example(place) or self._says(place, reply_formats().shows)

    def _says(self, place: int, words: tuple[str, ...]) -> bool:
        lead = self._text[max(0, place - _LEAD) : place].rstrip().rpartition("\n")[2]
        sentence = _SENTENCE_END.split(lead.strip(_MARKUP))[-1]
        return _any_of(words).search(sentence) is not None and _any_of(reply_formats().acts).search(sentence) is None

    def _is_in_fence(self, place: int) -> bool:
        starts, depths = self._fences
        return depths[bisect_left(starts, place)] > 0

    def _follows(self, marks: list[int], place: int) -> bool:
        """Return whether one of the marks precedes this place within its paragraph."""
        return bisect_right(marks, place) > bisect_right(marks, self._paragraph(place))

    def _is_in_span(self, start: int, end: int) -> bool:
        """Return whether inline code opened on an earlier line closes in the same paragraph."""
        starts, opened, closes = self._spans
        before = bisect_left(starts, start) - 1
        if before < 0 or starts[before] < self._paragraph(start) or not opened[before]:
            return False
        return closes[before] >= end

    def _paragraph(self, place: int) -> int:
        """Return the start of this place's paragraph."""
        count = bisect_right(self._blank_lines, place)
        return self._blank_lines[count - 1] if count else 0

    @cached_property
    def _fences(self) -> tuple[list[int], list[int]]:
        """Start offsets of fence lines, and the number of open fences before each of them and after the last.

        Nested fences, as in Markdown about Markdown, close separately. Tildes also underline headings in
        reStructuredText and positions in error messages, so they count only with a language or at the start of a
        paragraph.
        """
        starts: list[int] = []
        depths = [0]
        fences: list[str] = []
        for found in _FENCE.finditer(self._text):
            mark, info = found["mark"], found["info"]
            has_language = _LANGUAGE.fullmatch(info) is not None
            if fences:
                if not mark.startswith(fences[-1]):
                    continue
                if has_language:
                    fences.append(mark)
                else:
                    fences.pop()
            elif mark[0] == "`" or has_language or (not info.strip() and self._begins_paragraph(found.start())):
                fences.append(mark)
            else:
                continue
            starts.append(found.start())
            depths.append(len(fences))
        return starts, depths

    def _begins_paragraph(self, place: int) -> bool:
        return not self._text[self._text.rfind("\n", 0, max(place - 1, 0)) + 1 : place].strip()

    @cached_property
    def _diffs(self) -> list[int]:
        return [found.end() for found in _DIFF.finditer(self._text)]

    @cached_property
    def _quoted_marks(self) -> list[int]:
        """End offsets of quoted lines that end with a mark: the call continues without the quotation sign."""
        return [found.end() for found in _quoted_mark().finditer(self._text)]

    @cached_property
    def _blank_lines(self) -> list[int]:
        return [found.end() for found in _BLANK_LINE.finditer(self._text)]

    @cached_property
    def _spans(self) -> tuple[list[int], list[bool], list[int]]:
        """Start offsets of backtick runs, whether inline code is open after each, and the last position of its
        delimiter in the paragraph."""
        starts: list[int] = []
        marks: list[str] = []
        last: dict[tuple[int, str], int] = {}
        begun, paragraph = "", 0
        for found in _BACKTICKS.finditer(self._text):
            run, start = found[0], found.start()
            if self._paragraph(start) != paragraph:
                begun, paragraph = "", self._paragraph(start)
            begun = "" if run == begun else begun or run
            starts.append(start)
            marks.append(begun)
            last[paragraph, run] = start
        closes = [last.get((self._paragraph(start), mark), -1) for start, mark in zip(starts, marks, strict=True)]
        return starts, list(map(bool, marks)), closes

    @cached_property
    def _quotes(self) -> "list[_Quotes]":
        return [
            _Quotes(
                [found.end() for found in re.finditer(begin, self._text) if not self._is_code(found.start())],
                [found.end() for found in re.finditer(end, self._text) if not self._is_code(found.start())],
            )
            for begin, end in reply_formats().quotes
        ]

    def _is_code(self, place: int) -> bool:
        return self._is_in_fence(place) or self._text.count("`", self._text.rfind("\n", 0, place) + 1, place) % 2 == 1

    @cached_property
    def _first_line_of_user(self) -> int:
        found = _LINE_OF_USER.search(self._text)
        return len(self._text) if found is None else found.start()


class _Quotes(NamedTuple):
    """Delimiters of one kind of quotation in a text."""

    begins: list[int]
    ends: list[int]

    def holds(self, start: int, end: int) -> bool:
        is_open = bisect_right(self.begins, start) > bisect_right(self.ends, start)
        return is_open and bool(self.ends) and self.ends[-1] >= end


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


@cache
def _quoted_mark() -> re.Pattern[str]:
    formats = reply_formats()
    marks = {one.mark for one in formats.calls if len(one.mark) > 1} | set(formats.around)
    return re.compile(rf"^[ \t]*>(?!>>).*(?:{'|'.join(map(re.escape, sorted(marks)))})[ \t]*$", re.MULTILINE)


def _is_in_literal(before: str) -> bool:
    """Return whether this is the indented block after `::` (reStructuredText) or `|` (YAML)."""
    lead, _, line = before.rpartition("\n")
    return line.isspace() and _LITERAL_BEGINS.search(lead.rstrip()) is not None
