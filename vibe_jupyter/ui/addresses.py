"""What an address is to the reader: a link to follow, or a picture that came with the text."""

import base64
import re
import struct

MAX_SIDE = 20_000
"""Pixels; a picture that says to be larger says nothing we believe."""

_PNG = "data:image/png;base64,"
_PNG_HEAD = 32  # characters of base64, which hold the first 24 bytes
_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=%]*", re.IGNORECASE)


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
