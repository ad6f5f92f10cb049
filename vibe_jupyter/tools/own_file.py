"""Small text files in the person's own folder: replaced whole or not at all, one writer at a time."""

import contextlib
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows: two kernels that write at the same moment may lose what one of them wrote
    fcntl = None

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
LOCK_PATIENCE: Final = 5.0
"""Seconds to wait for a lock: who holds it writes one small file."""
_GAP: Final = 0.02
"""Seconds between two tries to get the lock."""


def replace_text(path: Path, text: str) -> None:
    """Write the file in one step, readable by its owner alone.

    Raises:
        OSError: it could not be written; what was there before is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, PRIVATE_FILE)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Read and write `path` while nobody else does who asks for the same. A process that dies lets go.

    Raises:
        OSError: the lock file cannot be made, or another process does not let go.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR, PRIVATE_FILE)
    try:
        if fcntl is not None:
            _take(descriptor)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    assert fcntl is not None
    until = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(_GAP)
        except OSError:  # some file systems have no locks
            return None
