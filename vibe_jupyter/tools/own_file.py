"""Small text files in the person's own folder: replaced whole or not at all, one writer at a time."""

import contextlib
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
LOCK_PATIENCE: Final = 5.0
"""Seconds until a lock counts as left behind by a process that died: who holds it writes one small file."""
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
    """Read and write `path` while nobody else does who asks for the same.

    Raises:
        OSError: the lock file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    lock = path.with_name(f"{path.name}.lock")
    until = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
            break
        except FileExistsError:
            if time.monotonic() >= until:
                lock.unlink(missing_ok=True)
            time.sleep(_GAP)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
