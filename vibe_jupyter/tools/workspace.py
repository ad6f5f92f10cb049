"""The project folder, and where a path named by the model really leads.

Judging and opening are apart: `resolve` follows links and opens nothing, so that the policy can ask first;
`open_read` then opens exactly the place that was judged, folder by folder and without following a link, so that a
link put there in between changes nothing.
"""

import difflib
import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.tools.folder import Folder
from vibe_jupyter.tools.protected import Access, protection
from vibe_jupyter.tools.real_path import Kind, real_path

_NAMES_LIMIT: Final = 2_000
"""Entries of a folder looked at to suggest a near name."""
_ENTRIES_SHOWN: Final = 20
"""Entries of a folder named where a file was wanted."""
_SUGGESTIONS: Final = 3
"""Near names offered."""


@dataclass(frozen=True)
class Located:
    """Where a path leads."""

    given: str
    path: Path
    """Absolute, every link followed."""
    root: Path
    kind: Kind

    @property
    def inside(self) -> bool:
        """Whether it is the project folder or below it."""
        return self.path == self.root or self.root in self.path.parents

    @property
    def shown(self) -> str:
        """How to name it to people and to the model: relative to the project where it is inside."""
        return str(self.path.relative_to(self.root)) if self.inside else str(self.path)

    @property
    def is_open(self) -> bool:
        """Whether it may be read without asking, so that looking at it beforehand gives nothing away."""
        return self.inside and self.protection("read") is None

    def protection(self, access: Access) -> str | None:
        """Why this access asks although the place may be inside, in words after its name; None when it need not."""
        names = self.path.relative_to(self.root).parts if self.inside else self.path.parts
        return protection(names, access)


class Workspace:
    """One project folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def resolve(self, path: str) -> Located:
        """Where `path` leads; relative paths start at the project folder, ``~`` is the home.

        Raises:
            ToolError: the path cannot lead anywhere.
        """
        found = real_path(path, self.root)
        return Located(given=path, path=found.path, root=self.root, kind=found.kind)

    def require(self, located: Located, *kinds: Kind) -> None:
        """Refuse what is not there, or not of these kinds, in words that help to find the right path.

        Raises:
            ToolError: it is missing, a folder, or a device, pipe or socket.
        """
        if located.kind in kinds:
            return
        if located.kind == "missing":
            raise ToolError(f"{located.given!r} does not exist.{self._suggestion(located)}")
        if located.kind == "directory":
            raise ToolError(f"{located.given!r} is a folder, not a file.{_entries(located.path)}")
        what = "a file, not a folder" if located.kind == "regular" else "a device, pipe or socket, not a regular file"
        raise ToolError(f"{located.given!r} is {what}.")

    @contextmanager
    def open_read(self, located: Located) -> Generator[BinaryIO]:
        """The regular file at exactly this place.

        Raises:
            ToolError: it is no regular file, may not be read, or was changed since it was resolved.
        """
        self.require(located, "regular")
        try:
            descriptor = _open(located.path)
        except OSError as error:
            raise _not_opened(located, error) from error
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError(f"{located.given!r} is no regular file any more. Try again.")
            yield file

    def _suggestion(self, located: Located) -> str:
        folder = next(parent for parent in located.path.parents if parent.is_dir())
        missing = located.path.relative_to(folder).parts[0]
        near = difflib.get_close_matches(missing, _names(folder), _SUGGESTIONS, 0.6)
        if not near or not Located(located.given, folder, self.root, "directory").inside:
            return " Check the path; relative paths start at the project folder."
        paths = [str((folder / name).relative_to(self.root)) for name in near]
        return f" Did you mean {' or '.join(paths)}?"


def _open(path: Path) -> int:
    with Folder.at(path.parent) as folder:
        return folder.open(path.name, os.O_RDONLY)


def _not_opened(located: Located, error: OSError) -> ToolError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO):
        return ToolError(f"{located.given!r} was changed while it was being opened. Try again.")
    return ToolError(f"{located.given!r} cannot be read: {error.strerror}.")


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_NAMES_LIMIT), strict=False)]
    except OSError:
        return []


def _entries(folder: Path) -> str:
    names = sorted(name for name in _names(folder) if not name.startswith("."))
    shown = ", ".join(names[:_ENTRIES_SHOWN]) + (", …" if len(names) > _ENTRIES_SHOWN else "")
    return f" It holds {shown}." if shown else " It is empty."
