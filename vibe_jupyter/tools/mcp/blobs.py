"""Bytes that came with a result: a picture if they are one, else a file the person can take."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from vibe_jupyter.protocol import Download, ImagePart, Picture
from vibe_jupyter.tools.figures import fitting
from vibe_jupyter.tools.image_file import raster_type

_TYPE: Final = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,60}")
_UNNAMED: Final = "application/octet-stream"
_ENDINGS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/webm": "webm",
    "application/pdf": "pdf",
    "application/json": "json",
    "image/svg+xml": "svg",
}
_HEAD: Final = 12
"""Bytes that tell the kind of an image."""
_NAME_LIMIT: Final = 80
"""Characters of a file's name."""


@dataclass(frozen=True)
class Blob:
    """As the server sent it."""

    data: str
    """Base64, if it is what it says."""
    media_type: str
    """What the server says."""

    @property
    def kind(self) -> str:
        """The type, if it has the form of one."""
        return self.media_type if _TYPE.fullmatch(self.media_type) else _UNNAMED

    @property
    def words(self) -> str:
        """Kind and size."""
        return f"{self.kind}, {len(self.data) * 3 // 4:,} bytes"

    @property
    def raw(self) -> bytes:
        """The bytes; none where it is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return b""

    @property
    def text(self) -> str | None:
        """What it says, if it is said to be text and is; else None."""
        if not self.kind.startswith("text/") and self.kind != "application/json":
            return None
        try:
            return self.raw.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def as_file(self, name: str) -> Download:
        """Something to take; of a name only the last part, since it may be a whole address."""
        last = re.split(r"[/\\?#]", name.rstrip("/"))[-1].strip() or "file"
        ending = _ENDINGS.get(self.kind, "")
        if ending and "." not in last:
            last = f"{last}.{ending}"
        return Download(name=last[-_NAME_LIMIT:], data=self.data if self.raw else "", path="", media_type=self.kind)


def as_picture(blob: Blob, *, label: str) -> tuple[Picture | None, ImagePart | None]:
    """The picture for the person, and for the model if it can be made small enough; None for what is no picture.

    What it is say its first bytes, whatever the server says.
    """
    kind = raster_type(blob.raw[:_HEAD])
    if kind is None:
        return None, None
    picture = Picture(media_type=kind, data=blob.data, label=label)
    return picture, fitting(ImagePart(media_type=kind, data=blob.data))
