"""Find files that were modified within a time span, by any program."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from vibe_jupyter.files.search_rules import DEFAULT_FOLDERS

MOST_ENTRIES: Final = 20_000  # files and folders scanned; later ones aren't found
# Seconds by which a file's time may precede the clock's: the kernel uses the time of its last tick.
_CLOCK_STEP: Final = 0.01
_NOTEBOOK: Final = ".ipynb"  # saved by the front end on its own


def written_between(root: Path, began: float, ended: float, left_out: Collection[str] = ()) -> list[str]:
    """Return the files below a folder that were modified in this time span, as sorted relative paths.

    Args:
        root: The folder. Links, hidden files and `DEFAULT_FOLDERS` in it are skipped.
        began: Start, in seconds since the epoch.
        ended: End, in seconds since the epoch.
        left_out: Paths of other folders to skip.
    """
    found: list[str] = []
    for entry in _files(root, left_out):
        with suppress(OSError):  # it was deleted
            if began - _CLOCK_STEP <= entry.stat(follow_symlinks=False).st_mtime <= ended:
                found.append(os.path.relpath(entry.path, root))
    return sorted(found)


def _files(root: Path, left_out: Collection[str]) -> Iterator[os.DirEntry[str]]:
    folders, left = [str(root)], MOST_ENTRIES
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # unreadable, or deleted meanwhile
            continue
        left -= len(entries)
        if left < 0:
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders += [entry.path] * (entry.name not in DEFAULT_FOLDERS and entry.path not in left_out)
            elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(_NOTEBOOK):
                yield entry
