"""Read regular files up to a size limit, never blocking on pipes or reading devices."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 8 * 1024 * 1024  # limit for one file of settings, keys or instructions
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_plain_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file. Symbolic links are followed, and the null device counts as empty.

    Raises:
        FileNotFoundError: It doesn't exist.
        OSError: It can't be read, isn't a regular file, or is too large. The message says which.
    """
    # Without O_NONBLOCK, opening a pipe blocks until another process writes to it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb", buffering=0, closefd=True) as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            if os.path.realpath(path) == os.devnull:
                return b""
            kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "something else")
            raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
        content = bytearray()
        while len(content) <= most and (piece := file.read(most + 1 - len(content))):
            content += piece
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20:,} MB", str(path))
    return bytes(content)
