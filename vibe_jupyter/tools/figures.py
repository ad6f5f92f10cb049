"""Figures made small enough for a model: at most so many pixels a side, and so many bytes."""

import base64
import binascii
import importlib
import io
import struct
from typing import Any, Final

from vibe_jupyter.protocol import ImagePart

MAX_SIDE: Final = 1024
"""Pixels of the longer side of an image sent."""
MAX_BYTES: Final = 1024 * 1024
"""Bytes of an image sent."""
_MAX_READ: Final = 32 * 1024 * 1024
"""Bytes of an image that is made smaller; a larger one is not opened."""
_MAX_PIXELS: Final = 50_000_000
"""Pixels of an image that is made smaller; more of them would fill the memory."""
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_GIF: Final = (b"GIF87a", b"GIF89a")


def fitting(image: ImagePart) -> ImagePart | None:
    """The image, made smaller if it must be; None if that cannot be done here."""
    try:
        raw = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    side = _longer_side(raw)
    if side is not None and side <= MAX_SIDE and len(raw) <= MAX_BYTES:
        return image
    return _smaller(raw) if len(raw) <= _MAX_READ else None


def _longer_side(raw: bytes) -> int | None:
    """None for a kind whose size is not in its first bytes."""
    if raw.startswith(_PNG) and len(raw) >= 24:
        return max(struct.unpack(">II", raw[16:24]))
    if raw.startswith(_GIF) and len(raw) >= 10:
        return max(struct.unpack("<HH", raw[6:10]))
    return None


def _smaller(raw: bytes) -> ImagePart | None:
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:  # it comes with matplotlib, and need not be there
        return None
    try:
        with pillow.open(io.BytesIO(raw)) as opened:
            if opened.width * opened.height > _MAX_PIXELS:
                return None
            opened.thumbnail((MAX_SIDE, MAX_SIDE))
            out = io.BytesIO()
            opened.save(out, format="PNG")
    except (OSError, ValueError, pillow.DecompressionBombError):
        return None
    if out.tell() > MAX_BYTES:
        return None
    return ImagePart(media_type="image/png", data=base64.b64encode(out.getvalue()).decode("ascii"))
