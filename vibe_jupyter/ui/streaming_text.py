"""One answer of the model while it is being written: shown as Markdown from its first character on.

A finished block is rendered once. The open one at the end is rendered as often as its marks need, with what is open in
it closed for now; plain words that come between are written into what it has become so far. A mark whose meaning the
next piece decides (half of a `**`, a lone `-` at the beginning of a line, the head of a table that has no second line
yet) is left out until then, so that no raw mark is seen.
"""

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from vibe_jupyter.ui.cell_references import FindCell, no_cell
from vibe_jupyter.ui.code import LIVE
from vibe_jupyter.ui.markdown_html import markdown_blocks
from vibe_jupyter.ui.markup import NOTHING, Markup, escape_text, html_element
from vibe_jupyter.ui.page import PartList
from vibe_jupyter.ui.text import readable_text, split_unfinished

FORMULA_LIMIT: Final = 80
"""Characters behind a `$` that may be a formula without its end; a longer text names a price."""

_UNDECIDED: Final = re.compile(
    r"[ \t]*(?:(?:[-*+>#|=:_~]|\d+[.)])[ \t]*)+\Z|[ \t]*(?:(?:\d{1,3}|`{1,2}|~)[ \t]*|(?:`{3}|~{3}).*)\Z"
)
"""A last line that may become another thing."""
_BEGINS_BLOCK: Final = re.compile(r"[ \t]*(?:[-*+][ \t]|\d+[.)][ \t]|>|#{1,6}[ \t]|\Z)")
_FENCE_BEGINS: Final = re.compile(r"[ \t]*(?:`{3}|~{3})")
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
        if _FENCE_BEGINS.match(kept[start - 1]):
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
            place = self._next(found.start())
            found = _MARK.search(self.text, place)
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


REDO_FLOOR = 20_000
"""Characters of HTML that the end of a message may always render again."""
REDO_SHARE = 0.5
"""The same as a share of the text. A longer list of many blocks stays in the pieces it came in: the form that is kept
takes its place anyway."""

OFTEN = 1_500
"""Characters of the open block up to which it is rendered with each mark; a longer one once it has grown."""
GROWTH = 0.04
"""By this share of it."""

_SAYS_MORE = re.compile(r"[*_`~\[\]()<>&|$\\\n#!{}\t]")
"""What may be a mark of Markdown within a line."""
_OPEN_END = re.compile(r"((?:</(?:strong|em|s|code|a|span)>)*)(?:</(?:p|li|ul|ol|blockquote|h\d|pre)>)*\Z")
"""Elements that are closed at the end of a block: those within a line first."""

_FENCE = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})")


@dataclass
class _Shown:
    """A part of the answer on the page."""

    id: str
    line: int
    """Where its text starts in the answer."""
    html: Markup = NOTHING
    """Its blocks as last shown; empty for the tail."""


@dataclass(frozen=True)
class _OpenEnd:
    """What is shown of the open block."""

    html: Markup = NOTHING
    closing: int = 0
    """Characters of it at its end that close elements."""
    line: int = -1
    """The line of the answer that it ends with."""
    rendered: int = 0
    """Characters that the block had when it was rendered."""
    grows: bool = False
    """Whether plain text that comes next belongs to its end."""

    def with_text(self, text: str) -> "_OpenEnd":
        """With plain text at its end."""
        at = len(self.html) - self.closing
        html = Markup(f"{self.html[:at]}{escape_text(readable_text(text))}{self.html[at:]}")
        return replace(self, html=html)


