"""What tells one state of a file from another: what a person was shown is what is replaced, or nothing (C14)."""

import hashlib
import os
from typing import BinaryIO, Final

HASHED: Final = 64_000_000
"""Bytes up to which the content is compared; larger files are told apart by size and time."""
_CHUNK: Final = 1_048_576
"""Bytes read at a time."""
_BY_STATUS: Final = "status:"


def of_content(content: bytes) -> str:
    """The fingerprint of a file that holds this."""
    return hashlib.sha256(content).hexdigest()


def of_file(file: BinaryIO) -> str:
    """The fingerprint of an open file, which is then at its start."""
    status = os.fstat(file.fileno())
    if status.st_size > HASHED:
        return of_status(status)
    file.seek(0)
    found = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        found.update(chunk)
    file.seek(0)
    return found.hexdigest()


def of_status(status: os.stat_result) -> str:
    """A fingerprint that needs nothing opened."""
    return f"{_BY_STATUS}{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def fits(file: BinaryIO, fingerprint: str) -> bool:
    """Whether the open file is in that state."""
    if fingerprint.startswith(_BY_STATUS):
        return of_status(os.fstat(file.fileno())) == fingerprint
    return of_file(file) == fingerprint
