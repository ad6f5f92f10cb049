"""List project files that a copy of the kernel changed in its overlay. Called in the copy, after its code."""

import difflib
import os
import stat
from collections.abc import Iterator
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import StringConstraints

from vibe_jupyter.protocol.variable_effects import Count
from vibe_jupyter.sandbox.overlay import ProjectOverlay

MOST_CHANGES: Final = 200  # files and folders listed per copy
_LARGEST_TEXT: Final = 16 << 20  # bytes of a file whose lines are counted
_MOST_COMPARED: Final = 2_000  # lines that are diffed, old and new together
_LONGEST_PATH: Final = 4_096  # characters; PATH_MAX on Linux
_CHUNK: Final = 1 << 16
_BY_HABIT: Final = frozenset({"__pycache__"})  # folders that Python itself writes to

Deed = Literal["write", "change", "delete", "make the folder", "link", "delete the folder"]


class FileChange(NamedTuple):
    """Change of one file or folder."""

    deed: Deed
    path: Annotated[str, StringConstraints(max_length=_LONGEST_PATH)]  # relative to the project
    size: Count = 0  # new size in bytes
    lines: Count | None = None  # new number of lines, or None if it isn't text
    added: Count = 0
    removed: Count = 0  # lines removed from a text, if it was diffed; `added` likewise


class TooManyChanges(Exception):
    """There are more changes than are listed."""


def file_changes(overlay: ProjectOverlay) -> list[FileChange]:
    """Return the changes in order of path. Files rewritten with the same content are left out.

    Raises:
        TooManyChanges: There are more than `MOST_CHANGES`, or the code used up the space it may write.
        OSError: The layers can't be read; the code may have closed their descriptors.
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
    """Yield changes in a folder that may contain some."""
    now = {entry for entry in os.listdir(os.path.join(overlay.project, folder)) if entry not in _BY_HABIT}
    for name in _names(overlay.original, folder) - now - _BY_HABIT:
        path = os.path.join(folder, name)
        yield _deletion(path, os.stat(path, dir_fd=overlay.original, follow_symlinks=False))
    for name in _names(overlay.changed, folder) & now:
        path = os.path.join(folder, name)
        state = os.stat(path, dir_fd=overlay.changed, follow_symlinks=False)
        before = _state(overlay.original, path)
        if before is not None and stat.S_IFMT(before.st_mode) != stat.S_IFMT(state.st_mode):
            yield _deletion(path, before)  # replaced by an entry of another kind: its content is lost
            before = None
        if stat.S_ISDIR(state.st_mode):
            inside = list(_below(overlay, path))
            yield from inside
            if not inside and before is None:
                yield FileChange("make the folder", path)
        elif stat.S_ISLNK(state.st_mode):
            yield FileChange("link", path)
        elif before is None:
            yield FileChange("write", path, state.st_size, _count_lines(overlay.changed, path, state.st_size))
        elif not _is_same(overlay, path, before.st_size, state.st_size):
            yield _change(overlay, path, before.st_size, state.st_size)


def _deletion(path: str, state: os.stat_result) -> FileChange:
    return FileChange("delete the folder" if stat.S_ISDIR(state.st_mode) else "delete", path)


def _names(layer: int, folder: str) -> set[str]:
    """List a layer's folder; empty if the layer doesn't have it."""
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
    """Read a file as text, or return None if it isn't UTF-8 or is too long."""
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
