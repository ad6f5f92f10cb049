"""The system calls for which Python has no function, and limits of this process."""

import ctypes
import os
import struct
from functools import cache
from typing import Final

from vibe_jupyter.sandbox.call_numbers import this_processor

_SET_PDEATHSIG: Final = 1
_SET_NO_NEW_PRIVS: Final = 38
_CAPABILITY_VERSION: Final = 0x20080522
_READING_CAPABILITIES: Final = 0b110
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: whoever may read a file because of them reads it in the copy too."""


@cache
def c_library() -> ctypes.CDLL:
    """The one this process runs with."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return library


def system_call(name: str, *arguments: object) -> int:
    """What it returns.

    Raises:
        OSError: it failed.
    """
    value = c_library().syscall(ctypes.c_long(this_processor().numbers[name]), *arguments)
    if value < 0:
        raise _last_error(name)
    return value


def die_with_parent(signal_number: int) -> None:
    """Have this process get a signal when the thread that forked it ends."""
    _control_process(_SET_PDEATHSIG, signal_number)


def gain_no_privileges() -> None:
    """No program that this process becomes has more rights than it: what Landlock and seccomp ask for."""
    _control_process(_SET_NO_NEW_PRIVS, 1)


def capabilities() -> int:
    """Those of root's rights that this process may use, a bit for each of the first 32."""
    head, present = struct.pack("II", _CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    system_call("capget", ctypes.create_string_buffer(head), present)
    return struct.unpack_from("II", present.raw)[1]


def drop_capabilities(held: int) -> None:
    """Keep of root's rights those to read.

    Args:
        held: the `capabilities` that it began with; in a user namespace of its own everybody has all.
    """
    kept = held & _READING_CAPABILITIES
    head = struct.pack("II", _CAPABILITY_VERSION, 0)
    wanted = struct.pack("6I", kept, kept, 0, 0, 0, 0)
    system_call("capset", ctypes.create_string_buffer(head), ctypes.create_string_buffer(wanted))


def limit_resource(number: int, most: int) -> None:
    """Let this process take no more of a resource than this; where less was allowed before, that stays.

    Args:
        number: one of `resource.RLIMIT_…`.
        most: in the unit of that resource.
    """
    import resource  # noqa: PLC0415 - Windows does not have it

    hard = resource.getrlimit(number)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(number, (value, value))


def map_private(start: int, size: int, protection: int, descriptor: int, offset: int) -> None:
    """Put a private mapping in the place of what is mapped there; of fresh memory where `descriptor` is -1.

    Raises:
        OSError: it could not be put there.
    """
    private, fixed, anonymous = 0x02, 0x10, 0x20
    flags = private | fixed | (anonymous if descriptor < 0 else 0)
    if c_library().mmap(start, size, protection, flags, descriptor, offset) != start:
        raise _last_error("mmap")


def _control_process(what: int, value: int) -> None:
    if c_library().prctl(what, value, 0, 0, 0) < 0:
        raise _last_error("prctl")


def _last_error(name: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{name}: {os.strerror(number)}")
