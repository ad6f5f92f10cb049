"""HTML building blocks of this package, and checks of the addresses allowed in it."""

import base64
import html
import re
import struct
from typing import NewType

from vibe_jupyter.ui.text import HIDDEN, escape_hidden

Markup = NewType("Markup", str)  # HTML that is safe to insert: written by us, with all foreign text escaped

_TYPESETTERS = re.compile(r"[$\\]")

# Matches attribute characters that `escape_text` may change. Most attributes have none.
_SPECIAL = re.compile(r"[^ !#-%(-;=?-~]")

# Matches characters that `inert_text` may change.
_NOT_INERT = re.compile(r"[^ !#%(-;=?-\[\]-~]")

NOTHING = Markup("")

MAX_SIDE = 20_000  # pixels; larger claimed image sizes are ignored

_PNG = "data:image/png;base64,"
_PNG_HEAD = 32  # characters of base64, which hold the first 24 bytes
_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=%]*", re.IGNORECASE)


def escape_text(text: str) -> Markup:
    """Escape text for an element or a quoted attribute. Hidden characters become visible codes."""
    return Markup(html.escape(text if HIDDEN.search(text) is None else escape_hidden(text)))


def inert_text(text: str) -> Markup:
    """Escape text outside code, where notebooks typeset formulas.

    Each dollar sign and backslash goes into its own element, since MathJax doesn't join delimiters across elements.
    """
    if _NOT_INERT.search(text) is None:
        return Markup(text)
    return Markup(_TYPESETTERS.sub(r"<span>\g<0></span>", escape_text(text)))


def html_element(name: str, *children: Markup, **attributes: str | bool | None) -> Markup:
    """Build an element.

    In attribute names ``_`` becomes ``-`` and a trailing ``_`` is dropped. Attributes that are None or False are
    omitted.
    """
    written = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written += f" {key.rstrip('_').replace('_', '-')}"
        if value is not True:
            written += f'="{escape_text(value) if _SPECIAL.search(value) else value}"'
    return Markup(f"<{name}{written}>{''.join(children)}</{name}>")


def join_markup(*pieces: Markup) -> Markup:
    return Markup("".join(pieces))


def is_link(address: str) -> bool:
    """Return whether the address is an allowed link target (http, https or mailto)."""
    return _LINK.match(address) is not None


def is_picture(address: str) -> bool:
    """Return whether the address is an embedded raster image."""
    return _PICTURE.fullmatch(address) is not None


def picture_size(address: str) -> tuple[str, str] | None:
    """Return width and height of an embedded PNG in pixels, for the page to reserve space; None for other formats."""
    if not address.lower().startswith(_PNG):
        return None
    try:
        head = base64.b64decode(address[len(_PNG) :][:_PNG_HEAD], validate=True)
        width, height = struct.unpack(">II", head[16:24])
    except (ValueError, struct.error):
        return None
    return (str(width), str(height)) if 0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE else None
