"""Write files atomically: to a temporary file next to them, synced, then renamed over the target with its permissions.

A failure leaves nothing behind. Symbolic links are never followed, and a file is replaced only in the state that the
caller saw.
"""

import contextlib
import errno
import hashlib
import io
import os
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.files.real_path import FileId, OpenFolder
from vibe_jupyter.files.workspace import SWAPPED, Located
from vibe_jupyter.lazy_patterns import lazy_pattern

UNCHANGED: Final = "Nothing was written."
_CHUNK: Final = 1_048_576  # bytes copied at a time
_TEMPORARY: Final = lazy_pattern(r"\.vibe-[0-9a-f]{16}\.tmp")  # temporary files; a killed process may leave one behind
_STALE: Final = 600  # seconds after which a temporary file counts as abandoned
_ONE_AT_A_TIME: Final = threading.Lock()
_WRITABLE: Final = 0o222

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RIGHTS: Final = (errno.EACCES, errno.EPERM)
_SWAPPED: Final = (*SWAPPED, errno.EEXIST, errno.EISDIR)

_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")  # prefixes of extended attributes that must be preserved
_GROUP_BITS: Final = 0o070
_NO_SET_ID: Final = ~0o6000  # mask that drops setuid and setgid: a file rewritten by an agent must not keep them

HASHED: Final = 64_000_000  # bytes up to which files are compared by content; larger ones by size and time
_BY_STATUS: Final = "status:"

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
LOCK_PATIENCE: Final = 5.0  # seconds to wait for a lock; its holder only writes one small file
_GAP: Final = 0.02  # seconds between attempts to acquire the lock


class NewFile(NamedTuple):
    """Content and conditions of a write."""

    content: bytes
    seen: str | None  # fingerprint of the file to replace, or None if it must not exist
    makes_folders: bool = True
    backup: str = ""  # suffix under which the old file is kept, or ""


def write_file(located: Located, new: NewFile) -> tuple[str, ...]:
    """Write a file at the location that was judged. Returns warnings, such as permissions that couldn't be kept.

    Raises:
        NothingDone: It can't be written or has changed. Nothing was written then.
    """
    try:
        with _ONE_AT_A_TIME, _folder_of(located, new) as folder:
            return tuple(_write_in(folder, located, new))
    except OSError as error:
        raise _not_written(located, error) from error


@contextmanager
def _folder_of(located: Located, new: NewFile) -> Generator[OpenFolder]:
    """Open the file's folder. Missing folders are created, and removed again if the write fails."""
    missing = located.path.parent.relative_to(located.real.folder).parts
    if missing and not new.makes_folders:
        raise NothingDone(f"The folder of {located.given!r} does not exist, and the settings do not let it be made.")
    with ExitStack() as at_end:
        folder = at_end.enter_context(OpenFolder.holding(located.real))
        for name in missing:
            folder.make(name)
            at_end.push(_Unmaking(folder, name))
            folder = at_end.enter_context(folder.inner(name))
        yield folder


class _Unmaking(NamedTuple):
    """Exit callback that removes a created folder if the write failed."""

    outer: OpenFolder
    name: str

    def __call__(self, failure: type[BaseException] | None, *_: object) -> bool:
        if failure is not None:
            _remove_quietly(self.outer, self.name)
        return False


def _write_in(folder: OpenFolder, located: Located, new: NewFile) -> list[str]:
    with suppress(OSError):
        _sweep_stale_files(folder)
    notes = _create_file(folder, located, new) if new.seen is None else _replace_file(folder, located, new, new.seen)
    with suppress(OSError):  # some file systems do not sync folders
        _sync_folder(folder)
    return notes


def _create_file(folder: OpenFolder, located: Located, new: NewFile) -> list[str]:
    name = located.path.name
    if folder.look(name) is not None:
        raise NothingDone(f"{located.given!r} exists by now. {UNCHANGED} Read it before you go on.")
    with _temporary_file(folder, io.BytesIO(new.content), None) as (temporary, notes):
        folder.put(temporary, name, over=False)
    return notes


