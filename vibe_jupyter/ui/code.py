"""Syntax highlighting as HTML: CSS classes in the live view, bold and italics in the saved output."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType] (untyped options)
from pygments.token import (
    Token,  # pyright: ignore[reportPrivateUsage] (it has no public name)
    _TokenType,  # pyright: ignore[reportPrivateUsage] (it has no public name)
)

from vibe_jupyter.protocol import Preview
from vibe_jupyter.ui.markup import Markup, escape_text, html_element
from vibe_jupyter.ui.text import fold_blanks

HIGHLIGHT_LIMIT = 10_000  # characters; longer code isn't highlighted (lexing this much takes 50 ms)
CACHED = 16  # highlighted texts to cache: a step is rendered again whenever it prints something

Kind = Literal["k", "s", "m", "c"]  # keyword, string, number, comment: the only token kinds with a style
CodeLook = Mapping[Kind, str]  # attribute of a token's span, by kind

LIVE: CodeLook = {"k": 'class="vibe-k"', "s": 'class="vibe-s"', "m": 'class="vibe-m"', "c": 'class="vibe-c"'}
# Weight and slant rather than color: no color is readable on both light and dark backgrounds.
KEPT: CodeLook = {"k": 'style="font-weight:bold"', "c": 'style="font-style:italic;opacity:0.75"'}
# The link color is up to the viewer and may not set links apart from the surrounding text.
KEPT_LINK = "text-decoration:underline"
KEPT_LEFT = "text-align:left"  # table cells: JupyterLab aligns them right by default
KEPT_RIGHT = "text-align:right"  # right-to-left paragraphs: JupyterLab aligns them left by default
# JupyterLab breaks code inside words and adds no margin, and printed pages can't scroll.
KEPT_PRE = "margin:6px 0;white-space:pre-wrap;word-break:normal;overflow-wrap:break-word"
# Translucent backgrounds of diff lines: the page shows through, so text is readable on light and dark.
KEPT_CHANGES: Mapping[str, str] = {
    "add": "background-color:rgba(46,160,67,0.2)",
    "del": "background-color:rgba(229,83,75,0.2)",
}

KEPT_WORD = "background-color:rgba(127,127,127,0.35)"  # changed words, on top of the line's background

Marks = tuple[tuple[tuple[int, int], ...], ...]  # character ranges, per line

_KINDS: tuple[tuple[_TokenType, Kind], ...] = (
    (Token.Comment, "c"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
)
# Accepted language names. A fixed list, since Pygments searches all installed packages for unknown ones.
_LANGUAGES: Mapping[str, str] = {
    **dict.fromkeys(("python", "py", "python3", "ipython", "ipython3"), "python"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh"), "bash"),
    **dict.fromkeys(("javascript", "js"), "javascript"),
    **dict.fromkeys(("typescript", "ts"), "typescript"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("rust", "rs"), "rust"),
    **dict.fromkeys(("cpp", "c++"), "cpp"),
    **{name: name for name in ("json", "toml", "sql", "html", "css", "c", "java", "go", "r", "julia", "xml", "ini")},
}


_WRITTEN_OUT = re.compile(r"⟨(?:U\+[0-9A-F]{4,6}|[\d,]+ blanks)⟩")
_ODD_BLANK = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def code_lines(text: str, language: str, look: CodeLook, marks: Marks = ()) -> tuple[Markup, ...]:
    """Render code as one safe HTML fragment per line.

    Args:
        text: The code.
        language: Language name, or "" for no highlighting.
        look: Live or static styles.
        marks: Character ranges to highlight per line, in ascending order.
    """
    return _coloured_lines(text, language, look is LIVE, marks)


def code_html(text: str, language: str, look: CodeLook) -> Markup:
    """Render code as one fragment, with its newlines."""
    return Markup("\n".join(code_lines(text, language, look)))


def code_line(
    line: Markup, change: str | None = None, number: str | None = None, old_number: str | None = None
) -> Markup:
    """Render one line. The newline goes inside the element, where it adds no empty line but is still copied."""
    return html_element(
        "span",
        _marked_line(line),
        Markup("\n"),
        class_="vibe-line",
        data_change=change,
        data_o=old_number,
        data_n=number,
    )


def _marked_line(line: Markup) -> Markup:
    """Highlight escaped hidden characters, and escape unusual spaces that programs don't treat as blanks."""
    shown = _ODD_BLANK.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", line)
    return Markup(_WRITTEN_OUT.sub(lambda found: f'<span class="vibe-hidden">{found[0]}</span>', shown))


def preview_language(preview: Preview) -> str:
    return preview.language or ("bash" if preview.kind == "command" else "")


def line_digits(greatest: int) -> str | None:
    """Return the width of the line-number column if it exceeds the default, else None."""
    digits = len(str(greatest))
    return str(min(digits, 6)) if digits > 3 else None


@lru_cache(CACHED)
def _coloured_lines(text: str, language: str, is_live: bool, marks: Marks) -> tuple[Markup, ...]:
    look = LIVE if is_live else KEPT
    lines: list[list[str]] = [[]]
    column = 0
    for kind, value in code_tokens(text, language):
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append([])
                column = 0
            if piece:
                ranges = marks[len(lines) - 1] if len(lines) <= len(marks) else ()
                lines[-1] += [
                    _marked_span(_code_span(kind, part, look), is_live) if is_marked else _code_span(kind, part, look)
                    for part, is_marked in _cut_at_marks(piece, column, ranges)
                ]
                column += len(piece)
    return tuple(Markup("".join(pieces)) for pieces in lines)


def _cut_at_marks(text: str, column: int, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """Split a text that starts at `column` into pieces, each with whether it is highlighted."""
    place = column
    for start, end in ranges:
        first, last = (min(max(one, place), column + len(text)) for one in (start, end))
        if first > place:
            yield text[place - column : first - column], False
        if last > first:
            yield text[first - column : last - column], True
        place = max(place, last)
    if place < column + len(text):
        yield text[place - column :], False


def _marked_span(html: str, is_live: bool) -> str:
    shown_as = 'class="vibe-word"' if is_live else f'style="{KEPT_WORD}"'
    return f"<span {shown_as}>{html}</span>"


def _code_span(kind: Kind | None, text: str, look: CodeLook) -> str:
    safe = escape_text(fold_blanks(text))
    shown_as = look.get(kind) if kind and not text.isspace() else None
    return f"<span {shown_as}>{safe}</span>" if shown_as else safe


def code_tokens(text: str, language: str) -> Iterator[tuple[Kind | None, str]]:
    """Yield pieces of the text with their kind, merging adjacent pieces of the same kind."""
    lexer = _find_lexer(language) if len(text) <= HIGHLIGHT_LIMIT else None
    plain = text.replace("\r\n", "\n")
    if lexer is None:
        yield None, plain
        return
    last: Kind | None = None
    pieces: list[str] = []
    # Not `get_tokens`, which strips leading newlines and appends a trailing one.
    for _, token, value in lexer.get_tokens_unprocessed(plain):
        kind = _token_kind(token)
        if kind != last and pieces:
            yield last, "".join(pieces)
            pieces = []
        last = kind
        pieces.append(value)
    yield last, "".join(pieces)


def _token_kind(token: _TokenType) -> Kind | None:
    return next((kind for family, kind in _KINDS if token in family), None)


def _find_lexer(language: str) -> Lexer | None:
    name = _LANGUAGES.get(language.lower())
    return get_lexer_by_name(name) if name else None
