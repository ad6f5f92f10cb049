"""Which paths a confined process may use: a rule for each, and nothing beside them."""

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
_OF_FILES: Final = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14
"""To run, write, read and cut: all others are rights to a folder."""
_DEVICES: Final = 1 << 6 | 1 << 11 | 1 << 15
"""To make them, and to ask them anything."""
_RIGHTS_SINCE: Final = ((1, 13), (2, 14), (3, 15), (5, 16))
"""From which version on the kernel knows so many rights to files."""
_NETWORK_SINCE: Final = 4
_SCOPES_SINCE: Final = 6


def landlock_version() -> int:
    """The version of its interface that this Linux has; 0 where there is none."""
    number = this_processor().numbers.get("landlock_create_ruleset")
    if sys.platform != "linux" or number is None:
        return 0
    return max(0, c_library().syscall(ctypes.c_long(number), None, ctypes.c_size_t(0), _ASK_VERSION))


def restrict_paths(
    readable: Iterable[str], listable: Iterable[str], runnable: Iterable[str] = (), writable: Iterable[str] = ()
) -> None:
    """Forbid this thread, and those it starts, every path but these and what is beneath them.

    Args:
        readable: files, and folders with all that is in them.
        listable: folders of which the names may be listed, of all that is beneath them.
        runnable: programs, and folders of programs, that may be read and started.
        writable: files and folders in which everything may be made and changed, but for devices.

    Raises:
        OSError: the kernel refused a rule.
    """
    rules = PathRules()
    rules.allow_reading(readable, listable)
    rules.allow_running(runnable)
    rules.allow_writing(writable)
    rules.enforce()


class PathRules:
    """Rules that hold from `enforce` on. Each is for the file or folder that is at its path when it is made."""

    def __init__(self) -> None:
        """
        Raises:
            OSError: the kernel refused them, as all methods say.
        """
        version = landlock_version()
        self._rights = (1 << max(count for since, count in _RIGHTS_SINCE if version >= since)) - 1
        handled = struct.pack("QQQ", self._rights, 0b11 if version >= _NETWORK_SINCE else 0, 0b11)
        length = 24 if version >= _SCOPES_SINCE else 16 if version >= _NETWORK_SINCE else 8
        attribute = ctypes.create_string_buffer(handled[:length], length)
        self.descriptor = system_call("landlock_create_ruleset", attribute, ctypes.c_size_t(length), 0)
        """Must stay open until then."""

    def allow_reading(self, readable: Iterable[str], listable: Iterable[str] = ()) -> None:
        """Files and folders with all that is in them, and folders of which the names may be listed."""
        for path in readable:
            self._allow(path, _READ_FILE | _READ_FOLDER)
        for path in listable:
            self._allow(path, _READ_FOLDER)

    def allow_running(self, runnable: Iterable[str]) -> None:
        """Programs, and folders of programs, that may be read and started."""
        for path in runnable:
            self._allow(path, _RUN | _READ_FILE | _READ_FOLDER)

    def allow_writing(self, writable: Iterable[str], *, runs: bool = True) -> None:
        """Files and folders in which everything may be made and changed, and started where it `runs`, but for
        devices."""
        for path in writable:
            self._allow(path, self._rights & ~_DEVICES & ~(0 if runs else _RUN))

    def enforce(self) -> None:
        """Hold this thread, and those it starts, to them."""
        system_call("landlock_restrict_self", self.descriptor, 0)
        os.close(self.descriptor)

    def _allow(self, path: str, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # not there, and so not to be read
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _OF_FILES
            if rights:
                rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
                system_call("landlock_add_rule", self.descriptor, _BENEATH, rule, 0)
        finally:
            os.close(descriptor)


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is a folder's or below it, both absolute and without links."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
