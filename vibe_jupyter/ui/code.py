"""Source code as coloured HTML: by class names in the live view, by weight and slant in what the notebook keeps."""

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

HIGHLIGHT_LIMIT = 10_000
"""Characters above which code stays without colours: lexing them takes 50 ms."""
CACHED = 16
"""Texts whose colours are remembered: a step is redrawn whenever it prints something."""

Kind = Literal["k", "s", "m", "c"]
"""Keyword, string, number, comment: the only four things that get a colour."""
CodeLook = Mapping[Kind, str]
"""How a kind is expressed: the attribute its span gets."""

LIVE: CodeLook = {"k": 'class="vibe-k"', "s": 'class="vibe-s"', "m": 'class="vibe-m"', "c": 'class="vibe-c"'}
KEPT: CodeLook = {"k": 'style="font-weight:bold"', "c": 'style="font-style:italic;opacity:0.75"'}
"""No colour reads well on white and on dark; weight and slant do."""
KEPT_LINK = "text-decoration:underline"
"""Its colour is the viewer's; alone it would not tell a link from the words around it."""
KEPT_LEFT = "text-align:left"
"""For cells of a table: JupyterLab would have them to the right."""
KEPT_RIGHT = "text-align:right"
"""For a paragraph that is read from there: JupyterLab would have it to the left."""
KEPT_PRE = "margin:6px 0;white-space:pre-wrap;word-break:normal;overflow-wrap:break-word"
"""JupyterLab breaks code in the middle of words and leaves no space around it; paper has no room to scroll."""
KEPT_CHANGES: Mapping[str, str] = {
    "add": "background-color:rgba(46,160,67,0.2)",
    "del": "background-color:rgba(229,83,75,0.2)",
}
"""Tints behind lines of a diff: the ground of the page comes through, so text on them reads on white and on dark."""

KEPT_WORD = "background-color:rgba(127,127,127,0.35)"
"""Behind a word that changed, on top of the tint of its line."""

Marks = tuple[tuple[tuple[int, int], ...], ...]
"""For each line, ranges of its characters."""

_KINDS: tuple[tuple[_TokenType, Kind], ...] = (
    (Token.Comment, "c"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
)
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
"""Names a text may ask for; a fixed list, since Pygments looks up unknown ones among all installed packages."""


_WRITTEN_OUT = re.compile(r"⟨(?:U\+[0-9A-F]{4,6}|[\d,]+ blanks)⟩")
_ODD_BLANK = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def code_lines(text: str, language: str, look: CodeLook, marks: Marks = ()) -> tuple[Markup, ...]:
    """One safe piece of HTML for each line.

    Args:
        text: the code.
        language: its name; empty for no colours.
        look: live or kept.
        marks: for each line, the ranges of its characters that stand out, in order.
    """
    return _coloured_lines(text, language, look is LIVE, marks)


def code_html(text: str, language: str, look: CodeLook) -> Markup:
    """The same as one piece, line ends kept."""
    return Markup("\n".join(code_lines(text, language, look)))


def code_line(
    line: Markup, change: str | None = None, number: str | None = None, old_number: str | None = None
) -> Markup:
    """The line end stands inside, where it draws no empty line and is still copied."""
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
    """What was hidden stands out, and blanks that are none to a program are written out too."""
    shown = _ODD_BLANK.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", line)
    return Markup(_WRITTEN_OUT.sub(lambda found: f'<span class="vibe-hidden">{found[0]}</span>', shown))


def preview_language(preview: Preview) -> str:
    return preview.language or ("bash" if preview.kind == "command" else "")


def line_digits(greatest: int) -> str | None:
    """How wide line numbers get, where it is wider than usual."""
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
    """Pieces of a text that begins at a column, and whether each stands out."""
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
    """Pieces of the text with their kind, neighbours of one kind joined."""
    lexer = _find_lexer(language) if len(text) <= HIGHLIGHT_LIMIT else None
    plain = text.replace("\r\n", "\n")
    if lexer is None:
        yield None, plain
        return
    last: Kind | None = None
    pieces: list[str] = []
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
