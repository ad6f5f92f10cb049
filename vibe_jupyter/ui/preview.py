"""What a call will do, whole, as HTML: code and commands with numbered lines, a diff with its signs, or words."""

import re
from collections.abc import Sequence

from vibe_jupyter.protocol import Preview
from vibe_jupyter.ui.code import KEPT, KEPT_CHANGES, KEPT_PRE, LIVE, Look, code_html, code_lines
from vibe_jupyter.ui.diff import DiffLine, Fold, folded, read_diff
from vibe_jupyter.ui.markup import Markup, element, escape, inert, joined
from vibe_jupyter.ui.text import plural

_WRITTEN_OUT = re.compile(r"⟨(?:U\+[0-9A-F]{4,6}|[\d,]+ blanks)⟩")
_ODD_BLANK = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_SIGNS = {"add": "+", "del": "-", "same": " "}


def preview_html(preview: Preview, look: Look) -> Markup:
    """Everything of it."""
    if preview.kind == "text":
        return element("div", inert(preview.text), class_="vibe-words" if look is LIVE else None)
    if look is not LIVE:
        kept = _kept_diff(preview) if preview.kind == "diff" else code_html(preview.text, _language(preview), KEPT)
        return element("pre", element("code", kept), style=KEPT_PRE)
    if preview.kind == "diff":
        lines = _diff(preview)
        digits = max((line.number or 0 for line in read_diff(preview.text)), default=0)
        return element("div", *lines, class_="vibe-code vibe-diff", data_digits=_digits(digits))
    lines = [_line(line) for line in code_lines(preview.text, _language(preview), LIVE)]
    code = element("code", *lines)
    is_command = preview.kind == "command" and len(lines) == 1
    return element(
        "pre", code, class_="vibe-code", data_digits=_digits(len(lines)), data_kind="command" if is_command else None
    )


def _diff(preview: Preview) -> list[Markup]:
    lines = read_diff(preview.text)
    coloured = dict(zip(map(id, lines), _coloured(lines, _language(preview)), strict=True))
    return [
        _fold(piece, [coloured[id(line)] for line in piece.lines]) if isinstance(piece, Fold) else coloured[id(piece)]
        for piece in folded(lines)
    ]


def _coloured(lines: Sequence[DiffLine], language: str) -> list[Markup]:
    """Old and new text are coloured apart, since each is a text of its own."""
    old = iter(code_lines("\n".join(line.text for line in lines if line.kind in ("same", "del")), language, LIVE))
    new = iter(code_lines("\n".join(line.text for line in lines if line.kind in ("same", "add")), language, LIVE))
    out: list[Markup] = []
    for line in lines:
        number = str(line.number) if line.number is not None else None
        match line.kind:
            case "same":
                next(old)
                out.append(_line(next(new), line.kind, number))
            case "add":
                out.append(_line(next(new), line.kind, number))
            case "del":
                out.append(_line(next(old), line.kind, number))
            case _:
                out.append(_line(escape(line.text), line.kind))
    return out


def _fold(fold: Fold, lines: Sequence[Markup]) -> Markup:
    words = element("summary", escape(plural(len(fold.lines), "unchanged line")))
    return element("details", words, *lines, class_="vibe-same")


def _line(line: Markup, change: str | None = None, number: str | None = None) -> Markup:
    """The line end stands inside, where it draws no empty line and is still copied."""
    return element("span", _marked(line), Markup("\n"), class_="vibe-line", data_change=change, data_n=number)


def _marked(line: Markup) -> Markup:
    """What was hidden stands out, and blanks that are none to a program are written out too."""
    shown = _ODD_BLANK.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", line)
    return Markup(_WRITTEN_OUT.sub(lambda found: f'<span class="vibe-hidden">{found[0]}</span>', shown))


def _kept_diff(preview: Preview) -> Markup:
    """Signs carry it; a tint that lets the ground through stands behind them where styles are kept."""
    out: list[Markup] = []
    for line in read_diff(preview.text):
        if line.kind == "gap":
            text = escape(f"⋯ {line.text}")
        elif line.kind in ("name", "note"):
            text = escape(line.text)
        else:
            text = joined(escape(_SIGNS[line.kind]), *code_lines(line.text, "", LIVE))
        style = KEPT_CHANGES.get(line.kind)
        out.append(element("span", text, style=style) if style else text)
    return Markup("\n".join(out))


def _language(preview: Preview) -> str:
    return preview.language or ("bash" if preview.kind == "command" else "")


def _digits(greatest: int) -> str | None:
    """How wide line numbers get, where it is wider than usual."""
    digits = len(str(greatest))
    return str(min(digits, 6)) if digits > 3 else None
