"""System calls that Python doesn't wrap, and resource limits of this process."""

import ctypes
import os
import struct
from functools import cache
from typing import Final

from vibe_jupyter.sandbox.call_numbers import this_processor

_SET_PDEATHSIG: Final = 1
_SET_NO_NEW_PRIVS: Final = 38
_CAPABILITY_VERSION: Final = 0x20080522
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: files readable thanks to them must stay readable in the copy.
_READING_CAPABILITIES: Final = 0b110


@cache
def c_library() -> ctypes.CDLL:
    """Return the C library of this process."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return library


def system_call(name: str, *arguments: object) -> int:
    """Make a system call and return its result.

    Raises:
        OSError: The call failed.
    """
    value = c_library().syscall(ctypes.c_long(this_processor().numbers[name]), *arguments)
    if value < 0:
        raise _last_error(name)
    return value


def die_with_parent(signal_number: int) -> None:
    """Send a signal to this process when the thread that forked it ends."""
    _control_process(_SET_PDEATHSIG, signal_number)


def gain_no_privileges() -> None:
    """Set no_new_privs, which Landlock and unprivileged seccomp require."""
    _control_process(_SET_NO_NEW_PRIVS, 1)


def capabilities() -> int:
    """Return the effective capabilities, as a bit mask of the first 32."""
    head, present = struct.pack("II", _CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    system_call("capget", ctypes.create_string_buffer(head), present)
    return struct.unpack_from("II", present.raw)[1]


def drop_capabilities(held: int) -> None:
    """Drop all capabilities except those for reading.

    Args:
        held: The initial `capabilities`. In a new user namespace, every process has all.
    """
    kept = held & _READING_CAPABILITIES
    head = struct.pack("II", _CAPABILITY_VERSION, 0)
    wanted = struct.pack("6I", kept, kept, 0, 0, 0, 0)
    system_call("capset", ctypes.create_string_buffer(head), ctypes.create_string_buffer(wanted))


def limit_resource(number: int, most: int) -> None:
    """Limit this process's use of a resource, without raising an existing hard limit.

    Args:
        number: One of `resource.RLIMIT_…`.
        most: The limit, in the unit of that resource.
    """
    import resource  # noqa: PLC0415 - Windows does not have it

    hard = resource.getrlimit(number)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(number, (value, value))


def map_private(start: int, size: int, protection: int, descriptor: int, offset: int) -> None:
    """Replace what is mapped at `start` by a private mapping, of fresh memory if `descriptor` is -1.

    Raises:
        OSError: The mapping failed.
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
