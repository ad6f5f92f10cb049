"""Which system calls a confined process may make: those listed, some only with harmless arguments, no other.

The program is one of the kernel's packet filters: rows of (operation, jump if true, jump if false, value).
"""

import ctypes
import errno
import os
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from vibe_jupyter.sandbox.system_calls import system_call

HARMLESS: Final = {
    "read": 0,
    "write": 1,
    "close": 3,
    "stat": 4,
    "fstat": 5,
    "lstat": 6,
    "poll": 7,
    "lseek": 8,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "pread64": 17,
    "readv": 19,
    "writev": 20,
    "access": 21,
    "pipe": 22,
    "select": 23,
    "sched_yield": 24,
    "mremap": 25,
    "mincore": 27,
    "madvise": 28,
    "dup": 32,
    "dup2": 33,
    "pause": 34,
    "nanosleep": 35,
    "getitimer": 36,
    "alarm": 37,
    "setitimer": 38,
    "getpid": 39,
    "recvfrom": 45,
    "sendmsg": 46,
    "recvmsg": 47,
    "shutdown": 48,
    "getsockname": 51,
    "getpeername": 52,
    "setsockopt": 54,
    "getsockopt": 55,
    "exit": 60,
    "wait4": 61,
    "uname": 63,
    "fsync": 74,
    "fdatasync": 75,
    "getdents": 78,
    "getcwd": 79,
    "chdir": 80,
    "fchdir": 81,
    "readlink": 89,
    "umask": 95,
    "gettimeofday": 96,
    "getrlimit": 97,
    "getrusage": 98,
    "sysinfo": 99,
    "times": 100,
    "getuid": 102,
    "getgid": 104,
    "geteuid": 107,
    "getegid": 108,
    "getppid": 110,
    "getpgrp": 111,
    "getgroups": 115,
    "getresuid": 118,
    "getresgid": 120,
    "getpgid": 121,
    "getsid": 124,
    "capget": 125,
    "rt_sigpending": 127,
    "rt_sigtimedwait": 128,
    "rt_sigsuspend": 130,
    "sigaltstack": 131,
    "statfs": 137,
    "fstatfs": 138,
    "getpriority": 140,
    "sched_getparam": 143,
    "sched_getscheduler": 145,
    "sched_get_priority_max": 146,
    "sched_get_priority_min": 147,
    "sched_rr_get_interval": 148,
    "arch_prctl": 158,
    "gettid": 186,
    "readahead": 187,
    "getxattr": 191,
    "lgetxattr": 192,
    "fgetxattr": 193,
    "listxattr": 194,
    "llistxattr": 195,
    "flistxattr": 196,
    "time": 201,
    "futex": 202,
    "sched_getaffinity": 204,
    "epoll_create": 213,
    "getdents64": 217,
    "set_tid_address": 218,
    "restart_syscall": 219,
    "fadvise64": 221,
    "clock_gettime": 228,
    "clock_getres": 229,
    "clock_nanosleep": 230,
    "exit_group": 231,
    "epoll_wait": 232,
    "epoll_ctl": 233,
    "get_mempolicy": 239,
    "waitid": 247,
    "newfstatat": 262,
    "readlinkat": 267,
    "faccessat": 269,
    "pselect6": 270,
    "ppoll": 271,
    "set_robust_list": 273,
    "get_robust_list": 274,
    "epoll_pwait": 281,
    "timerfd_create": 283,
    "eventfd": 284,
    "timerfd_settime": 286,
    "timerfd_gettime": 287,
    "eventfd2": 290,
    "epoll_create1": 291,
    "dup3": 292,
    "pipe2": 293,
    "preadv": 295,
    "getcpu": 309,
    "sched_getattr": 315,
    "getrandom": 318,
    "membarrier": 324,
    "preadv2": 327,
    "statx": 332,
    "rseq": 334,
    "close_range": 436,
    "faccessat2": 439,
    "epoll_pwait2": 441,
    "futex_waitv": 449,
    "futex_wake": 454,
    "futex_wait": 455,
    "futex_requeue": 456,
}
"""Those of x86-64 that neither write nor reach another process, whatever their arguments."""


class Condition(NamedTuple):
    """One of these values must stand in a 32-bit word of the arguments, of which the bits of the mask count."""

    word: int
    mask: int
    values: tuple[int, ...]


_WHOLE: Final = 0xFFFFFFFF
_WRITE_FLAGS: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NAMESPACES: Final = 0x7E030000
_CLONE_THREAD: Final = 0x00010000
_TERMINAL_QUESTIONS: Final = (0x5401, 0x541B, 0x5413, 0x5450, 0x5451, 0x5421)
"""TCGETS, FIONREAD, TIOCGWINSZ, FIONCLEX, FIOCLEX, FIONBIO."""
_FILE_CONTROL: Final = (0, 1, 2, 3, 4, 5, 6, 1030)
"""Duplicates, flags, locks (for reading only, since no descriptor writes); no owner of a descriptor, no lease."""
_OWN_CONTROL: Final = (3, 15, 16, 23, 27, 0x53564D41)
"""PR_GET_DUMPABLE, SET_NAME, GET_NAME, CAPBSET_READ, GET_SECUREBITS, SET_VMA."""

