"""The project folder, and resolution of paths named by the model.

Judging and opening are separate: `resolve` follows links and opens nothing, so that the policy can ask first.
`open_read` then opens exactly the judged location, folder by folder, without following links, and only if the same
folder and file are still there. A path is resolved once per call (`path_arguments`): what the policy judged and the
card showed is what the tool opens, even if the path is replaced meanwhile (docs/security.md).
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

_NAMES_LIMIT: Final = 2_000  # folder entries compared for suggestions
_ENTRIES_SHOWN: Final = 20  # folder entries listed if a file was expected
_SUGGESTIONS: Final = 3  # similar names suggested
_CHECK: Final = " Check the path; relative paths start at the project folder."
_WHILE_OPENED: Final = "while it was being opened"
# Errors of the system, or of `OpenFolder`, for a location that has been replaced.
SWAPPED: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO, errno.ESTALE)


class Located(NamedTuple):
    """Location of a path when it was judged, after following all links, and what was there."""

    given: str
    root: Path
    real: RealPath

    @property
    def path(self) -> Path:
        """Absolute path without links."""
        return self.real.path

    @property
    def kind(self) -> Kind:
        """Type of what was there."""
        return self.real.kind

    @property
    def identity(self) -> tuple[str, ...]:
        """Everything that an approval is bound to: a different location, folder or file has a different identity."""
        real = self.real
        return self.given, str(real.path), real.kind, str(real.file), str(real.folder), str(real.folder_id)

    @property
    def inside(self) -> bool:
        """True if it is the project folder or inside it."""
        return self.path == self.root or self.root in self.path.parents

    @property
    def shown(self) -> str:
        """Display path: relative to the project if inside it, else absolute."""
        return str(self.path.relative_to(self.root)) if self.inside else str(self.path)

    @property
    def is_open(self) -> bool:
        """True if it may be read without asking, so that reading it before approval reveals nothing."""
        return self.inside and self.protection("read") is None

    def protection(self, access: Access) -> str | None:
        """Return why this access requires approval even inside the project, worded to follow the name, or None."""
        names = self.path.relative_to(self.root).parts if self.inside else self.path.parts
        return protection_reason(names, access) or (self._shadows() if access == "write" and self.inside else None)

    def _shadows(self) -> str | None:
        module = shadowed_module(self.path, self.root)
        return f"Python would import in place of the module {module}" if module else None


class Workspace:
    """A project folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def resolve(self, path: str) -> Located:
        """Resolve `path`, relative to the project folder; ``~`` is the home folder.

        U+FFFD stands for a byte of a name that isn't UTF-8, as it is displayed to the model and the user. It is
        resolved if exactly one name fits.

        Raises:
            ToolError: The path can't lead anywhere.
        """
        located = Located(given=path, root=self.root, real=real_path(path, self.root))
        while REPLACED in path and (meant := self._undecodable_path(located)) is not None:
            located = located._replace(real=real_path(meant, self.root))
        return located

    def require(self, located: Located, *kinds: Kind) -> None:
        """Refuse locations that are missing or of another kind, with a message that helps to find the right path.

        Raises:
            ToolError: It is missing, a folder, a file, or a device, pipe or socket.
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
        """Open the regular file at exactly this location.

        Raises:
            ToolError: It isn't a regular file, can't be read, or has been replaced since it was judged.
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
        """Open the folder at exactly this location.

        Raises:
            ToolError: It isn't a folder, can't be entered, or has been replaced since it was judged.
        """
        self.require(located, "directory")
        try:
            folder = OpenFolder.judged(located.real)
        except OSError as error:
            raise _not_opened(located, error) from error
        with folder:
            yield folder

    def _undecodable_path(self, located: Located) -> str | None:
        """Replace the first missing part by a name that isn't UTF-8, if exactly one is displayed like that part."""
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
        """Suggest similar paths for one that doesn't exist."""
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
    """The location has been replaced since the call was approved."""

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
