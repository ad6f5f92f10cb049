"""Resolve paths link by link without opening anything, and open folders race-free.

A resolved location is identified by device and inode, so that code that opens it later can tell whether it is still the
same file.

Folders are opened step by step from the root without following links. Where the system can't do that (Windows), a path
stands in for the descriptor.

`OpenFolder.holding` and `OpenFolder.judged` open a judged location and compare device and inode. No descriptor is kept
open between judging and opening: a card may wait for days, and many of them would exhaust the process's descriptors and
prevent disks from being unmounted. The numbers suffice, since a deleted folder can't be reached by its path either.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from vibe_jupyter.errors import ToolError

Kind = Literal["regular", "directory", "missing", "special"]

_NAME_LIMIT: Final = 255  # bytes of one name, the limit of nearly every file system
_PATH_LIMIT: Final = 4_096  # bytes of a whole path; PATH_MAX on Linux
_LINK_LIMIT: Final = 40  # links followed in one path, as on Linux
# Names that links may add to one path. Without this limit, 40 links of full length would take a tenth of a second.
_LINKED_STEPS_LIMIT: Final = 500

_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd
_CLOSED_TO_CHILDREN: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)

# O_PATH requires only search permission on a folder, not read permission. Linux only.
_ENTER: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK | _CLOSED_TO_CHILDREN

# Don't block if a pipe has replaced the file.
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
_UNNAMED: Final = getattr(os, "O_TMPFILE", 0)
_CLOSED: Final = -1
# Errors of file systems without hard links.
_NO_HARD_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class FileId(NamedTuple):
    """Identity of a file or folder on this machine, independent of its name."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileId":
        """Return the identity of the file with this status."""
        return cls(status.st_dev, status.st_ino)


class RealPath(NamedTuple):
    """A location without symbolic links, and what was found there."""

    path: Path
    kind: Kind  # "missing" also if its folder is missing
    file: FileId | None  # None if nothing is there
    folder: Path  # the containing folder, or its nearest existing ancestor
    folder_id: FileId


def real_path(path: str, start: Path) -> RealPath:
    """Resolve `path`, relative to `start`, which must be free of symbolic links itself.

    Raises:
        ToolError: The path can't lead anywhere: it is empty or too long, contains a NUL byte or a loop of links, or
            goes through a file.
    """
    _check_form(path)
    expanded = _expand_home(path)
    if os.name == "nt":
        return _real_path_by_library(expanded, start)
    return _Walk(path, start).go(expanded)


def _check_form(path: str) -> None:
    if not path.strip():
        raise ToolError("The path is empty. Name a file or folder of the project.")
    if "\0" in path:
        raise ToolError("The path holds a NUL byte, which no file name can. Use another path.")
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise ToolError("The path holds characters that no file name can hold. Use another path.") from None
    if len(raw) > _PATH_LIMIT or any(len(name) > _NAME_LIMIT for name in raw.split(b"/")):
        raise ToolError(f"The path is too long: a name may have {_NAME_LIMIT} bytes and a path {_PATH_LIMIT:,}.")


def _expand_home(path: str) -> str:
    if not path.startswith("~"):
        return path
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise ToolError(f"{path.split('/')[0]!r} names no home folder. Write ./{path} for a file of that name.")
    return expanded


