"""What a git index lists, read without git."""

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
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
_CHECKSUM: Final = 20
"""Bytes behind the last entry, at least."""
_FIXED: Final = 62
"""Bytes of an entry before its name: times, mode and the like, its object, flags. SHA-1 only."""
_MODE_AT: Final = 24
"""Bytes of an entry before its mode."""
_CHANGED_AT: Final = 8
"""Bytes of an entry before the time its file was changed: seconds, then nanoseconds."""
_SIZE_AT: Final = 36
"""Bytes of an entry before the size of its file."""
_VERSIONS: Final = (2, 3, 4)
_EXTENDED: Final = 0x4000
"""The flag of an entry that has two more bytes."""
_LONGEST_NUMBER: Final = 8
"""Bytes of the number before a compressed name."""
_PADDING: Final = 8
"""Entries are filled up to a multiple of so many bytes."""
_MAY_BE_SECRET: Final = re.compile(
    b"|".join(re.escape(max(name.split("*"), key=len).encode()) for name in (*SECRET_FILES, *SECRET_FOLDERS)),
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Tracked:
    """A file the index lists, with what it knows of it."""

    name: str
    size: int
    changed: tuple[int, int]
    """Seconds and nanoseconds, both cut to 32 bits."""

    def is_as_listed(self, root: Path) -> bool:
        """Whether the file looks untouched, so that a comparison with the index shows nothing of it."""
        try:
            found = os.lstat(root / self.name)
        except OSError:
            return False
        seconds, rest = divmod(found.st_mtime_ns, 10**9)
        return self.size == found.st_size & 0xFFFFFFFF and self.changed == (seconds & 0xFFFFFFFF, rest)


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
    if len(index) < _HEADER + _CHECKSUM:
        raise Refused("repository", "the index of this repository is not whole")
    if len(index) > SIZE_LIMIT:
        raise Refused("repository", "the index of this repository is very large")
    return index


def has_submodule(index: bytes) -> bool:
    """Whether a submodule is listed; True also where that cannot be told."""
    if _GITLINK not in index:
        return False
    entries = list(_entries(index))
    return not entries or any(raw[_MODE_AT : _MODE_AT + 4] == _GITLINK for raw, _ in entries)


def tracked_secrets(index: bytes) -> tuple[Tracked, ...]:
    """The listed files that usually hold passwords or keys.

    Raises:
        Refused: its form is none of git's usual ones.
    """
    if not index or (not _is_compressed(index) and not _MAY_BE_SECRET.search(index)):
        return ()
    entries = list(_entries(index))
    if (len(entries),) != struct.unpack_from(">I", index, _HEADER - 4):
        raise Refused("repository", "the index of this repository is of a form that cannot be read")
    named = [(raw, name.decode(errors="replace")) for raw, name in entries]
    return tuple(
        Tracked(name, *struct.unpack_from(">I", raw, _SIZE_AT), struct.unpack_from(">II", raw, _CHANGED_AT))
        for raw, name in named
        if any(map(is_secret_name, name.split("/")))
    )


def _is_compressed(index: bytes) -> bool:
    return index[4:8] == b"\x00\x00\x00\x04"


def _entries(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The fixed part and the name of each entry; nothing for a form other than the usual ones."""
    version, count = struct.unpack_from(">II", index, 4) if index else (0, 0)
    position = _HEADER
    before = b""
    while version in _VERSIONS and count and position + _FIXED + _CHECKSUM <= len(index):
        (flags,) = struct.unpack_from(">H", index, position + _FIXED - 2)
        start = position + _FIXED + (2 if flags & _EXTENDED else 0)
        start, kept = _kept(index, start, before) if _is_compressed(index) else (start, b"")
        end = index.find(b"\0", start)
        if end < 0:
            return
        before = kept + index[start:end]
        yield index[position : position + _FIXED], before
        position = end + 1 if _is_compressed(index) else position + (end - position) // _PADDING * _PADDING + _PADDING
        count -= 1


def _kept(index: bytes, start: int, before: bytes) -> tuple[int, bytes]:
    """Where the rest of a compressed name begins, and what it shares with the name before it."""
    last = start + _LONGEST_NUMBER - 1
    dropped = index[start] & 0x7F
    while index[start] & 0x80 and start < last:
        start += 1
        dropped = ((dropped + 1) << 7) | (index[start] & 0x7F)
    return start + 1, before[: max(0, len(before) - dropped)]
