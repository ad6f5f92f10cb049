"""File names of requests: validation, format and MIME type."""

import mimetypes
from pathlib import PurePosixPath
from typing import Final

from vibe_jupyter.gateway.refusals import Refused

LONGEST_NAME: Final = 255  # characters
_BINARY: Final = "application/octet-stream"


def plain_name(given: str) -> str:
    """Return the last component of a path as a file name.

    Raises:
        Refused: it isn't a valid name.
    """
    name = PurePosixPath(given.replace("\\", "/")).name
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name in (".", ".."):
        raise Refused(422, "The file needs a plain name.", code="validation_error", param="filename")
    return name


def format_of(name: str) -> str:
    """Return the lower-case extension without its dot."""
    return PurePosixPath(name).suffix.removeprefix(".").lower()


def mime_type(name: str) -> str:
    """Guess the MIME type from the name."""
    return mimetypes.guess_type(name)[0] or _BINARY