def _replace_file(folder: OpenFolder, located: Located, new: NewFile, seen: str) -> list[str]:
    name, backup = located.path.name, f"{located.path.name}{new.backup}" if new.backup else ""
    with ExitStack() as at_end:
        with _opened_old_file(folder, located) as old:
            if not fits_fingerprint(old, seen):
                raise NothingDone(
                    f"{located.given!r} was changed meanwhile. {UNCHANGED} Read it again before you go on."
                )
            status = os.fstat(old.fileno())
            temporary, notes = at_end.enter_context(_temporary_file(folder, io.BytesIO(new.content), old))
            if backup:
                copy, _ = at_end.enter_context(_temporary_file(folder, old, old))
                folder.put(copy, backup, over=True)
        try:
            _must_be(folder.look(name), status)
            folder.put(temporary, name, over=True)
        except OSError:
            if backup:
                _remove_quietly(folder, backup)
            raise
    if status.st_nlink > 1:
        notes.append("the file had other names (hard links); they keep the old content")
    return notes


@contextmanager
def _opened_old_file(folder: OpenFolder, located: Located) -> Generator[BinaryIO]:
    """Open the file to be replaced for writing, so that the system checks its permissions."""
    entry = folder.look(located.path.name)
    if entry is None:
        raise NothingDone(f"{located.given!r} is gone. {UNCHANGED}")
    if not stat.S_ISREG(entry.st_mode):
        raise NothingDone(f"{located.given!r} is no longer a regular file. {UNCHANGED} Try again.")
    if not entry.st_mode & _WRITABLE:
        # Root could write it anyway, but the user made it read-only.
        raise NothingDone(f"{located.given!r} is read-only. {UNCHANGED} Ask the user to allow writing to it.")
    with os.fdopen(folder.open(located.path.name, os.O_RDWR), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NothingDone(f"{located.given!r} is no longer a regular file. {UNCHANGED} Try again.")
        if FileId.of(status) != located.real.file:
            raise NothingDone(f"{located.given!r} was changed meanwhile. {UNCHANGED} Read it again before you go on.")
        yield file


@contextmanager
def _temporary_file(folder: OpenFolder, content: BinaryIO, like: BinaryIO | None) -> Generator[tuple[str, list[str]]]:
    """Create a synced file with this content and another file's permissions. Deleted on exit unless renamed."""
    name = f".vibe-{secrets.token_hex(8)}.tmp"
    try:
        yield name, _make_file(folder, name, content, like)
    finally:
        _remove_quietly(folder, name)


def _make_file(folder: OpenFolder, name: str, content: BinaryIO, like: BinaryIO | None) -> list[str]:
    # Private until all permissions are set; a new file gets the user's umask.
    mode = 0o666 if like is None else 0o600
    unnamed = folder.open_unnamed(mode)
    if unnamed is not None:
        with os.fdopen(unnamed, "wb") as file:
            notes = _fill_file(file, content, like)
            if folder.name_it(unnamed, name):
                return notes
    with os.fdopen(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        return _fill_file(file, content, like)


def _fill_file(file: BinaryIO, content: BinaryIO, like: BinaryIO | None) -> list[str]:
    content.seek(0)
    while chunk := content.read(_CHUNK):
        file.write(chunk)
    file.flush()
    notes = keep_rights(like.fileno(), file.fileno()) if like is not None else []
    os.fsync(file.fileno())
    return notes


def _must_be(entry: os.stat_result | None, status: os.stat_result) -> None:
    if entry is None or _file_state(entry) != _file_state(status):
        raise FileNotFoundError(errno.ENOENT, "replaced meanwhile")


def _file_state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _remove_quietly(folder: OpenFolder, name: str) -> None:
    with suppress(OSError):
        folder.remove(name)


def _sync_folder(folder: OpenFolder) -> None:
    descriptor = folder.open(".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep_stale_files(folder: OpenFolder) -> None:
    """Delete temporary files left behind by killed processes."""
    descriptor = folder.open(".", os.O_RDONLY)
    try:
        names = [name for name in os.listdir(descriptor) if _TEMPORARY.fullmatch(name)]
    finally:
        os.close(descriptor)
    for name in names:
        entry = folder.look(name)
        if entry is not None and stat.S_ISREG(entry.st_mode) and time.time() - entry.st_mtime > _STALE:
            folder.remove(name)


def _not_written(located: Located, error: OSError) -> NothingDone:
    """Convert the system's error to a message."""
    if error.errno in _SWAPPED:
        what = f"{located.given!r} was changed while it was being written"
        return NothingDone(
            f"{what}: what the call was allowed for is no longer at {located.path}. {UNCHANGED} Try again."
        )
    if error.errno in _FULL:
        why = "the disk or the quota is full"
    elif error.errno in _RIGHTS:
        why = "this account may not write there"
    elif error.errno == errno.EROFS:
        why = "the file system is read-only"
    else:
        why = str(error.strerror or error)
    return NothingDone(f"{located.given!r} cannot be written: {why}. {UNCHANGED} Tell the user.")


def keep_rights(old: int, new: int) -> list[str]:
    """Copy owner, group, mode and attributes between open files. Returns notes on what couldn't be copied."""
    if not hasattr(os, "fchown"):  # on Windows, a new file inherits its folder's permissions
        return []
    notes: list[str] = []
    was, now = os.fstat(old), os.fstat(new)
    mode = stat.S_IMODE(was.st_mode) & _NO_SET_ID
    if was.st_gid != now.st_gid and not _can_own(new, -1, was.st_gid):
        notes.append("its group could not be kept")
        mode = mode & ~_GROUP_BITS | (mode & 0o007) << 3 & mode
    if was.st_uid != now.st_uid and not _can_own(new, was.st_uid, -1):
        notes.append("it now belongs to this account")
    os.fchmod(new, mode)
    with suppress(OSError):
        _keep_attributes(old, new)
    return notes


def _can_own(descriptor: int, user: int, group: int) -> bool:
    try:
        os.fchown(descriptor, user, group)
    except OSError:
        return False
    return True


def _keep_attributes(old: int, new: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    for name in os.listxattr(old):
        if name.startswith(_KEPT_ATTRIBUTES):
            with suppress(OSError):
                os.setxattr(new, name, os.getxattr(old, name))


def content_fingerprint(content: bytes) -> str:
    """Return the fingerprint of a file with this content."""
    return hashlib.sha256(content).hexdigest()


def file_fingerprint(file: BinaryIO) -> str:
    """Return the fingerprint of an open file, and rewind it."""
    status = os.fstat(file.fileno())
    if status.st_size > HASHED:
        return status_fingerprint(status)
    file.seek(0)
    found = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        found.update(chunk)
    file.seek(0)
    return found.hexdigest()


def status_fingerprint(status: os.stat_result) -> str:
    """Return a fingerprint that doesn't require opening the file."""
    return f"{_BY_STATUS}{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def fits_fingerprint(file: BinaryIO, fingerprint: str) -> bool:
    """Return whether the open file still matches the fingerprint."""
    if fingerprint.startswith(_BY_STATUS):
        return status_fingerprint(os.fstat(file.fileno())) == fingerprint
    return file_fingerprint(file) == fingerprint


try:
    import fcntl
except ImportError:  # on Windows, without locks, one of two simultaneous writes by kernels may be lost
    fcntl = None


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically, readable only by its owner.

    Raises:
        OSError: It couldn't be written. The old file is untouched.
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
def locked_file(path: Path) -> Generator[None]:
    """Hold an advisory lock for `path`. The system releases it if the process dies.

    Raises:
        OSError: The lock file can't be created, or another process holds the lock too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR, PRIVATE_FILE)
    try:
        if fcntl is not None:
            _take_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _take_lock(descriptor: int) -> None:
    assert fcntl is not None
    until = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(_GAP)
        except OSError:  # some file systems don't support locks
            return None
