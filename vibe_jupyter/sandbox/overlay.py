"""Overlay on the project for a copy that may write: changes are in memory only and vanish with the copy.

The copy gets a mount namespace in which everything is read-only except an overlay on the project's folder
(docs.kernel.org/filesystems/overlayfs.html). Its layers, from the top: the copy's changes on a tmpfs, placeholders for
files it may not read, and the project itself.
"""

import errno
import os
import stat
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from vibe_jupyter.sandbox.landlock import landlock_version, lies_in
from vibe_jupyter.sandbox.system_calls import capabilities, system_call

MOST_WRITTEN: Final = 128 << 20  # bytes per copy, all files together; less if its memory limit is lower
MOST_FILES: Final = 10_000  # files and folders a copy may create or change, including placeholders
_JUDGES_CUTTING: Final = 3  # first Landlock ABI version that checks truncation
_MOUNTS_ANYWHERE: Final = 1 << 21  # CAP_SYS_ADMIN
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_NO_SET_ID, _NO_DEVICES = 2, 4
_RECURSIVE, _PRIVATE = 0x4000, 1 << 18
_WHOLE_TREE, _HERE = 0x8000, -100
_READ_ONLY: Final = 1
_CHANGED, _WORK, _HIDDEN = "changed", "work", "hidden"


