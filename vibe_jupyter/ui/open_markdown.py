"""The end of an answer that is still being written, as Markdown that can be shown: what is open is closed for now.

A mark whose meaning the next piece decides (half of a `**`, a lone `-` at the beginning of a line, the head of a table
that has no second line yet) is left out until then, so that no raw mark is seen.
"""

import re
from typing import Final, NamedTuple

FORMULA_LIMIT: Final = 80
"""Characters behind a `$` that may be a formula without its end; a longer text names a price."""

_UNDECIDED: Final = re.compile(
    r"[ \t]*(?:(?:[-*+>#|=:_~]|\d+[.)])[ \t]*)+\Z|[ \t]*(?:(?:\d{1,3}|`{1,2}|~)[ \t]*|(?:`{3}|~{3}).*)\Z"
)
"""A last line that may become another thing."""
_BEGINS_BLOCK: Final = re.compile(r"[ \t]*(?:[-*+][ \t]|\d+[.)][ \t]|>|#{1,6}[ \t]|\Z)")
_FENCE: Final = re.compile(r"[ \t]*(?:`{3}|~{3})")
_LEADING: Final = re.compile(r"[ \t]*(?:(?:[-*+]|\d+[.)]|#{1,6})[ \t]+|>[ \t]?)*")
_ROW: Final = re.compile(r"[ \t]*\|")
_RULE: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\Z")
_INFO: Final = re.compile(r"(\A(?:[^\n]*\n)*?[^\n`~]*(?:`{3,}|~{3,}))[^\n`]*")
_FORMULA_BEGINS: Final = re.compile(r"\$[A-Za-z\\({|-]")
_MARK: Final = re.compile(r"[\\`*_~\[{$!]")
"""All that `_OpenMarks._next` reads as more than itself."""
_WORD: Final = re.compile(r"\w")


class ShownMarkdown(NamedTuple):
    """What can be shown of an open block."""

    text: str
    """Markdown."""
    closed: int = 0
    """Marks of emphasis or code at its end that are closed for now."""
    grows: bool = True
    """Whether plain text that comes next belongs to the end of it."""
    behind: str = ""
    """White space at the end, which Markdown would drop."""


def fence_so_far(block: str) -> ShownMarkdown:
    """A block that ends within a fence: its colours come when it is whole."""
    before, _, last = block.rpartition("\n")
    ends = not last.strip("`~ \t") and bool(last)
    return ShownMarkdown(_INFO.sub(r"\1", before if ends else block, count=1), grows=not ends)


def shown_so_far(block: str) -> ShownMarkdown:
    """The same for any other block."""
    lines = block.split("\n")
    kept = _decided_lines(lines)
    if not any(line.strip() for line in kept):
        return ShownMarkdown("", grows=False)
    start = len(kept) - 1
    while start > 0 and not any(begins.match(kept[start]) for begins in (_BEGINS_BLOCK, _ROW)):
        if _FENCE.match(kept[start - 1]):
            break
        start -= 1
    before, segment = "\n".join(kept[:start]), "\n".join(kept[start:])
    if start > 0:
        before += "\n"
    leading = _LEADING.match(segment)
    begins = leading.end() if leading else 0
    inline = _OpenMarks(segment[begins:])
    stripped = inline.text.rstrip()
    whole = len(kept) == len(lines) and not inline.was_cut and not _ROW.match(kept[-1])
    return ShownMarkdown(
        before + segment[:begins] + stripped + "".join(inline.closers),
        len(inline.closers),
        whole,
        inline.text[len(stripped) :] if whole else "",
    )


def _decided_lines(lines: list[str]) -> list[str]:
    """Without the end that may become another thing."""
    kept = lines[:-1] if _UNDECIDED.match(lines[-1]) or _ROW.match(lines[-1]) else lines[:]
    while len(kept) > 1 and not kept[-1].strip():
        kept.pop()
    rows = 0
    while rows < len(kept) and _ROW.match(kept[-1 - rows]):
        rows += 1
    if rows == 1 or (rows > 1 and not any(_RULE.match(line) for line in kept[-rows:])):
        return kept[:-rows]
    return kept


class _OpenMarks:
    """Reads the text of one paragraph, and finds what is open at its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        """What can be shown."""
        self.closers: list[str] = []
        """Close what is open, the innermost first."""
        self.was_cut = False
        """Whether an end is left out."""
        self._open: list[tuple[str, int]] = []
        """Marks of emphasis: the sign, how many."""
        found = _MARK.search(text)
        while found is not None:
            found = _MARK.search(self.text, self._next(found.start()))
        if self.text != text:
            self.was_cut = True
        self.closers += [sign * count for sign, count in reversed(self._open)]

    def _next(self, place: int) -> int:
        match self.text[place]:
            case "\\":
                return place + 2
            case "`":
                return self._code(place)
            case "*" | "_" | "~" as sign:
                return self._emphasis(place, sign)
            case "[":
                return self._link(place)
            case "{" if self.text.startswith("{{", place) and "}}" not in self.text[place:]:
                return self._cut(place)
            case "$" if _FORMULA_BEGINS.match(self.text, place):
                return self._formula(place)
            case "{" | "$" | "!" if place == len(self.text) - 1:
                return self._cut(place)
            case _:
                return place + 1

    def _cut(self, place: int) -> int:
        self.text = self.text[:place]
        self.was_cut = True
        return place

    def _run(self, place: int) -> int:
        end = place
        while end < len(self.text) and self.text[end] == self.text[place]:
            end += 1
        return end - place

    def _code(self, place: int) -> int:
        count = self._run(place)
        for found in re.finditer("`+", self.text[place + count :]):
            if len(found[0]) == count:
                return place + count + found.end()
        inside = self.text[place + count :].rstrip("`")
        if not inside.strip():
            return self._cut(place)
        self.text = self.text[: place + count] + inside
        self.closers.append("`" * count)
        return len(self.text)

    def _emphasis(self, place: int, sign: str) -> int:
        count = self._run(place)
        end = place + count
        before, after = self.text[place - 1 : place] if place else "", self.text[end : end + 1]
        if sign == "~" and count < 2 and after:
            return end
        if sign == "_" and _WORD.match(before) and _WORD.match(after):
            return end
        if before.strip():
            while count and self._open and self._open[-1][0] == sign and self._open[-1][1] <= count:
                count -= self._open.pop()[1]
        if not after and count:
            return self._cut(place)
        if count and after.strip():
            self._open.append((sign, count))
        return end

    def _link(self, place: int) -> int:
        """A link that is not whole is shown by its words."""
        begins = place - 1 if self.text[place - 1 : place] == "!" else place
        close = self.text.find("]", place)
        if close < 0 or close == len(self.text) - 1:
            words = self.text[place + 1 :].rstrip("]")
        elif self.text[close + 1] == "(" and ")" not in self.text[close:]:
            words = self.text[place + 1 : close]
        else:
            return place + 1
        self.text = self.text[:begins] + words
        return begins

    def _formula(self, place: int) -> int:
        close = self.text.find("$", place + 1)
        if close > 0:
            return close + 1
        inside = self.text[place + 1 :].rstrip()
        if len(inside) > FORMULA_LIMIT or "\n" in inside:
            return place + 1
        self.text = self.text[: place + 1] + inside
        self.closers.append("$")
        self.was_cut = True  # what is in a formula is not plain
        return len(self.text)
