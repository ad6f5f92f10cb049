"""What a file's name says."""

import mimetypes
from pathlib import PurePosixPath
from typing import Final

from vibe_jupyter.gateway.refusals import Refused

LONGEST_NAME: Final = 255
"""Characters."""
_BINARY: Final = "application/octet-stream"


def plain_name(given: str) -> str:
    """A file's name without folders.

    Raises:
        Refused: nothing that can be a name is left.
    """
    name = PurePosixPath(given.replace("\\", "/")).name
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name in (".", ".."):
        raise Refused(422, "The file needs a plain name.", code="validation_error", param="filename")
    return name


def format_of(name: str) -> str:
    """What its name says that it is."""
    return PurePosixPath(name).suffix.removeprefix(".").lower()


def mime_type(name: str) -> str:
    """The same, as HTTP spells it."""
    return mimetypes.guess_type(name)[0] or _BINARY
