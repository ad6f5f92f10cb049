"""Images for multimodal models: detection and downscaling."""

import base64
import binascii
import importlib
import io
import struct
from typing import Any, BinaryIO, Final, NamedTuple

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import ImagePart

READ_LIMIT: Final = 32 * 1024 * 1024  # bytes of an image file that are read
_HEAD: Final = 12  # bytes needed to detect the type

MAX_SIDE: Final = 1024  # pixels of the longer side of an image that is sent
MAX_BYTES: Final = 1024 * 1024  # bytes of an image that is sent
_MAX_READ: Final = 32 * 1024 * 1024  # bytes; larger images aren't opened
_MAX_PIXELS: Final = 50_000_000  # pixels; larger images would exhaust memory when decoded
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_GIF: Final = (b"GIF87a", b"GIF89a")


class SeenImage(NamedTuple):
    """An image and its caption for the model."""

    part: ImagePart
    said: str


def read_image(file: BinaryIO, name: str) -> SeenImage | None:
    """Read an image, downscaled if necessary. Returns None for other files, and rewinds them.

    Raises:
        ToolError: It can't be made small enough.
    """
    media_type = raster_type(file.read(_HEAD))
    file.seek(0)
    if media_type is None:
        return None
    raw = file.read(READ_LIMIT + 1)
    part = ImagePart(media_type=media_type, data=base64.b64encode(raw).decode("ascii"))
    sent = fit_image(part) if len(raw) <= READ_LIMIT else None
    if sent is None:
        raise ToolError(
            f"{name!r} is an image that cannot be sent: at most {MAX_SIDE:,} pixels a side and {MAX_BYTES:,} bytes, "
            "and it could not be made smaller here. Make a smaller copy with run_code."
        )
    was = "" if sent is part else ", made smaller"
    return SeenImage(sent, f"{media_type}, {len(raw):,} bytes{was}; it follows")


def raster_type(head: bytes) -> str | None:
    """Return the MIME type of an image by its first bytes, or None."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def fit_image(image: ImagePart) -> ImagePart | None:
    """Downscale the image if necessary. Returns None if that isn't possible here."""
    try:
        raw = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    side = _longer_side(raw)
    if side is not None and side <= MAX_SIDE and len(raw) <= MAX_BYTES:
        return image
    return _smaller_image(raw) if len(raw) <= _MAX_READ else None


def _longer_side(raw: bytes) -> int | None:
    """Return the longer side in pixels, or None for formats without a size in the header."""
    if raw.startswith(_PNG) and len(raw) >= 24:
        return max(struct.unpack(">II", raw[16:24]))
    if raw.startswith(_GIF) and len(raw) >= 10:
        return max(struct.unpack("<HH", raw[6:10]))
    return None


def _smaller_image(raw: bytes) -> ImagePart | None:
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:  # Pillow is optional; it comes with matplotlib
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
