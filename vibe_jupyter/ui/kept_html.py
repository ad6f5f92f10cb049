"""Whether HTML from a notebook's file may be shown again: it says nothing but what `static_html` says.

What a kernel shows is trusted by the page, and a file may come from anybody. So it is held against the tags, attributes
and styles of the kept form, in the very spelling of `html_element`: a browser finds no other tags in it than we do.
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
_PLAIN_ATTRIBUTES: Final = frozenset(("align", "alt", "cellpadding", "dir", "download", "rel", "start", "target"))
"""What they say does nothing."""
_PROPERTY_NAMES = """
background-color border border-left border-radius border-top color float font-size font-style font-weight
line-height margin max-width opacity overflow-wrap padding text-align text-decoration vertical-align white-space
word-break
"""
_PROPERTIES: Final = frozenset(_PROPERTY_NAMES.split())
_VALUE: Final = re.compile(r"(?:[a-z0-9#.,()% ]|-(?!\d))+")
"""Of a property: no address, and no negative length, which could lay one thing over another."""
_FILE: Final = re.compile(r"data:application/octet-stream;base64,[A-Za-z0-9+/=]*")
"""The content of a file that is offered for download."""
_OTHER_ENTITY: Final = re.compile(r"&(?!(?:amp|lt|gt|quot|nbsp|#x27|#10);)")
"""One that we do not write: it could stand for a sign that begins a formula."""
_PIECE: Final = re.compile(
    r"""(?P<text>[^<]+)|<(?:/(?P<end>[a-z0-9]+)|(?P<tag>[a-z0-9]+)(?P<attributes>(?:\ [a-z-]+(?:="[^"]*")?)*))>""",
    re.VERBOSE,
)
_ATTRIBUTE: Final = re.compile(r' (?P<name>[a-z-]+)(?:="(?P<value>[^"]*)")?')
_CODE: Final = frozenset({"code", "pre"})
"""Where notebooks look for no formulas."""
_FORMULA: Final = re.compile(r"\\(?:\((?P<inline>.*)\\\)|\[(?P<display>.*)\\\])", re.DOTALL)


def is_kept_form(text: str) -> bool:
    """Whether this is made of nothing but what a run leaves in a notebook."""
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
    """Whether a text outside of code holds no TeX, or one formula as we write it; a lone sign has a span of its own."""
    if _OTHER_ENTITY.search(text):
        return False
    if len(text) == 1 or not ("\\" in text or "$" in text):
        return True
    formula = _FORMULA.fullmatch(html.unescape(text))
    return formula is not None and only_draws(formula["inline"] or formula["display"] or "")
