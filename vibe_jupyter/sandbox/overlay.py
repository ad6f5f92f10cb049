"""The project as a copy of the kernel may write to it: what it writes is on no disk, and gone with the copy.

In a mount namespace of its own, which begins as the kernel's and where everything else is read-only, an overlay lies
over the project's folder (docs.kernel.org/filesystems/overlayfs.html). Its layers are, from above: what the copy
changes, in memory; stand-ins for what it may not read; the project as it is.
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

MOST_WRITTEN: Final = 128 << 20
"""Bytes that a copy may write, all files together; less where it may have less memory."""
MOST_FILES: Final = 10_000
"""Files and folders that a copy may make or change, stand-ins included."""
_JUDGES_CUTTING: Final = 3
"""The version of Landlock from which on it judges that, too."""
_MOUNTS_ANYWHERE: Final = 1 << 21
"""CAP_SYS_ADMIN."""
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_NO_SET_ID, _NO_DEVICES = 2, 4
_RECURSIVE, _PRIVATE = 0x4000, 1 << 18
_WHOLE_TREE, _HERE = 0x8000, -100
_READ_ONLY: Final = 1
_CHANGED, _WORK, _HIDDEN = "changed", "work", "hidden"


class ProjectOverlay(NamedTuple):
    """Descriptors of its layers, in the copy."""

    project: str
    hidden: tuple[str, ...]
    original: int
    """The project as it is."""
    changed: int
    """What is different, in folders as they stand in the project."""
    room: int
    """Bytes that may be written."""

    def takes(self, path: str) -> bool:
        """Whether something may be written at a path. Links in it are followed."""
        real = os.path.realpath(path)
        return real == os.devnull or (lies_in(real, self.project) and not self.hides(real))

    def hides(self, path: str) -> bool:
        """Whether what is there may not be read, being protected. Links in the path are followed."""
        real = os.path.realpath(path)
        return any(lies_in(real, one) for one in self.hidden)

    def covers(self, descriptor: int) -> bool:
        """Whether a file that was opened before lies in the project still, and is not protected."""
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if not lies_in(path, self.project) or self.hides(path):
            return False
        with suppress(OSError):  # it was deleted
            now = os.stat(os.path.relpath(path, self.project), dir_fd=self.original, follow_symlinks=False)
            return stat.S_ISREG(now.st_mode) and os.path.samestat(now, os.fstat(descriptor))
        return False

    @property
    def is_full(self) -> bool:
        """Whether hardly anything more could be written."""
        room = os.fstatvfs(self.changed)
        return room.f_bavail * room.f_bsize < self.room // 8 or room.f_ffree < MOST_FILES // 8


def lay_over(project: str, hidden: Sequence[str], room: int = MOST_WRITTEN) -> ProjectOverlay:
    """Put the overlay in the project's place. In a process of one thread, which stays in its namespaces.

    Args:
        project: its folder, without links in its path.
        hidden: what of it may not be read.
        room: bytes that may be written.

    Raises:
        OSError: this machine, or this project, does not allow it; the process is to end.
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
    paths = {name: f"/proc/self/fd/{layer}" for name, layer in layers.items()}  # no sign in them parts options
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
    """Have Python say that it changed the time of a file in the overlay, or its rights to what they are, as code does
    that copies a file: no wall would tell other files from these (`seccomp.WRITING`). In the copy only."""
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
        elif not os.path.exists(path):  # as `Path.touch` asks before it makes the file
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    os.chmod, os.utime = chmod, utime  # pyright: ignore[reportAttributeAccessIssue]


def _is_outermost() -> bool:
    """Whether the user namespace is the machine's own, whose root alone may use all attributes of files."""
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]


def _look_for_mounts(project: str) -> None:
    """An overlay shows nothing of what is mounted below it."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        place = line.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1")
        path = os.fsdecode(place)
        if path != project and lies_in(path, project):
            raise OSError(f"something is mounted in the project ({os.path.relpath(path, project)})")


def _make_namespaces(*, alone: bool) -> None:
    """Of mounts, and of users where mounts are not `alone` allowed: whoever it belongs to is the same user in it."""
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
    """In memory that is mounted where the overlay will lie over it, out of everybody's sight."""
    size = f"size={room},nr_inodes={MOST_FILES},mode=700"
    system_call("mount", b"tmpfs", os.fsencode(project), b"tmpfs", _NO_SET_ID | _NO_DEVICES, size.encode("ascii"))
    layers: dict[str, int] = {}
    for name in (_CHANGED, _WORK, _HIDDEN):
        os.mkdir(f"{project}/{name}", 0o700)
        layers[name] = os.open(f"{project}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _look_like(f"/proc/self/fd/{layers[_CHANGED]}", os.fstat(original))
    return layers


class _StandIns:
    """Of the same names, that nobody may read."""

    def __init__(self, project: str, original: int, layer: int, attribute: str) -> None:
        self._project = project
        self._original = original
        self._layer = f"/proc/self/fd/{layer}"
        self._attribute = attribute
        self._folders: dict[str, os.stat_result] = {}

    def make(self, hidden: Sequence[str]) -> None:
        """One for each."""
        for path in hidden:
            name = os.path.relpath(path, self._project)
            try:
                state = os.stat(name, dir_fd=self._original, follow_symlinks=False)
            except FileNotFoundError:  # since they were looked for
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
    """What the user may do there is to be the same."""
    try:
        os.chown(path, state.st_uid, state.st_gid)
    except OSError:
        if state.st_uid != os.geteuid():  # the group may not be in the namespace
            raise
    os.chmod(path, stat.S_IMODE(state.st_mode))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
