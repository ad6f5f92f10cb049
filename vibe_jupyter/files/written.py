"""Which files of a folder were written in a span of time, by whomever."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from vibe_jupyter.files.search_rules import DEFAULT_FOLDERS

MOST_ENTRIES: Final = 20_000
"""Files and folders that are looked at; what lies beyond is not found."""
_CLOCK_STEP: Final = 0.01
"""Seconds by which a file's time may lie before that of the clock: the system takes it from its last tick."""
_NOTEBOOK: Final = ".ipynb"
"""A page saves notebooks by itself."""


def written_between(root: Path, began: float, ended: float, left_out: Collection[str] = ()) -> list[str]:
    """Files below a folder whose time lies between these, by name from there, sorted.

    Args:
        root: the folder; links, hidden files and `DEFAULT_FOLDERS` in it are not looked at.
        began: seconds since 1970.
        ended: the same.
        left_out: paths of other folders that are not looked at.
    """
    found: list[str] = []
    for entry in _files(root, left_out):
        with suppress(OSError):  # it is gone meanwhile
            if began - _CLOCK_STEP <= entry.stat(follow_symlinks=False).st_mtime <= ended:
                found.append(os.path.relpath(entry.path, root))
    return sorted(found)


def _files(root: Path, left_out: Collection[str]) -> Iterator[os.DirEntry[str]]:
    folders, left = [str(root)], MOST_ENTRIES
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # nobody reads it, or it is gone
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
