"""Landlock rules: the paths a confined process may use. Everything else is denied."""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from typing import Final

from vibe_jupyter.sandbox.call_numbers import this_processor
from vibe_jupyter.sandbox.system_calls import c_library, system_call

_ASK_VERSION: Final = 1
_BENEATH: Final = 1
_RUN: Final = 1
_READ_FILE: Final = 4
_READ_FOLDER: Final = 8
# Execute, write, read and truncate; all other rights apply to folders.
_OF_FILES: Final = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14
_DEVICES: Final = 1 << 6 | 1 << 11 | 1 << 15  # make device files, and ioctl on them
# (ABI version, number of filesystem rights known from then on).
_RIGHTS_SINCE: Final = ((1, 13), (2, 14), (3, 15), (5, 16))
_NETWORK_SINCE: Final = 4
_SCOPES_SINCE: Final = 6


def landlock_version() -> int:
    """Return the Landlock ABI version of this system, or 0 without Landlock."""
    number = this_processor().numbers.get("landlock_create_ruleset")
    if sys.platform != "linux" or number is None:
        return 0
    return max(0, c_library().syscall(ctypes.c_long(number), None, ctypes.c_size_t(0), _ASK_VERSION))


def restrict_paths(
    readable: Iterable[str], listable: Iterable[str], runnable: Iterable[str] = (), writable: Iterable[str] = ()
) -> None:
    """Restrict this thread, and those it starts, to these paths and everything beneath them.

    Args:
        readable: Files, and folders with all their contents.
        listable: Folders in which names may be listed at any depth.
        runnable: Programs, and folders of programs, that may be read and executed.
        writable: Files and folders in which everything may be created and changed, except devices.

    Raises:
        OSError: The kernel rejected a rule.
    """
    rules = PathRules()
    rules.allow_reading(readable, listable)
    rules.allow_running(runnable)
    rules.allow_writing(writable)
    rules.enforce()


class PathRules:
    """Rules that take effect with `enforce`. Each applies to the file or folder at its path when it is added."""

    def __init__(self) -> None:
        """Create a ruleset.

        Raises:
            OSError: The kernel rejected it. All methods may raise this.
        """
        version = landlock_version()
        self._rights = (1 << max(count for since, count in _RIGHTS_SINCE if version >= since)) - 1
        handled = struct.pack("QQQ", self._rights, 0b11 if version >= _NETWORK_SINCE else 0, 0b11)
        length = 24 if version >= _SCOPES_SINCE else 16 if version >= _NETWORK_SINCE else 8
        attribute = ctypes.create_string_buffer(handled[:length], length)
        # Must stay open until `enforce`.
        self.descriptor = system_call("landlock_create_ruleset", attribute, ctypes.c_size_t(length), 0)

    def allow_reading(self, readable: Iterable[str], listable: Iterable[str] = ()) -> None:
        """Allow reading of files and of folders with all their contents, and listing of names in folders."""
        for path in readable:
            self._allow(path, _READ_FILE | _READ_FOLDER)
        for path in listable:
            self._allow(path, _READ_FOLDER)

    def allow_running(self, runnable: Iterable[str]) -> None:
        """Allow reading and executing of programs and folders of programs."""
        for path in runnable:
            self._allow(path, _RUN | _READ_FILE | _READ_FOLDER)

    def allow_writing(self, writable: Iterable[str], *, runs: bool = True) -> None:
        """Allow creating and changing everything in files and folders except devices, and executing it if `runs`."""
        for path in writable:
            self._allow(path, self._rights & ~_DEVICES & ~(0 if runs else _RUN))

    def enforce(self) -> None:
        """Apply the rules to this thread and those it starts."""
        system_call("landlock_restrict_self", self.descriptor, 0)
        os.close(self.descriptor)

    def _allow(self, path: str, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # doesn't exist, so there is nothing to allow
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _OF_FILES
            if rights:
                rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
                system_call("landlock_add_rule", self.descriptor, _BENEATH, rule, 0)
        finally:
            os.close(descriptor)


def lies_in(path: str, folder: str) -> bool:
    """Return whether a path is the folder or inside it. Both must be absolute, without symbolic links."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
