"""The project folder, and where a path named by the model really leads.

Judging and opening are apart: `resolve` follows links and opens nothing, so that the policy can ask first;
`open_read` then opens exactly the place that was judged, folder by folder and without following a link, and only if
the same folder and file are still there. So a path is resolved once for each call (`path_arguments`): what the policy
judged and the card showed is what the tool opens, whatever is put at the path meanwhile (docs/security.md).
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.protected import Access, protection_reason, shadowed_module
from vibe_jupyter.files.real_path import FileId, Kind, OpenFolder, RealPath, real_path
from vibe_jupyter.files.shown_names import REPLACED, decodable_name
from vibe_jupyter.near_names import near_names

_NAMES_LIMIT: Final = 2_000
"""Entries of a folder looked at to suggest a near name."""
_ENTRIES_SHOWN: Final = 20
"""Entries of a folder named where a file was wanted."""
_SUGGESTIONS: Final = 3
"""Near names offered."""
_CHECK: Final = " Check the path; relative paths start at the project folder."
_WHILE_OPENED: Final = "while it was being opened"
SWAPPED: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO, errno.ESTALE)
"""What the system, or `OpenFolder`, says of a place at which something else is by now."""


class Located(NamedTuple):
    """Where a path led when it was judged, every link followed, and what was there."""

    given: str
    root: Path
    real: RealPath

    @property
    def path(self) -> Path:
        """Absolute, without links."""
        return self.real.path

    @property
    def kind(self) -> Kind:
        """What was there."""
        return self.real.kind

    @property
    def identity(self) -> tuple[str, ...]:
        """All that an approval is bound to: another place, folder or file has another identity."""
        real = self.real
        return self.given, str(real.path), real.kind, str(real.file), str(real.folder), str(real.folder_id)

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
        """Whether it may be read without asking, so that reading it before the approval gives nothing away."""
        return self.inside and self.protection("read") is None

    def protection(self, access: Access) -> str | None:
        """Why this access asks although the place may be inside, in words after its name; None when it need not."""
        names = self.path.relative_to(self.root).parts if self.inside else self.path.parts
        return protection_reason(names, access) or (self._shadows() if access == "write" and self.inside else None)

    def _shadows(self) -> str | None:
        module = shadowed_module(self.path, self.root)
        return f"Python would import in place of the module {module}" if module else None


class Workspace:
    """One project folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def resolve(self, path: str) -> Located:
        """Where `path` leads; relative paths start at the project folder, ``~`` is the home. U+FFFD stands for a byte
        of a name that isn't UTF-8, since the model and the user see it so; if one name alone fits, that one is meant.

        Raises:
            ToolError: the path cannot lead anywhere.
        """
        located = Located(given=path, root=self.root, real=real_path(path, self.root))
        while REPLACED in path and (meant := self._undecodable_path(located)) is not None:
            located = located._replace(real=real_path(meant, self.root))
        return located

    def require(self, located: Located, *kinds: Kind) -> None:
        """Refuse what is not there, or not of these kinds, in words that help to find the right path.

        Raises:
            ToolError: it is missing, a folder, or a device, pipe or socket.
        """
        if located.kind in kinds:
            return
        if located.kind == "missing":
            raise ToolError(f"{located.given!r} does not exist.{self.near_paths(located)}")
        if located.kind == "directory":
            raise ToolError(f"{located.given!r} is a folder, not a file.{_shown_entries(located)}")
        what = "a file, not a folder" if located.kind == "regular" else "a device, pipe or socket, not a regular file"
        raise ToolError(f"{located.given!r} is {what}.")

    @contextmanager
    def open_read(self, located: Located) -> Generator[BinaryIO]:
        """The regular file at exactly this place.

        Raises:
            ToolError: it is no regular file, may not be read, or another one is there than was judged.
        """
        self.require(located, "regular")
        try:
            with OpenFolder.holding(located.real) as folder:
                descriptor = folder.open(located.path.name, os.O_RDONLY)
        except OSError as error:
            raise _not_opened(located, error) from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{located.given!r} is no longer a regular file. Try again.")
            if FileId.of(status) != located.real.file:
                raise ChangedPlace(located, _WHILE_OPENED)
            yield file

    @contextmanager
    def open_folder(self, located: Located) -> Generator[OpenFolder]:
        """The folder at exactly this place.

        Raises:
            ToolError: it is no folder, may not be entered, or another one is there than was judged.
        """
        self.require(located, "directory")
        try:
            folder = OpenFolder.judged(located.real)
        except OSError as error:
            raise _not_opened(located, error) from error
        with folder:
            yield folder

    def _undecodable_path(self, located: Located) -> str | None:
        """The path with its first missing part as the name that isn't UTF-8, if one alone is shown like that part."""
        folder = located.real.folder
        if located.kind != "missing" or (folder != self.root and self.root not in folder.parents):
            return None
        try:
            with OpenFolder.holding(located.real) as opened:
                names = _folder_names(opened)
        except OSError:
            return None
        first, *rest = located.path.relative_to(folder).parts
        fitting = [name for name in names if name != first and decodable_name(name) == first]
        return str(folder.joinpath(fitting[0], *rest)) if len(fitting) == 1 else None

    def near_paths(self, located: Located) -> str:
        """What else may be meant by a path where nothing is."""
        folder = located.real.folder
        if folder != self.root and self.root not in folder.parents:
            return _CHECK
        try:
            with OpenFolder.holding(located.real) as opened:
                names = _folder_names(opened)
        except OSError:
            return _CHECK
        missing = located.path.relative_to(folder).parts[0]
        near = near_names(missing, names, _SUGGESTIONS)
        paths = [str((folder / name).relative_to(self.root)) for name in near]
        return f" Did you mean {' or '.join(paths)}?" if near else _CHECK


class ChangedPlace(ToolError):
    """Something else is at a place by now than what the call was allowed for."""

    def __init__(self, located: Located, doing: str) -> None:
        what = f"{located.given!r} was changed {doing}"
        super().__init__(f"{what}: what the call was allowed for is no longer at {located.path}. Try again.")


def _not_opened(located: Located, error: OSError) -> ToolError:
    if error.errno in SWAPPED:
        return ChangedPlace(located, _WHILE_OPENED)
    return ToolError(f"{located.given!r} cannot be read: {error.strerror}.")


def _folder_names(folder: OpenFolder) -> list[str]:
    with folder.entries() as entries:
        return [entry.name for entry in islice(entries, _NAMES_LIMIT)]


def _shown_entries(located: Located) -> str:
    try:
        with OpenFolder.judged(located.real) as folder:
            names = sorted(name for name in _folder_names(folder) if not name.startswith("."))
    except OSError:
        return ""
    shown = ", ".join(names[:_ENTRIES_SHOWN]) + (", …" if len(names) > _ENTRIES_SHOWN else "")
    return f" It holds {shown}." if shown else " It is empty."
