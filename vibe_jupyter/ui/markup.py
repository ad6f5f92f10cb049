"""The few lines all HTML of this package is written with, and which addresses may be in it."""

import base64
import html
import re
import struct
from typing import NewType

from vibe_jupyter.ui.text import HIDDEN, escape_hidden

Markup = NewType("Markup", str)
"""HTML that is safe to insert: written by us, every foreign text in it escaped."""

_TYPESETTERS = re.compile(r"[$\\]")

_SPECIAL = re.compile(r"[^ !#-%(-;=?-~]")
"""A character of an attribute that `escape_text` may write otherwise; most attributes have none."""

NOTHING = Markup("")

MAX_SIDE = 20_000
"""Pixels; a picture that says to be larger says nothing we believe."""

_PNG = "data:image/png;base64,"
_PNG_HEAD = 32  # characters of base64, which hold the first 24 bytes
_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=%]*", re.IGNORECASE)


def escape_text(text: str) -> Markup:
    """Text for an element or a quoted attribute; hidden characters are written out."""
    return Markup(html.escape(text if HIDDEN.search(text) is None else escape_hidden(text)))


def inert_text(text: str) -> Markup:
    """`escape_text` for text outside of code, where notebooks look for formulas.

    Every dollar and backslash stands in an element of its own: MathJax never joins delimiters across elements.
    """
    return Markup(_TYPESETTERS.sub(r"<span>\g<0></span>", escape_text(text)))


def html_element(name: str, *children: Markup, **attributes: str | bool | None) -> Markup:
    """An element; ``_`` in an attribute's name is ``-``, a trailing one is dropped, None and False leave it out."""
    written = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written += f" {key.rstrip('_').replace('_', '-')}"
        if value is not True:
            written += f'="{escape_text(value) if _SPECIAL.search(value) else value}"'
    return Markup(f"<{name}{written}>{''.join(children)}</{name}>")


def join_markup(*pieces: Markup) -> Markup:
    """Pieces one after the other."""
    return Markup("".join(pieces))


def is_link(address: str) -> bool:
    """Whether a click on it may lead somewhere."""
    return _LINK.match(address) is not None


def is_picture(address: str) -> bool:
    """Whether it is a raster picture that came with the text."""
    return _PICTURE.fullmatch(address) is not None


def picture_size(address: str) -> tuple[str, str] | None:
    """Width and height of a PNG in pixels, so that the page leaves room for it; None for other kinds."""
    if not address.lower().startswith(_PNG):
        return None
    try:
        head = base64.b64decode(address[len(_PNG) :][:_PNG_HEAD], validate=True)
        width, height = struct.unpack(">II", head[16:24])
    except (ValueError, struct.error):
        return None
    return (str(width), str(height)) if 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE else None
