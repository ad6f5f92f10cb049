"""Which files of the project a copy of the kernel changed in its overlay. Called in the copy, after its code."""

import difflib
import os
import stat
from collections.abc import Iterator
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import StringConstraints

from vibe_jupyter.protocol.variable_effects import Count
from vibe_jupyter.sandbox.overlay import ProjectOverlay

MOST_CHANGES: Final = 200
"""Files and folders of one copy that are listed."""
_LARGEST_TEXT: Final = 16 << 20
"""Bytes of a file whose lines are counted."""
_MOST_COMPARED: Final = 2_000
"""Lines of a file whose changed lines are counted, before and after together."""
_LONGEST_PATH: Final = 4_096
"""Characters, as many as Linux takes."""
_CHUNK: Final = 1 << 16
_BY_HABIT: Final = frozenset({"__pycache__"})
"""Folders that Python itself writes to."""

Deed = Literal["write", "change", "delete", "make the folder", "link", "delete the folder"]


class FileChange(NamedTuple):
    """Of one file or folder."""

    deed: Deed
    path: Annotated[str, StringConstraints(max_length=_LONGEST_PATH)]
    """Within the project."""
    size: Count = 0
    """Bytes, afterwards."""
    lines: Count | None = None
    """Of a text, afterwards; None of other files."""
    added: Count = 0
    removed: Count = 0
    """Lines of a text that was changed, where they were compared."""


class TooManyChanges(Exception):
    """There are more than are listed."""


def file_changes(overlay: ProjectOverlay) -> list[FileChange]:
    """In order of their paths; of a file that was written again with the same content nothing.

    Raises:
        TooManyChanges: there are more than `MOST_CHANGES`, or the code wrote as much as it may.
        OSError: they cannot be read; the code may have closed what they are read by.
    """
    if overlay.is_full:
        raise TooManyChanges
    found: list[FileChange] = []
    for change in _below(overlay, ""):
        found.append(change)
        if len(found) > MOST_CHANGES:
            raise TooManyChanges
    return sorted(found, key=lambda change: change.path)


def _below(overlay: ProjectOverlay, folder: str) -> Iterator[FileChange]:
    """In a folder in which something may be different."""
    now = {entry for entry in os.listdir(os.path.join(overlay.project, folder)) if entry not in _BY_HABIT}
    for name in _names(overlay.original, folder) - now - _BY_HABIT:
        state = os.stat(os.path.join(folder, name), dir_fd=overlay.original, follow_symlinks=False)
        yield FileChange("delete the folder" if stat.S_ISDIR(state.st_mode) else "delete", os.path.join(folder, name))
    for name in _names(overlay.changed, folder) & now:
        path = os.path.join(folder, name)
        state = os.stat(path, dir_fd=overlay.changed, follow_symlinks=False)
        before = _state(overlay.original, path)
        if stat.S_ISDIR(state.st_mode):
            inside = list(_below(overlay, path))
            yield from inside
            if not inside and (before is None or not stat.S_ISDIR(before.st_mode)):
                yield FileChange("make the folder", path)
        elif stat.S_ISLNK(state.st_mode):
            yield FileChange("link", path)
        elif before is None or not stat.S_ISREG(before.st_mode):
            yield FileChange("write", path, state.st_size, _count_lines(overlay.changed, path, state.st_size))
        elif not _is_same(overlay, path, before.st_size, state.st_size):
            yield _change(overlay, path, before.st_size, state.st_size)


def _names(layer: int, folder: str) -> set[str]:
    """Empty where the layer has no such folder."""
    try:
        descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=layer)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    try:
        return set(os.listdir(descriptor))
    finally:
        os.close(descriptor)


def _state(layer: int, path: str) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=layer, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _chunks(layer: int, path: str) -> Iterator[bytes]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=layer)
    try:
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk
    finally:
        os.close(descriptor)


def _is_same(overlay: ProjectOverlay, path: str, size: int, size_now: int) -> bool:
    if size != size_now:
        return False
    pairs = zip(_chunks(overlay.original, path), _chunks(overlay.changed, path), strict=False)
    return all(one == other for one, other in pairs)


def _text(layer: int, path: str, size: int) -> str | None:
    """None where it is no text, or too long."""
    if size > _LARGEST_TEXT:
        return None
    content = b"".join(_chunks(layer, path))
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> list[str]:
    return text.split("\n")[: None if not text.endswith("\n") else -1] if text else []


def _count_lines(layer: int, path: str, size: int) -> int | None:
    text = _text(layer, path, size)
    return None if text is None else len(_lines(text))


def _change(overlay: ProjectOverlay, path: str, size: int, size_now: int) -> FileChange:
    old, new = _text(overlay.original, path, size), _text(overlay.changed, path, size_now)
    lines = None if new is None else len(_lines(new))
    if old is None or new is None or len(old_lines := _lines(old)) + len(new_lines := _lines(new)) > _MOST_COMPARED:
        return FileChange("change", path, size_now, lines)
    steps = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes()
    different = [step for step in steps if step[0] != "equal"]
    removed = sum(end - start for _, start, end, _, _ in different)
    added = sum(end - start for _, _, _, start, end in different)
    return FileChange("change", path, size_now, lines, added, removed)
