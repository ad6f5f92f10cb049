"""What a git index lists, read without git."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vibe_jupyter.policy.shell.verdict import Refused
from vibe_jupyter.tools.protected import SECRET_FILES, SECRET_FOLDERS, is_secret_name

SIZE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of an index."""
_GITLINK: Final = b"\x00\x00\xe0\x00"
"""The mode of a submodule, where each mode takes four bytes."""
_HEADER: Final = 12
"""Bytes before the first entry."""
_FIXED: Final = 62
"""Bytes of an entry before its name: times, mode and the like, its object, flags. SHA-1 only."""
_MODE_AT: Final = 24
"""Bytes of an entry before its mode."""
_EXTENDED: Final = 0x4000
"""The flag of an entry that has two more bytes."""
_PADDING: Final = 8
"""Entries are filled up to a multiple of so many bytes."""
_MAY_BE_SECRET: Final = re.compile(
    b"|".join(re.escape(name.strip("*").encode()) for name in (*SECRET_FILES, *SECRET_FOLDERS)), re.IGNORECASE
)


def read_index(git: Path) -> bytes:
    """The index of a repository; empty if there is none yet.

    Raises:
        Refused: it cannot be read, or is too large to be looked through in a moment.
    """
    try:
        with open(git / "index", "rb") as file:
            index = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise Refused("repository", f"the index of this repository cannot be read: {error.strerror}") from error
    if len(index) > SIZE_LIMIT:
        raise Refused("repository", "the index of this repository is very large")
    return index


def has_submodule(index: bytes) -> bool:
    """Whether a submodule is listed; True also where that cannot be told."""
    if _GITLINK not in index:
        return False
    entries = list(_entries(index))
    return not entries or any(mode == _GITLINK for mode, _ in entries)


def tracked_secrets(index: bytes) -> tuple[str, ...]:
    """The listed files that usually hold passwords or keys."""
    if not _MAY_BE_SECRET.search(index):
        return ()
    names = (name.decode(errors="replace") for _, name in _entries(index))
    return tuple(name for name in names if any(map(is_secret_name, name.split("/"))))


def _entries(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Mode and name of each entry; nothing for a form other than the usual ones."""
    version, count = struct.unpack_from(">II", index, 4) if len(index) > _HEADER else (0, 0)
    position = _HEADER
    while version in (2, 3) and count and position + _FIXED < len(index):
        (flags,) = struct.unpack_from(">H", index, position + _FIXED - 2)
        start = position + _FIXED + (2 if flags & _EXTENDED else 0)
        end = index.find(b"\0", start)
        if end < 0:
            return
        yield index[position + _MODE_AT : position + _MODE_AT + 4], index[start:end]
        position += (end - position) // _PADDING * _PADDING + _PADDING
        count -= 1
