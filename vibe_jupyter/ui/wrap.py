"""Words that come in pieces, kept whole at the right edge of a terminal."""

import re

from vibe_jupyter.ui.paper import columns

FENCES = ("```", "~~~")
"""Lines that begin like this open or close code, which keeps its lines as they are."""

_PIECE = re.compile(r"\n|[^\S\n]+|\S+")


class Wrap:
    """Puts a line end before a word that would be cut. A word is held until what follows says that it is whole."""

    def __init__(self, width: int | None) -> None:
        self._width = width
        """Columns; None where nothing is wrapped."""
        self._column = 0
        self._blank = ""
        """Blanks before the word; they vanish at a line end of ours."""
        self._word = ""
        self._line = ""
        """The line so far, as the model wrote it, as long as it may be a fence."""
        self._in_code = False

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if self._width is None:
            return text
        return "".join(map(self._take, _PIECE.findall(text)))

    def end(self) -> str:
        """The rest; the next text begins a new line."""
        rest = self._flush() if self._width is not None else ""
        self._column, self._line, self._in_code = 0, "", False
        return rest

    def _take(self, piece: str) -> str:
        if piece == "\n":
            shown = self._flush()
            if self._line.lstrip().startswith(FENCES):
                self._in_code = not self._in_code
            self._column, self._line = 0, ""
            return f"{shown}\n"
        self._line += piece if len(self._line) < 8 else ""
        if not piece.isspace():
            self._word += piece
            return ""
        shown = self._flush()
        self._blank = piece
        return shown

    def _flush(self) -> str:
        blank, word = self._blank, self._word
        self._blank = self._word = ""
        needs = columns(blank) + columns(word)
        keeps = self._in_code or self._line.lstrip().startswith(FENCES)
        if word and self._column and self._column + needs > (self._width or needs) and not keeps:
            self._column = columns(word)
            return f"\n{word}"
        self._column += needs
        return blank + word
