"""Cell references such as ``{{d8dc}}``, displayed as cell numbers. Ids stay valid when cells move; numbers don't."""

import re
from collections.abc import Callable
from typing import Final

from vibe_jupyter.protocol import Cell

FindCell = Callable[[str], Cell | None]  # finds a cell by its id or an id prefix; None if there is no match
REFERENCE: Final = re.compile(r"\{\{([\w-]{1,64})\}\}", re.ASCII)
_NAMED: Final = re.compile(r"\bcells?\s\Z", re.ASCII | re.IGNORECASE)
_PIECE: Final = re.compile(r"\n|`+|~+|\{\{[\w-]{1,64}\}\}|[^\n`~{]+|\{", re.ASCII)
_UNFINISHED: Final = re.compile(r"(?:`+|~+|\{(?:\{[\w-]{0,64}\}?)?)\Z", re.ASCII)
_BEFORE_FENCE: Final = re.compile(r"\s*(?:(?:[-*+>]|\d+[.)])\s+)*\Z")
_FENCE: Final = 3  # characters that open a code block


def no_cell(_reference: str) -> Cell | None:
    """Find no cell (for runs without a notebook)."""
    return None


def cell_words(reference: str, find: FindCell, before: str) -> str:
    """Return ``cell 8``, or ``8`` if the preceding text ends with "cell"; unknown references are returned unchanged."""
    cell = find(reference)
    if cell is None:
        return reference
    return str(cell.number) if _NAMED.search(before) else f"cell {cell.number}"


def with_cell_words(text: str, find: FindCell) -> str:
    """Replace all cell references in a complete text."""
    writer = CellWords(find)
    return writer.feed(text) + writer.end()


class CellWords:
    """Replaces cell references in streamed text. Code is left unchanged."""

    def __init__(self, find: FindCell) -> None:
        self._find = find
        self._held = ""  # trailing text that the next chunk may complete
        self._line = ""
        self._fence = ""  # characters that opened the current code block, or ""
        self._ticks = ""  # backticks that opened the current inline code, or ""

    def feed(self, text: str) -> str:
        """Return the part of the text that can be displayed now."""
        text = self._held + text
        found = _UNFINISHED.search(text)
        ready, self._held = (text[: found.start()], text[found.start() :]) if found else (text, "")
        return "".join(map(self._written, _PIECE.findall(ready)))

    def end(self) -> str:
        """Return the remaining text and reset for the next one."""
        rest = "".join(map(self._written, _PIECE.findall(self._held)))
        self._held = self._line = self._fence = self._ticks = ""
        return rest

    def _written(self, piece: str) -> str:
        if piece == "\n":
            if not self._line.strip():
                self._ticks = ""  # inline code ends with its paragraph at the latest
            self._line = ""
            return piece
        before, self._line = self._line, self._line + piece
        if piece[0] in "`~":
            self._take_marks(piece, begins=_BEFORE_FENCE.match(before) is not None)
        elif (found := REFERENCE.fullmatch(piece)) and not (self._fence or self._ticks):
            return cell_words(found[1], self._find, before)
        return piece

    def _take_marks(self, marks: str, *, begins: bool) -> None:
        if self._fence:
            if begins and marks.startswith(self._fence):
                self._fence = ""
        elif begins and len(marks) >= _FENCE:
            self._fence = marks
        elif marks[0] == "`" and self._ticks in ("", marks):
            self._ticks = "" if self._ticks else marks