ASK: Final = 0x7FC00000
"""The verdict that has whoever listens decide."""
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
_KILL: Final = 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER_AT: Final = 0
_MACHINE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_X86_64: Final = 0xC000003E
_X32_BIT: Final = 0x40000000
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_Row = tuple[int, int, int, int]


def conditional_calls(own_pid: int) -> dict[int, tuple[Condition, ...]]:
    """System calls that a copy may make where all of these hold, by their numbers."""
    return {
        2: (Condition(2, _WRITE_FLAGS, (0,)),),  # open
        257: (Condition(4, _WRITE_FLAGS, (0,)),),  # openat
        56: (Condition(0, _NAMESPACES, (_CLONE_THREAD,)),),  # clone
        16: (Condition(2, _WHOLE, _TERMINAL_QUESTIONS),),  # ioctl
        72: (Condition(2, _WHOLE, _FILE_CONTROL),),  # fcntl
        73: (Condition(2, 2, (0,)),),  # flock: shared
        53: (Condition(0, _WHOLE, (1,)), Condition(2, 0xF, (1,))),  # socketpair: of streams
        44: (Condition(8, _WHOLE, (0,)), Condition(9, _WHOLE, (0,))),  # sendto: no address
        157: (Condition(0, _WHOLE, _OWN_CONTROL),),  # prctl
        302: (  # prlimit64: reads its own
            *(Condition(0, _WHOLE, (0, own_pid)), Condition(4, _WHOLE, (0,)), Condition(5, _WHOLE, (0,))),
        ),
        234: (Condition(0, _WHOLE, (own_pid,)),),  # tgkill
        62: (Condition(0, _WHOLE, (own_pid,)),),  # kill
    }


ABSENT: Final = (435, 437)
"""clone3 and openat2, whose arguments no filter sees: the C library then uses the older ones."""


class CallRules(NamedTuple):
    """For `install_filter`."""

    allowed: Collection[int]
    absent: Collection[int]
    """As if this Linux did not have them."""
    conditional: Mapping[int, tuple[Condition, ...]]
    """Allowed where all of these hold."""
    unfit: int
    """The verdict on one whose conditions do not hold."""
    others: int
    """The verdict on all that are not listed."""


def copy_rules(own_pid: int) -> CallRules:
    """Those of a copy of the kernel."""
    unfit, others = _FAIL | errno.EACCES, _FAIL | errno.EPERM
    return CallRules(HARMLESS.values(), ABSENT, conditional_calls(own_pid), unfit, others)


def install_filter(rules: CallRules, *, listen: bool = False) -> int:
    """Hold this thread, and those it starts, to the rules from now on.

    Args:
        rules: which calls are allowed.
        listen: whether somebody decides on calls whose verdict is `ASK`.

    Returns:
        The descriptor at which they are heard; 0 where nobody listens.

    Raises:
        OSError: the kernel refused the filter.
    """
    rows = b"".join(struct.pack("HBBI", *row) for row in filter_rows(rules))
    held = ctypes.create_string_buffer(rows)
    program = struct.pack("HxxxxxxP", len(rows) // 8, ctypes.addressof(held))
    flags = _NEW_LISTENER if listen else 0
    return system_call("seccomp", _SET_MODE_FILTER, flags, ctypes.create_string_buffer(program))


def filter_rows(rules: CallRules) -> list[_Row]:
    """The program."""
    return [
        *((_LOAD, 0, 0, _MACHINE_AT), (_EQUAL, 1, 0, _X86_64), (_RETURN, 0, 0, _KILL)),
        *((_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)),
        *(row for number in rules.allowed for row in _answer(number, _ALLOW)),
        *(row for number in rules.absent for row in _answer(number, _FAIL | errno.ENOSYS)),
        *(row for number, held in rules.conditional.items() for row in _conditional_answer(number, held, rules.unfit)),
        (_RETURN, 0, 0, rules.others),
    ]


def _answer(number: int, verdict: int) -> Iterator[_Row]:
    yield _EQUAL, 0, 1, number
    yield _RETURN, 0, 0, verdict


def _conditional_answer(number: int, conditions: tuple[Condition, ...], unfit: int) -> Iterator[_Row]:
    body: list[_Row] = []
    for word, mask, values in conditions:
        body += [(_LOAD, 0, 0, _ARGUMENTS_AT + 4 * word), (_AND, 0, 0, mask & _WHOLE)]
        body += [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
        body.append((_RETURN, 0, 0, unfit))
    yield _EQUAL, 0, len(body) + 1, number
    yield from body
    yield _RETURN, 0, 0, _ALLOW
