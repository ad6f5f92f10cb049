"""Validation of saved run HTML before it is displayed again: it may contain only what `static_html` writes.

Pages trust what a kernel displays, but a notebook file may come from anyone. So the HTML must consist of the tags,
attributes and styles of our static output, in the exact spelling of `html_element`. With that spelling, a browser finds
the same tags as this parser.
"""

import html
import re
from collections.abc import Iterator
from typing import Final

from vibe_jupyter.ui.icons import SIDE
from vibe_jupyter.ui.markdown_html import only_draws
from vibe_jupyter.ui.markup import is_link, is_picture

_TAG_NAMES = """
a b blockquote br code details div em h3 h4 h5 h6 hr img li ol p pre s span strong summary table tbody td th thead tr ul
"""
_TAGS: Final = frozenset(_TAG_NAMES.split())
# Attributes whose values have no effect.
_PLAIN_ATTRIBUTES: Final = frozenset(("align", "alt", "cellpadding", "dir", "download", "rel", "start", "target"))
_PROPERTY_NAMES = """
background-color border border-left border-radius border-top color float font-size font-style font-weight
line-height margin max-width opacity overflow-wrap padding text-align text-decoration vertical-align white-space
word-break
"""
_PROPERTIES: Final = frozenset(_PROPERTY_NAMES.split())
# A CSS value without URLs or negative lengths, which could lay one element over another.
_VALUE: Final = re.compile(r"(?:[a-z0-9#.,()% ]|-(?!\d))+")
# Content of a file offered for download.
_FILE: Final = re.compile(r"data:application/octet-stream;base64,[A-Za-z0-9+/=]*")
# An entity that we never write: it could encode a formula delimiter.
_OTHER_ENTITY: Final = re.compile(r"&(?!(?:amp|lt|gt|quot|nbsp|#x27|#10);)")
_PIECE: Final = re.compile(
    r"""(?P<text>[^<]+)|<(?:/(?P<end>[a-z0-9]+)|(?P<tag>[a-z0-9]+)(?P<attributes>(?:\ [a-z-]+(?:="[^"]*")?)*))>""",
    re.VERBOSE,
)
_ATTRIBUTE: Final = re.compile(r' (?P<name>[a-z-]+)(?:="(?P<value>[^"]*)")?')
_CODE: Final = frozenset({"code", "pre"})  # elements in which notebooks don't typeset formulas
_FORMULA: Final = re.compile(r"\\(?:\((?P<inline>.*)\\\)|\[(?P<display>.*)\\\])", re.DOTALL)


def is_kept_form(text: str) -> bool:
    """Return whether the HTML consists only of what a run writes to a notebook."""
    return all(_pieces_are_ours(text))


def _pieces_are_ours(source: str) -> Iterator[bool]:
    place, inside_code = 0, 0
    while place < len(source):
        piece = _PIECE.match(source, place)
        if piece is None:
            yield False
            return
        place = piece.end()
        if piece["text"] is not None:
            yield inside_code > 0 or _draws_no_formula(piece["text"])
        elif piece["end"] is not None:
            inside_code -= piece["end"] in _CODE
            yield piece["end"] in _TAGS and inside_code >= 0
        else:
            inside_code += piece["tag"] in _CODE
            yield piece["tag"] in _TAGS and all(map(_is_ours, _ATTRIBUTE.finditer(piece["attributes"])))


def _is_ours(attribute: re.Match[str]) -> bool:
    name, value = attribute["name"], attribute["value"] or ""
    match name:
        case "style":
            return all(map(_is_harmless, filter(None, value.split(";"))))
        case "href":
            return is_link(value) or _FILE.fullmatch(value) is not None
        case "src":
            return is_picture(value)
        case "width" | "height":
            return value == str(SIDE)
        case _:
            return name in _PLAIN_ATTRIBUTES


def _is_harmless(declaration: str) -> bool:
    name, _, value = declaration.partition(":")
    return name in _PROPERTIES and _VALUE.fullmatch(value) is not None


def _draws_no_formula(text: str) -> bool:
    """Return whether text outside code has no TeX, or is one formula as we write it.

    Single characters pass: `inert_text` puts each TeX delimiter into its own span.
    """
    if _OTHER_ENTITY.search(text):
        return False
    if len(text) == 1 or not ("\\" in text or "$" in text):
        return True
    formula = _FORMULA.fullmatch(html.unescape(text))
    return formula is not None and only_draws(formula["inline"] or formula["display"] or "")
