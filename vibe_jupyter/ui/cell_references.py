"""Cells that the model names by ``{{d8dc}}``, shown by the number they have: an id stays right when cells move."""

import re
from collections.abc import Callable
from typing import Final

from vibe_jupyter.protocol import Cell

FindCell = Callable[[str], Cell | None]
"""The cell of an id or of the beginning of one; None where none has it."""
REFERENCE: Final = re.compile(r"\{\{([\w-]{1,64})\}\}", re.ASCII)
_NAMED: Final = re.compile(r"\bcells?\s\Z", re.ASCII | re.IGNORECASE)
_PIECE: Final = re.compile(r"\n|`+|~+|\{\{[\w-]{1,64}\}\}|[^\n`~{]+|\{", re.ASCII)
_UNFINISHED: Final = re.compile(r"(?:`+|~+|\{(?:\{[\w-]{0,64}\}?)?)\Z", re.ASCII)
_BEFORE_FENCE: Final = re.compile(r"\s*(?:(?:[-*+>]|\d+[.)])\s+)*\Z")
_FENCE: Final = 3
"""Marks that open a block of code."""


def no_cell(_reference: str) -> Cell | None:
    """Where no notebook is known."""
    return None


def cell_words(reference: str, find: FindCell, before: str) -> str:
    """``cell 8``, or ``8`` where the text before it ends with "cell"; the reference itself where it names none."""
    cell = find(reference)
    if cell is None:
        return reference
    return str(cell.number) if _NAMED.search(before) else f"cell {cell.number}"


def with_cell_words(text: str, find: FindCell) -> str:
    """A whole text, its references as words."""
    writer = CellWords(find)
    return writer.feed(text) + writer.end()


class CellWords:
    """Writes the references of a text that comes in pieces as words. Code stays as it is."""

    def __init__(self, find: FindCell) -> None:
        self._find = find
        self._held = ""
        """An end that the next piece may complete."""
        self._line = ""
        self._fence = ""
        """The marks that opened a block of code; empty outside one."""
        self._ticks = ""
        """Those that opened code within a line."""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        text = self._held + text
        found = _UNFINISHED.search(text)
        ready, self._held = (text[: found.start()], text[found.start() :]) if found else (text, "")
        return "".join(map(self._written, _PIECE.findall(ready)))

    def end(self) -> str:
        """The rest; what comes next is another text."""
        rest = "".join(map(self._written, _PIECE.findall(self._held)))
        self._held = self._line = self._fence = self._ticks = ""
        return rest

    def _written(self, piece: str) -> str:
        if piece == "\n":
            if not self._line.strip():
                self._ticks = ""  # code within a line ends with the paragraph at the latest
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