class _Walk:
    """Traversal of one path. The remaining steps are a stack, since a link inserts new steps at the front."""

    def __init__(self, given: str, start: Path) -> None:
        self._given = given
        self._here = str(start)
        self._kind: Kind = "directory"
        self._steps: list[str] = []
        self._links = 0
        self._linked_steps = 0

    def go(self, path: str) -> RealPath:
        self._push_steps(path)
        while self._steps:
            self._take_step(self._steps.pop())
        return _identified(Path(self._here), self._given)

    def _push_steps(self, path: str) -> None:
        if path.startswith("/"):
            self._here, self._kind = "/", "directory"
        self._steps += reversed(list(_path_steps(path)))

    def _take_step(self, name: str) -> None:
        if self._kind in ("regular", "special"):
            raise ToolError(f"{self._given!r} leads through {self._here}, which is a file and not a folder.")
        if name in ("", "."):
            return
        if name == "..":
            self._go_up()
        else:
            self._go_into(name)

    def _go_up(self) -> None:
        if self._kind == "missing":
            raise ToolError(f"{self._given!r} was not found: {self._here} does not exist.")
        self._here = os.path.dirname(self._here)

    def _go_into(self, name: str) -> None:
        target = os.path.join(self._here, name)
        mode = None if self._kind == "missing" else self._path_mode(target)
        if mode is not None and stat.S_ISLNK(mode):
            self._follow_link(target)
        else:
            self._here, self._kind = target, _kind_of(mode)

    def _follow_link(self, link: str) -> None:
        self._links += 1
        if self._links > _LINK_LIMIT:
            raise ToolError(f"{self._given!r} leads into a loop of links at {link}.")
        try:
            target = os.readlink(link)
        except OSError as error:
            raise _unreachable_error(self._given, error) from error
        self._linked_steps += 1 + target.count("/")
        if self._linked_steps > _LINKED_STEPS_LIMIT:
            raise ToolError(f"{self._given!r} leads through very many folders, behind links such as {link}.")
        self._push_steps(target)

    def _path_mode(self, path: str) -> int | None:
        try:
            return os.lstat(path).st_mode
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreachable_error(self._given, error) from error


def _identified(path: Path, given: str) -> RealPath:
    """Return the location at a path without links, with what is there now."""
    try:
        status = _status(path)
        folder = path.parent
        while (above := _status(folder)) is None:
            folder = folder.parent
    except OSError as error:
        raise _unreachable_error(given, error) from error
    if not stat.S_ISDIR(above.st_mode) or (status is not None and stat.S_ISLNK(status.st_mode)):
        raise ToolError(f"{given!r} was changed while it was looked up. Try again.")
    file = None if status is None else FileId.of(status)
    return RealPath(path, _kind_of(None if status is None else status.st_mode), file, folder, FileId.of(above))


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _path_steps(path: str) -> Iterator[str]:
    """Yield the names in a path. A trailing slash yields an empty last name, which only a folder can match."""
    names = path.split("/")
    yield from (name for name in names[:-1] if name)
    yield names[-1]


def _kind_of(mode: int | None) -> Kind:
    if mode is None:
        return "missing"
    if stat.S_ISDIR(mode):
        return "directory"
    return "regular" if stat.S_ISREG(mode) else "special"


def _unreachable_error(given: str, error: OSError) -> ToolError:
    if error.errno in (errno.EACCES, errno.EPERM):
        return ToolError(f"{given!r} is in a folder this account may not enter.")
    return ToolError(f"{given!r} cannot be reached: {error.strerror}.")


def _real_path_by_library(path: str, start: Path) -> RealPath:
    try:
        real = Path(os.path.realpath(start / path))
    except OSError as error:
        raise _unreachable_error(path, error) from error
    return _identified(real, path)


