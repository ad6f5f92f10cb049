"""Colors and line breaks for terminals."""

import os
import shutil
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

from vibe_jupyter.protocol import Preview
from vibe_jupyter.ui.code import Kind, code_tokens
from vibe_jupyter.ui.text import escape_hidden, fold_blanks

Ink = Literal["k", "s", "m", "c", "ok", "bad", "warn", "quiet", "strong"]  # token kinds of code, then semantic colors

NARROWEST = 20  # columns of the narrowest terminal that text is fitted to
_TAB = 8  # columns
_INKS: Mapping[Ink, str] = {
    # From the sixteen colors of the user's theme, so that the contrast is right in light and dark themes.
    "k": "35",
    "s": "32",
    "m": "36",
    "c": "2",
    "ok": "32",
    "bad": "31",
    "warn": "33",
    "quiet": "2",
    "strong": "1",
}
_DIFF: Mapping[str, Ink] = {"+": "ok", "-": "bad", "@": "quiet"}


@dataclass(frozen=True)
class TerminalStyle:
    """Text formatting for a terminal."""

    colours: bool = False
    width: int | None = None  # columns; None for no line breaking, as on a notebook's text prompt

    def ink(self, kind: Ink | None, text: str) -> str:
        """Return the text in a color. The text must not contain a newline."""
        return f"\x1b[{_INKS[kind]}m{text}\x1b[0m" if self.colours and kind and text else text

    def fit(self, text: str) -> str:
        """Shorten a line to the terminal's width, ending in ``…``."""
        if self.width is None or text_columns(text) <= self.width:
            return text
        pieces = next(_cut_line([(None, text)], self.width - 1))
        return "".join(piece for _, piece in pieces).rstrip() + "…"

    def fill(self, text: str) -> str:
        """Wrap words to the terminal's width."""
        return text if self.width is None else textwrap.fill(text, self.width)

    def numbered(self, preview: Preview) -> str:
        """Return the whole preview with line numbers, broken at the terminal's width."""
        lines = list(self._preview_lines(preview))
        gutter = len(str(len(lines))) + 4
        return "".join(self._numbered_line(number, line, gutter) for number, line in enumerate(lines, 1))

    def _numbered_line(self, number: int, line: list[tuple[Ink | None, str]], gutter: int) -> str:
        rows = [line] if self.width is None else _cut_line(line, max(self.width - gutter, NARROWEST))
        out: list[str] = []
        for at, row in enumerate(rows):
            head = f"  {number:>{gutter - 4}}  " if at == 0 else "↳ ".rjust(gutter)
            out.append(self.ink("quiet", head) + "".join(self.ink(kind, text) for kind, text in row) + "\n")
        return "".join(out)

    def _preview_lines(self, preview: Preview) -> Iterator[list[tuple[Ink | None, str]]]:
        text = fold_blanks(escape_hidden(preview.text))
        if self.width is not None:
            text = text.expandtabs(_TAB)
        if preview.kind == "diff" or not self.colours:
            for line in text.split("\n"):
                yield [(_DIFF.get(line[:1]) if preview.kind == "diff" else None, line)]
            return
        language = preview.language or ("bash" if preview.kind == "command" else "")
        yield from _by_line(code_tokens(text, language))


PLAIN = TerminalStyle()  # for text prompts whose screen is unknown


def terminal_style(
    stream: TextIO, environment: Mapping[str, str] = os.environ, *, colours: bool = True
) -> TerminalStyle:
    """Return the style for a stream: the terminal's width, and colors unless disabled (https://no-color.org)."""
    if not stream.isatty():
        return PLAIN
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    wanted = colours and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return TerminalStyle(colours=wanted, width=width)


def text_columns(text: str) -> int:
    """Return the number of columns a text takes. Wide characters take two."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(one: str) -> int:
    if unicodedata.category(one) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in ("W", "F") else 1


def _by_line(pieces: Iterator[tuple[Kind | None, str]]) -> Iterator[list[tuple[Ink | None, str]]]:
    line: list[tuple[Ink | None, str]] = []
    for kind, text in pieces:
        first, *rest = text.split("\n")
        line.append((kind, first))
        for piece in rest:
            yield line
            line = [(kind, piece)]
    yield line


def _cut_line(line: list[tuple[Ink | None, str]], width: int) -> Iterator[list[tuple[Ink | None, str]]]:
    """Break a line into rows of at most `width` columns, without losing text. Yields at least one row."""
    row: list[tuple[Ink | None, str]] = []
    room = width
    for kind, text in line:
        start = 0
        for at, one in enumerate(text):
            needs = _character_width(one)
            if needs > room:
                yield [*row, (kind, text[start:at])]
                row, room, start = [], width, at
            room -= needs
        row.append((kind, text[start:]))
    yield row
