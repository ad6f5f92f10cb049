"""An image file for a model that sees images."""

import base64
from dataclasses import dataclass
from typing import BinaryIO, Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import ImagePart
from vibe_jupyter.tools.figures import MAX_BYTES, MAX_SIDE, fitting

READ_LIMIT: Final = 32 * 1024 * 1024
"""Bytes of an image file that is read to be made smaller."""
_HEAD: Final = 12
"""Bytes that tell the kind."""


@dataclass(frozen=True)
class SeenImage:
    """An image, and what is said of it."""

    part: ImagePart
    said: str


def image_of(file: BinaryIO, name: str) -> SeenImage | None:
    """The image, made smaller where it must be; None for another kind of file, which is then at its start again.

    Raises:
        ToolError: it cannot be made small enough.
    """
    media_type = raster_type(file.read(_HEAD))
    file.seek(0)
    if media_type is None:
        return None
    raw = file.read(READ_LIMIT + 1)
    part = ImagePart(media_type=media_type, data=base64.b64encode(raw).decode("ascii"))
    sent = fitting(part) if len(raw) <= READ_LIMIT else None
    if sent is None:
        raise ToolError(
            f"{name!r} is an image that cannot be sent: at most {MAX_SIDE:,} pixels a side and {MAX_BYTES:,} bytes, "
            "and it could not be made smaller here. Make a smaller copy with run_code."
        )
    was = "" if sent is part else ", made smaller"
    return SeenImage(sent, f"{media_type}, {len(raw):,} bytes{was}; it follows")


def raster_type(head: bytes) -> str | None:
    """The kind of image that begins with these bytes; None for anything else."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None
