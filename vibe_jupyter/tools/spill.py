"""Results too long for a model: their beginning and end go to it, the whole into a file it can page through.

shown = spill(text, folder)    # ends in: the whole is kept; read_file path=result:3f9a1c2b04d5
kept(handle, folder)           # the file behind such a path
"""

import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Final

from vibe_jupyter.protocol import TextPart, ToolResult
from vibe_jupyter.tools.truncate import RESULT_LIMIT, head_and_tail

KEPT_LIMIT: Final = 20_000_000
"""Bytes of one result that are kept."""
_NOTE_ROOM: Final = 200
"""Characters for the line that names the handle."""
_PREFIX: Final = "result:"
_HANDLE: Final = re.compile(rf"{_PREFIX}([0-9a-f]{{12}})")
_FOLDER: Final = "results"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def spill(text: str, folder: Path | None, limit: int = RESULT_LIMIT) -> str:
    """At most `limit` characters; what is longer is kept below `folder`, the session's own, if there is one."""
    if len(text) <= limit:
        return text
    note = _kept_note(text, folder) if folder is not None else ""
    return head_and_tail(text, limit - _NOTE_ROOM if note else limit) + note


def spilled(result: ToolResult, folder: Path | None, limit: int = RESULT_LIMIT) -> ToolResult:
    """The result with each of its texts no longer than that."""
    parts = tuple(
        part.model_copy(update={"text": spill(part.text, folder, limit)}) if isinstance(part, TextPart) else part
        for part in result.parts
    )
    return result if parts == result.parts else result.model_copy(update={"parts": parts})


def is_handle(path: str) -> bool:
    """Whether a path names a kept result and no file of the project."""
    return _HANDLE.fullmatch(path) is not None


def kept(handle: str, folder: Path | None) -> Path | None:
    """The file of a kept result; None when there is none."""
    found = _HANDLE.fullmatch(handle)
    if found is None or folder is None:
        return None
    place = _place(folder, found[1])
    return place if place.is_file() and not place.is_symlink() else None


def _kept_note(text: str, folder: Path) -> str:
    raw = text.encode("utf-8", "replace")
    name = hashlib.sha256(raw).hexdigest()[:12]
    place = _place(folder, name)
    try:
        if not place.exists():
            _keep(place, raw[:KEPT_LIMIT])
    except OSError as error:
        return f"\n[The whole could not be kept: {error.strerror}.]"
    cut = f" (its first {KEPT_LIMIT:,} bytes)" if len(raw) > KEPT_LIMIT else ""
    lines = text.count("\n") + 1
    return f"\n[All {len(text):,} characters in {lines:,} lines{cut}: read_file path={_PREFIX}{name}]"


def _keep(place: Path, raw: bytes) -> None:
    place.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    temporary = place.with_suffix(f".{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb") as file:
            file.write(raw)
        temporary.replace(place)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _place(folder: Path, name: str) -> Path:
    return folder / _FOLDER / f"{name}.txt"
