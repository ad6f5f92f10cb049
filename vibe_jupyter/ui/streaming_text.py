"""Streaming Markdown: one answer of the model, rendered from its first character on.

Finished blocks are rendered once. The open block at the end is rendered again whenever its markup changes, with open
elements closed provisionally; plain words in between are inserted into the existing HTML. Markup whose meaning depends
on the next chunk (half of a `**`, a lone `-` at the start of a line, a table header without its second line) is
withheld until then, so that raw markup never shows.
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

# Characters after a `$` that may be an unclosed formula. If more text follows, the `$` is a currency sign.
FORMULA_LIMIT: Final = 80

# A last line whose meaning the next chunk may change.
_UNDECIDED: Final = re.compile(
    r"[ \t]*(?:(?:[-*+>#|=:_~]|\d+[.)])[ \t]*)+\Z|[ \t]*(?:(?:\d{1,3}|`{1,2}|~)[ \t]*|(?:`{3}|~{3}).*)\Z"
)
_BEGINS_BLOCK: Final = re.compile(r"[ \t]*(?:[-*+][ \t]|\d+[.)][ \t]|>|#{1,6}[ \t]|\Z)")
_FENCE_BEGINS: Final = re.compile(r"[ \t]*(?:`{3}|~{3})")
_LEADING: Final = re.compile(r"[ \t]*(?:(?:[-*+]|\d+[.)]|#{1,6})[ \t]+|>[ \t]?)*")
_ROW: Final = re.compile(r"[ \t]*\|")
_RULE: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\Z")
_INFO: Final = re.compile(r"(\A(?:[^\n]*\n)*?[^\n`~]*(?:`{3,}|~{3,}))[^\n`]*")
_FORMULA_BEGINS: Final = re.compile(r"\$[A-Za-z\\({|-]")
_MARK: Final = re.compile(r"[\\`*_~\[{$!]")  # every character that `_OpenMarks._next` treats as markup
_WORD: Final = re.compile(r"\w")


class ShownMarkdown(NamedTuple):
    """The displayable part of an open block."""

    text: str  # Markdown
    closed: int = 0  # emphasis and code marks closed provisionally at the end
    grows: bool = True  # True if following plain text can be appended
    behind: str = ""  # trailing white space, which Markdown would drop


def fence_so_far(block: str) -> ShownMarkdown:
    """Prepare a block that ends inside a code fence. It is highlighted once it is complete."""
    before, _, last = block.rpartition("\n")
    ends = not last.strip("`~ \t") and bool(last)
    return ShownMarkdown(_INFO.sub(r"\1", before if ends else block, count=1), grows=not ends)


def shown_so_far(block: str) -> ShownMarkdown:
    """Prepare any other open block."""
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
    """Drop trailing lines whose meaning may still change."""
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
    """Scanner for one paragraph that finds the marks still open at its end."""

    def __init__(self, text: str) -> None:
        self.text = text  # displayable text
        self.closers: list[str] = []  # marks that close what is open, innermost first
        self.was_cut = False  # True if an end was withheld
        self._open: list[tuple[str, int]] = []  # open emphasis marks: character and count
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
        """Show only the text of an incomplete link."""
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
        self.was_cut = True  # text inside a formula isn't plain text
        return len(self.text)


REDO_FLOOR = 20_000  # characters of HTML that may always be rendered again when a message ends
# The same as a share of the text. A longer list of many blocks stays in the pieces it arrived in, since the static
# output replaces it anyway.
REDO_SHARE = 0.5

OFTEN = 1_500  # characters; shorter open blocks are rendered with each mark, longer ones once they have grown
GROWTH = 0.04  # by this share

_SAYS_MORE = re.compile(r"[*_`~\[\]()<>&|$\\\n#!{}\t]")  # characters that may be inline Markdown
# Closing tags at the end of a block, inline ones first.
_OPEN_END = re.compile(r"((?:</(?:strong|em|s|code|a|span)>)*)(?:</(?:p|li|ul|ol|blockquote|h\d|pre)>)*\Z")

_FENCE = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})")


@dataclass
class _Shown:
    """A part of the answer on the page."""

    id: str
    line: int  # where its text starts in the answer
    html: Markup = NOTHING  # its blocks as last shown; empty for the tail


@dataclass(frozen=True)
class _OpenEnd:
    """Displayed part of the open block."""

    html: Markup = NOTHING
    closing: int = 0  # characters of closing tags at the end
    line: int = -1  # line of the answer it ends with
    rendered: int = 0  # characters of the block when it was rendered
    grows: bool = False  # True if following plain text can be appended

    def with_text(self, text: str) -> "_OpenEnd":
        at = len(self.html) - self.closing
        html = Markup(f"{self.html[:at]}{escape_text(readable_text(text))}{self.html[at:]}")
        return replace(self, html=html)


class StreamingText:
    """Text of one message. The page receives each chunk once, and each block again when it is complete."""

    def __init__(self, sheet: PartList, find_cell: FindCell = no_cell) -> None:
        self._sheet = sheet
        self.find_cell = find_cell  # resolves cell references
        self._pieces: list[str] = []
        self._shown: list[_Shown] = []
        self._block: list[str] = []  # the open block; its last piece may be a partial line
        self._line: list[str] = []
        self._lines = 0  # newlines seen
        self._fence = ""
        self._has_tail = False
        self._held = ""  # withheld end whose meaning the next chunk may change
        self._waits = ""  # text of the open block that isn't displayed yet
        self._open = _OpenEnd()

    @property
    def text(self) -> str:
        """The text received so far."""
        return "".join(self._pieces)

    def add(self, text: str) -> None:
        """Append a chunk."""
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
        """Set the final text.

        Renders constructs that span blocks again (lists, tables, references) and leaves the rest.
        """
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
        """Return the final HTML of each part, together with any following parts that it absorbs."""
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
        """Display more of the open block."""
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
        """Return whether the waiting text has no markup that depends on its position."""
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
        assert ends is not None  # the pattern can match the empty string
        is_open = in_fence or ends[1].count("<") == shown.closed
        end = _OpenEnd(html, len(ends[0]), self._lines, len(block), shown.grows and is_open)
        return end.with_text(shown.behind) if end.grows else end

    def _forget_text(self, text: str) -> None:
        """Replace the text, which differs from the chunks received."""
        for shown in self._shown[1:]:
            self._sheet.remove(shown.id)
        del self._shown[1:]
        for shown in self._shown:
            shown.line, shown.html = 0, NOTHING
        self._pieces = [text]


def prose_element(html: Markup) -> Markup:
    """Wrap the model's text in its element."""
    return html_element("div", html, class_="vibe-prose")


def _line_ends(text: str) -> list[int]:
    return [found.end() for found in re.finditer("\n", text)]