class ProjectOverlay(NamedTuple):
    """Descriptors of the overlay's layers, in the copy."""

    project: str
    hidden: tuple[str, ...]
    original: int  # the unchanged project
    changed: int  # changed entries, in the project's folder structure
    room: int  # bytes that may be written

    def takes(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bool:
        """Return whether a path is writable, after resolving symbolic links."""
        real = os.path.realpath(os.fsdecode(path))
        return real == os.devnull or (lies_in(real, self.project) and not self.hides(real))

    def hides(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bool:
        """Return whether a path is protected and may not be read, after resolving symbolic links."""
        real = os.path.realpath(os.fsdecode(path))
        return any(lies_in(real, one) for one in self.hidden)

    def covers(self, descriptor: int) -> bool:
        """Return whether an open file is still in the project under its name and isn't protected."""
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if not lies_in(path, self.project) or self.hides(path):
            return False
        with suppress(OSError):  # it was deleted
            now = os.stat(os.path.relpath(path, self.project), dir_fd=self.original, follow_symlinks=False)
            return stat.S_ISREG(now.st_mode) and os.path.samestat(now, os.fstat(descriptor))
        return False

    @property
    def is_full(self) -> bool:
        """True if less than an eighth of the space or inodes is left."""
        room = os.fstatvfs(self.changed)
        return room.f_bavail * room.f_bsize < self.room // 8 or room.f_ffree < MOST_FILES // 8


def lay_over(project: str, hidden: Sequence[str], room: int = MOST_WRITTEN) -> ProjectOverlay:
    """Mount the overlay over the project. Requires a single-threaded process, which stays in the new namespaces.

    Args:
        project: The project's folder, without symbolic links in its path.
        hidden: Paths in it that may not be read.
        room: Bytes that may be written.

    Raises:
        OSError: Not possible on this machine or for this project. The process must exit.
    """
    if landlock_version() < _JUDGES_CUTTING:
        raise OSError("this Linux does not judge the cutting of files")
    _look_for_mounts(project)
    folder, is_root = os.getcwd(), bool(capabilities() & _MOUNTS_ANYWHERE)
    trusted = is_root and _is_outermost()
    _make_namespaces(alone=is_root)
    system_call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    system_call("mount_setattr", _HERE, b"/", _WHOLE_TREE, struct.pack("QQQQ", _READ_ONLY, 0, 0, 0), 32)
    original = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    layers = _make_layers(project, original, room)
    attribute = f"{'trusted' if trusted else 'user'}.overlay.opaque"
    _StandIns(project, original, layers[_HIDDEN], attribute).make(hidden)
    # These paths contain no characters that separate mount options.
    paths = {name: f"/proc/self/fd/{layer}" for name, layer in layers.items()}
    options = f"lowerdir={paths[_HIDDEN]}:/proc/self/fd/{original},upperdir={paths[_CHANGED]},workdir={paths[_WORK]}"
    options += "" if trusted else ",userxattr"
    system_call(
        "mount", b"overlay", os.fsencode(project), b"overlay", _NO_SET_ID | _NO_DEVICES, options.encode("ascii")
    )
    for name in (_WORK, _HIDDEN):
        os.close(layers[name])
    os.chdir(folder)
    return ProjectOverlay(project, tuple(hidden), original, layers[_CHANGED], room)


def leave_rights_and_times(overlay: ProjectOverlay) -> None:
    """Patch `os.chmod` and `os.utime` to succeed without effect in the overlay, as code that copies files expects.

    Only for times, and for modes that don't change. The real calls are blocked, because seccomp can't restrict them
    to files in the overlay (see `seccomp.WRITING`). In the copy only.
    """
    change_rights, change_times = os.chmod, os.utime

    def chmod(path: Any, mode: int, **more: Any) -> None:
        follows = more in ({}, {"follow_symlinks": True})
        if (
            isinstance(path, int)
            or not follows
            or stat.S_IMODE(os.stat(path).st_mode) != mode
            or not overlay.takes(path)
        ):
            change_rights(path, mode, **more)

    def utime(path: Any, *times: Any, **more: Any) -> None:
        if isinstance(path, int) or not overlay.takes(path):
            change_times(path, *times, **more)
        elif not os.path.exists(path):  # `Path.touch` relies on this error to create the file
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    os.chmod, os.utime = chmod, utime  # pyright: ignore[reportAttributeAccessIssue]


def _is_outermost() -> bool:
    """Return whether this is the initial user namespace, the only one where root may set trusted attributes."""
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]


def _look_for_mounts(project: str) -> None:
    """Raise OSError if something is mounted inside the project, since an overlay would hide it."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        place = line.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1")
        path = os.fsdecode(place)
        if path != project and lies_in(path, project):
            raise OSError(f"something is mounted in the project ({os.path.relpath(path, project)})")


def _make_namespaces(*, alone: bool) -> None:
    """Create a mount namespace, and a user namespace too unless `alone` (mounting is allowed without one).

    The user keeps their id in it.
    """
    user, group = os.geteuid(), os.getegid()
    if alone:
        system_call("unshare", _NEW_MOUNTS)
        return
    try:
        system_call("unshare", _NEW_MOUNTS | _NEW_USER)
    except OSError as error:
        raise OSError(f"user namespaces are not allowed here ({os.strerror(error.errno or 0)})") from error
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(text, encoding="ascii")


def _make_layers(project: str, original: int, room: int) -> dict[str, int]:
    """Create the layers on a tmpfs, mounted where the overlay will cover it, so that no path leads there."""
    size = f"size={room},nr_inodes={MOST_FILES},mode=700"
    system_call("mount", b"tmpfs", os.fsencode(project), b"tmpfs", _NO_SET_ID | _NO_DEVICES, size.encode("ascii"))
    layers: dict[str, int] = {}
    for name in (_CHANGED, _WORK, _HIDDEN):
        os.mkdir(f"{project}/{name}", 0o700)
        layers[name] = os.open(f"{project}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _look_like(f"/proc/self/fd/{layers[_CHANGED]}", os.fstat(original))
    return layers


class _StandIns:
    """Unreadable placeholders with the names of hidden files and folders."""

    def __init__(self, project: str, original: int, layer: int, attribute: str) -> None:
        self._project = project
        self._original = original
        self._layer = f"/proc/self/fd/{layer}"
        self._attribute = attribute
        self._folders: dict[str, os.stat_result] = {}

    def make(self, hidden: Sequence[str]) -> None:
        """Create a placeholder for each hidden path."""
        for path in hidden:
            name = os.path.relpath(path, self._project)
            try:
                state = os.stat(name, dir_fd=self._original, follow_symlinks=False)
            except FileNotFoundError:  # deleted since the project was scanned
                continue
            self._make_parents(os.path.dirname(name))
            self._make(f"{self._layer}/{name}", state)
        for name, state in reversed(self._folders.items()):
            _look_like(f"{self._layer}/{name}", state)

    def _make_parents(self, folder: str) -> None:
        if not folder or folder in self._folders:
            return
        self._make_parents(os.path.dirname(folder))
        self._folders[folder] = os.stat(folder, dir_fd=self._original, follow_symlinks=False)
        os.mkdir(f"{self._layer}/{folder}", 0o700)

    def _make(self, path: str, state: os.stat_result) -> None:
        if stat.S_ISDIR(state.st_mode):
            os.mkdir(path, 0o700)
            os.setxattr(path, self._attribute, b"y")
            os.chmod(path, 0)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0))
            os.truncate(path, state.st_size)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _look_like(path: str, state: os.stat_result) -> None:
    """Copy owner, mode and times, so that the user's permissions stay the same."""
    try:
        os.chown(path, state.st_uid, state.st_gid)
    except OSError:
        if state.st_uid != os.geteuid():  # the group may not be mapped in the namespace
            raise
    os.chmod(path, stat.S_IMODE(state.st_mode))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