class OpenFolder:
    """A folder, open by descriptor. `OSError`s aren't converted."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor  # None where the system can't open folders

    @property
    def descriptor(self) -> int | None:
        """Descriptor for system calls, valid until `close`, or None where the system can't open folders."""
        return self._descriptor

    @classmethod
    def at(cls, path: Path) -> "OpenFolder":
        """Open the folder at an absolute path without following links."""
        if not _BY_DESCRIPTOR:
            return cls(path, None)
        folder = cls(Path(path.anchor), os.open(path.anchor, _ENTER))
        for name in path.parts[1:]:
            with folder as outer:
                folder = outer.inner(name)
        return folder

    @classmethod
    def holding(cls, place: RealPath) -> "OpenFolder":
        """Open the folder that contains a location. Raises `OSError` (ESTALE) if it has been replaced."""
        return cls.at(place.folder)._check_identity(place.folder_id)

    @classmethod
    def judged(cls, place: RealPath) -> "OpenFolder":
        """Open the folder at a location. Raises `OSError` (ESTALE) if it has been replaced."""
        return cls.at(place.path)._check_identity(place.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        descriptor = self._descriptor
        if descriptor is not None and descriptor != _CLOSED:
            self._descriptor = _CLOSED
            os.close(descriptor)

    def inner(self, name: str) -> "OpenFolder":
        """Open a subfolder, without following a link."""
        if self._descriptor is None:
            return OpenFolder(self.path / name, None)
        return OpenFolder(self.path / name, os.open(name, _ENTER, dir_fd=self._descriptor))

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open an entry, without following a link, and return its descriptor."""
        flags |= _NO_LINK | _NO_WAIT | _CLOSED_TO_CHILDREN
        return os.open(self._entry_name(name), flags, mode, dir_fd=self._descriptor)

    def open_unnamed(self, mode: int) -> int | None:
        """Create an unnamed file, which vanishes with its descriptor. Returns None if unsupported."""
        if not _UNNAMED or self._descriptor is None:
            return None
        try:
            return os.open(".", _UNNAMED | os.O_WRONLY | _CLOSED_TO_CHILDREN, mode, dir_fd=self._descriptor)
        except OSError:  # unsupported by the file system; if it is full, the next attempt reports that
            return None

    def name_it(self, descriptor: int, name: str) -> bool:
        """Give a file made by `open_unnamed` a new name. Returns False if unsupported."""
        try:
            os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=self._descriptor, follow_symlinks=True)
        except OSError:
            return False
        return True

    def look(self, name: str) -> os.stat_result | None:
        """Return an entry's own status, or None if it doesn't exist."""
        try:
            return os.stat(self._entry_name(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @contextmanager
    def entries(self) -> Generator[Iterator["os.DirEntry[str]"]]:
        """Iterate over the entries in arbitrary order. They are valid only inside the block."""
        if self._descriptor is None:
            with os.scandir(self.path) as entries:
                yield entries
            return
        descriptor = self.open(".", os.O_RDONLY)
        try:
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)

    def put(self, old: str, new: str, *, over: bool) -> None:
        """Rename an entry. An existing `new` is replaced if `over`, else raises `FileExistsError`."""
        at, names = self._descriptor, (self._entry_name(old), self._entry_name(new))
        if over:
            os.replace(*names, src_dir_fd=at, dst_dir_fd=at)
        elif at is None:
            os.rename(*names)  # on Windows, `rename` never replaces
        else:
            self._put_beside(old, new, at)

    def _put_beside(self, old: str, new: str, at: int) -> None:
        try:
            os.link(old, new, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            if self.look(new) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from error
            os.rename(old, new, src_dir_fd=at, dst_dir_fd=at)
        else:
            os.unlink(old, dir_fd=at)

    def remove(self, name: str) -> None:
        """Remove a file or an empty folder, if it exists."""
        entry = self.look(name)
        if entry is not None and stat.S_ISDIR(entry.st_mode):
            os.rmdir(self._entry_name(name), dir_fd=self._descriptor)
        elif entry is not None:
            os.unlink(self._entry_name(name), dir_fd=self._descriptor)

    def make(self, name: str) -> None:
        os.mkdir(self._entry_name(name), dir_fd=self._descriptor)

    def _check_identity(self, expected: FileId | None) -> Self:
        """Return itself if it is the expected folder, else close it and raise."""
        try:
            here = os.lstat(self.path) if self._descriptor is None else os.fstat(self._descriptor)
            if FileId.of(here) != expected:
                raise _replaced(self.path)
        except OSError:
            self.close()
            raise
        return self

    def _entry_name(self, name: str) -> str:
        return name if self._descriptor is not None else str(self.path / name)


def _replaced(path: Path) -> OSError:
    return OSError(errno.ESTALE, "replaced since it was judged", str(path))