class StreamingText:
    """The text of one message. It costs the page each piece once, and each block once more when the block is done."""

    def __init__(self, sheet: PartList, find_cell: FindCell = no_cell) -> None:
        self._sheet = sheet
        self.find_cell = find_cell
        """Finds the cells it names."""
        self._pieces: list[str] = []
        self._shown: list[_Shown] = []
        self._block: list[str] = []
        """The open block; its last piece may be the beginning of a line."""
        self._line: list[str] = []
        self._lines = 0
        """Line ends seen."""
        self._fence = ""
        self._has_tail = False
        self._held = ""
        """An end that is not yet shown, since the next piece may change what it means."""
        self._waits = ""
        """Text that the open block has and what is shown of it has not."""
        self._open = _OpenEnd()

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._pieces)

    def add(self, text: str) -> None:
        """Take the next piece."""
        self._pieces.append(text)
        done = 0
        for end in _line_ends(text):
            self._block.append(text[done:end])
            self._line.append(text[done:end])
            done = end
            self._lines += 1
            if self._ends_block():
                self._close_block()
        self._block.append(text[done:])
        self._line.append(text[done:])
        self._grow_tail(text)

    def finish(self, text: str) -> None:
        """Take the whole text: render what spans blocks (lists, tables, references) again, and leave the rest."""
        if text != self.text:
            self._forget_text(text)
        if not self._shown and text.strip():
            self._shown = [_Shown(self._sheet.new_id("t"), 0)]
        budget = max(REDO_FLOOR, int(len(text) * REDO_SHARE))
        for span, html in self._block_spans(text):
            has_tail = self._has_tail and span[-1] is self._shown[-1]
            changed = has_tail or len(span) > 1 or html != span[0].html
            if changed and len(html) <= budget:
                budget -= len(html)
                self._replace_span(span, html)
            elif has_tail:
                self._show_part(span[-1], self._render_text("".join(self._block)))
        self._has_tail = False

    def _block_spans(self, text: str) -> list[tuple[list[_Shown], Markup]]:
        """What the whole text gives for each part, and for the parts behind it that it swallows."""
        spans: list[tuple[list[_Shown], list[str]]] = []
        blocks = deque(markdown_blocks(text, LIVE, self.find_cell))
        for at, shown in enumerate(self._shown):
            end = self._shown[at + 1].line if at + 1 < len(self._shown) else None
            mine: list[str] = []
            while blocks and (end is None or blocks[0].line < end):
                mine.append(blocks.popleft().html)
            if mine or not spans:
                spans.append(([shown], mine))
            else:
                spans[-1][0].append(shown)
        return [(span, Markup("".join(htmls))) for span, htmls in spans]

    def _ends_block(self) -> bool:
        line, self._line = "".join(self._line), []
        fence = _FENCE.match(line)
        rest = line[fence.end() :] if fence else ""
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not rest.strip():
                self._fence = ""
            return False
        if fence and "`" not in rest:
            self._fence = fence[1]
        return not line.strip() and any(piece.strip() for piece in self._block)

    def _close_block(self) -> None:
        text = "".join(self._block)
        if not self._has_tail:
            self._shown.append(_Shown(self._sheet.new_id("t"), self._lines - text.count("\n")))
        self._has_tail = False
        self._held = self._waits = ""
        self._block = []
        self._show_part(self._shown[-1], self._render_text(text))

    def _render_text(self, text: str) -> Markup:
        return Markup("".join(block.html for block in markdown_blocks(text, LIVE, self.find_cell)))

    def _replace_span(self, span: list[_Shown], html: Markup) -> None:
        self._show_part(span[0], html)
        for swallowed in span[1:]:
            self._show_part(swallowed, NOTHING)

    def _show_part(self, shown: _Shown, html: Markup) -> None:
        shown.html = html
        if html:
            self._sheet.put(shown.id, "prose", prose_element(html))
        else:
            self._sheet.remove(shown.id)

    def _grow_tail(self, text: str) -> None:
        """Show more of the open block, or begin to show it."""
        if not self._has_tail:
            block = "".join(self._block)
            text = block.lstrip()
            if not text:
                return
            self._has_tail = True
            self._shown.append(_Shown(self._sheet.new_id("t"), self._lines - block.count("\n")))
            self._open = _OpenEnd()
        ready, self._held = split_unfinished(self._held + text)
        self._waits += ready
        if not self._waits:
            return
        if self._open.grows and (bool(self._fence) or self._open.line == self._lines) and self._is_plain():
            self._open = self._open.with_text(self._waits)
        elif self._may_render():
            self._open = self._rendered_end()
        else:
            return
        self._waits = ""
        if self._open.html:
            self._sheet.put(self._shown[-1].id, "tail", prose_element(self._open.html))

    def _is_plain(self) -> bool:
        """Whether what waits means the same wherever it stands."""
        if self._fence:
            return "".join(self._line).lstrip()[:1] not in ("`", "~")
        return _SAYS_MORE.search(self._waits) is None

    def _may_render(self) -> bool:
        size = sum(map(len, self._block))
        return size <= OFTEN or size - self._open.rendered >= GROWTH * size

    def _rendered_end(self) -> _OpenEnd:
        block = "".join(self._block).removesuffix(self._held)
        in_fence = bool(self._fence)
        shown = (fence_so_far if in_fence else shown_so_far)(readable_text(block))
        html = Markup("".join(one.html for one in markdown_blocks(shown.text, LIVE, self.find_cell)))
        ends = _OPEN_END.search(html)
        assert ends is not None  # it may match nothing
        is_open = in_fence or ends[1].count("<") == shown.closed
        end = _OpenEnd(html, len(ends[0]), self._lines, len(block), shown.grows and is_open)
        return end.with_text(shown.behind) if end.grows else end

    def _forget_text(self, text: str) -> None:
        """The message is another text than the pieces were: show it in their place."""
        for shown in self._shown[1:]:
            self._sheet.remove(shown.id)
        del self._shown[1:]
        for shown in self._shown:
            shown.line, shown.html = 0, NOTHING
        self._pieces = [text]


def prose_element(html: Markup) -> Markup:
    """The element around what the model says."""
    return html_element("div", html, class_="vibe-prose")


def _line_ends(text: str) -> list[int]:
    return [found.end() for found in re.finditer("\n", text)]
