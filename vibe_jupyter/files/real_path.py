"""Where a path leads, following links one by one and opening nothing, and one open folder to work in.

What is found there is identified by device and inode, so that whoever opens the place later knows whether it is still
the same.

It is reached step by step from the root, and no step follows a link. Where the system cannot do that (Windows), a
path stands in for the descriptor.

A place that was judged is opened by `OpenFolder.holding` or `OpenFolder.judged`, which compare device and inode. No
descriptor is kept from the judgement to the opening: a card may wait for days, and many of them would use up what a
process may hold open, and keep disks from being unmounted. The numbers are enough, since a folder that is not there any
more cannot be reached by its path either.
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

_NAME_LIMIT: Final = 255
"""Bytes of one name, the limit of nearly every file system."""
_PATH_LIMIT: Final = 4_096
"""Bytes of a whole path, Linux's PATH_MAX."""
_LINK_LIMIT: Final = 40
"""Links followed in one path, as many as Linux follows."""
_LINKED_STEPS_LIMIT: Final = 500
"""Names that the links of one path may put into it: 40 links of full length would take a tenth of a second."""

_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd
_CLOSED_TO_CHILDREN: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)

# O_PATH needs only the right to enter a folder, not to list it; Linux alone has it.
_ENTER: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK | _CLOSED_TO_CHILDREN

# A pipe that took the place of a file must not keep us waiting.
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
_UNNAMED: Final = getattr(os, "O_TMPFILE", 0)
_CLOSED: Final = -1
_NO_HARD_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
"""What a file system answers that gives a file one name only."""


class FileId(NamedTuple):
    """What tells a file or folder from every other on this machine, whatever it is called."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileId":
        """The identity of what has this status."""
        return cls(status.st_dev, status.st_ino)


class RealPath(NamedTuple):
    """A place without links, and what was found there."""

    path: Path
    kind: Kind
    """What is there; missing also where its folder is missing."""
    file: FileId | None
    """None where nothing is there."""
    folder: Path
    """The folder that holds it; where that is missing too, the nearest one above that is there."""
    folder_id: FileId


def real_path(path: str, start: Path) -> RealPath:
    """The place `path` names, relative ones counted from `start`, which must be real itself.

    Raises:
        ToolError: the path cannot lead anywhere: empty, a NUL byte, too long, a loop of links, a step through a file.
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
    """One walk along a path; its steps are a stack, since a link puts new steps in front."""

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
    """The place at a path without links, with what is there now."""
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
    """The names of a path; one that ends in a slash ends in an empty step, which only a folder can take."""
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
    """A folder by its descriptor; `OSError` of the system comes as it is."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor
        """None where the system does not open folders."""

    @property
    def descriptor(self) -> int | None:
        """For the system's own calls, as long as this is open; None where the system does not open folders."""
        return self._descriptor

    @classmethod
    def at(cls, path: Path) -> "OpenFolder":
        """The folder at an absolute path that holds no link."""
        if not _BY_DESCRIPTOR:
            return cls(path, None)
        folder = cls(Path(path.anchor), os.open(path.anchor, _ENTER))
        for name in path.parts[1:]:
            with folder as outer:
                folder = outer.inner(name)
        return folder

    @classmethod
    def holding(cls, place: RealPath) -> "OpenFolder":
        """The folder that was found to hold a place; `OSError` (ESTALE) when another is there by now."""
        return cls.at(place.folder)._check_identity(place.folder_id)

    @classmethod
    def judged(cls, place: RealPath) -> "OpenFolder":
        """The folder that was found at a place; `OSError` (ESTALE) when another is there by now."""
        return cls.at(place.path)._check_identity(place.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it; once more does nothing."""
        descriptor = self._descriptor
        if descriptor is not None and descriptor != _CLOSED:
            self._descriptor = _CLOSED
            os.close(descriptor)

    def inner(self, name: str) -> "OpenFolder":
        """The folder of that name in it, never a link to one."""
        if self._descriptor is None:
            return OpenFolder(self.path / name, None)
        return OpenFolder(self.path / name, os.open(name, _ENTER, dir_fd=self._descriptor))

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """A descriptor of the entry of that name, never of what a link leads to."""
        flags |= _NO_LINK | _NO_WAIT | _CLOSED_TO_CHILDREN
        return os.open(self._entry_name(name), flags, mode, dir_fd=self._descriptor)

    def open_unnamed(self, mode: int) -> int | None:
        """A new file without a name, gone with this process; None where the system has no such thing."""
        if not _UNNAMED or self._descriptor is None:
            return None
        try:
            return os.open(".", _UNNAMED | os.O_WRONLY | _CLOSED_TO_CHILDREN, mode, dir_fd=self._descriptor)
        except OSError:  # the file system does not have it; one that is full says so again
            return None

    def name_it(self, descriptor: int, name: str) -> bool:
        """Give a new name to a file made by `open_unnamed`; False where the system cannot."""
        try:
            os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=self._descriptor, follow_symlinks=True)
        except OSError:
            return False
        return True

    def look(self, name: str) -> os.stat_result | None:
        """What the entry itself is; None when there is none."""
        try:
            return os.stat(self._entry_name(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @contextmanager
    def entries(self) -> Generator[Iterator["os.DirEntry[str]"]]:
        """What is in it, in no order; the entries are of use only as long as this is open."""
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
        """Call an entry `new`; where another has that name it is replaced if `over`, else `FileExistsError`."""
        at, names = self._descriptor, (self._entry_name(old), self._entry_name(new))
        if over:
            os.replace(*names, src_dir_fd=at, dst_dir_fd=at)
        elif at is None:
            os.rename(*names)  # Windows never replaces by that
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
        """Take out a file, or an empty folder; nothing happens where there is none."""
        entry = self.look(name)
        if entry is not None and stat.S_ISDIR(entry.st_mode):
            os.rmdir(self._entry_name(name), dir_fd=self._descriptor)
        elif entry is not None:
            os.unlink(self._entry_name(name), dir_fd=self._descriptor)

    def make(self, name: str) -> None:
        """A new folder in it."""
        os.mkdir(self._entry_name(name), dir_fd=self._descriptor)

    def _check_identity(self, expected: FileId | None) -> Self:
        """Itself if it is that folder; else it is closed."""
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
