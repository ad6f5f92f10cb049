"""System calls that a confined process may make: an allowlist, with conditions on arguments for some.

A filter is a classic BPF program: rows of (operation, jump if true, jump if false, value).
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from vibe_jupyter.sandbox.call_numbers import Processor, this_processor
from vibe_jupyter.sandbox.system_calls import system_call

# Calls that neither write nor reach another process, whatever their arguments.
HARMLESS: Final = frozenset(
    (
        *("read", "write", "close", "stat", "fstat", "lstat", "poll", "lseek", "mmap", "mprotect", "munmap", "brk"),
        *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "pread64", "readv", "writev", "access", "pipe"),
        *("select", "sched_yield", "mremap", "mincore", "madvise", "dup", "dup2", "pause", "nanosleep"),
        *("getitimer", "alarm", "setitimer", "getpid", "recvfrom", "sendmsg", "recvmsg", "shutdown", "getsockname"),
        *("getpeername", "setsockopt", "getsockopt", "exit", "wait4", "uname", "fsync", "fdatasync", "getdents"),
        *("getcwd", "chdir", "fchdir", "readlink", "umask", "gettimeofday", "getrlimit", "getrusage", "sysinfo"),
        *("times", "getuid", "getgid", "geteuid", "getegid", "getppid", "getpgrp", "getgroups", "getresuid"),
        *("getresgid", "getpgid", "getsid", "capget", "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend"),
        *("sigaltstack", "statfs", "fstatfs", "getpriority", "sched_getparam", "sched_getscheduler"),
        *("sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "arch_prctl", "gettid"),
        *("readahead", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "time"),
        *("futex", "sched_getaffinity", "epoll_create", "getdents64", "set_tid_address", "restart_syscall"),
        *("fadvise64", "clock_gettime", "clock_getres", "clock_nanosleep", "exit_group", "epoll_wait", "epoll_ctl"),
        *("get_mempolicy", "waitid", "newfstatat", "readlinkat", "faccessat", "pselect6", "ppoll"),
        *("set_robust_list", "get_robust_list", "epoll_pwait", "timerfd_create", "eventfd", "timerfd_settime"),
        *("timerfd_gettime", "eventfd2", "epoll_create1", "dup3", "pipe2", "preadv", "getcpu", "sched_getattr"),
        *("getrandom", "membarrier", "preadv2", "statx", "rseq", "close_range", "faccessat2", "epoll_pwait2"),
        *("futex_waitv", "futex_wake", "futex_wait", "futex_requeue"),
    )
)


# Calls that change files where Landlock checks the path, or that use a descriptor for which it did. Landlock doesn't
# check changes of modes, owners, times and attributes, so those calls aren't included.
WRITING: Final = frozenset(
    (
        *("pwrite64", "pwritev", "pwritev2", "truncate", "ftruncate", "fallocate", "copy_file_range", "sendfile"),
        *("rename", "renameat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "creat", "open", "openat"),
        *("link", "symlink", "symlinkat", "msync"),
    )
)


class Condition(NamedTuple):
    """Condition on a 32-bit word of the arguments: after masking, it must equal one of the values."""

    word: int
    mask: int
    values: tuple[int, ...]


_WHOLE: Final = 0xFFFFFFFF
_WRITE_FLAGS: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NAMESPACES: Final = 0x7E030000
_CLONE_THREAD: Final = 0x00010000
# TCGETS, FIONREAD, TIOCGWINSZ, FIONCLEX, FIOCLEX, FIONBIO.
_TERMINAL_QUESTIONS: Final = (0x5401, 0x541B, 0x5413, 0x5450, 0x5451, 0x5421)
# Commands of fcntl(2) to duplicate, read and set flags, and query locks. Not to set owners or leases.
_FILE_CONTROL: Final = (0, 1, 2, 3, 4, 5, 36, 1030)
FILE_LOCKS: Final = (6, 7, 37, 38)  # commands of fcntl(2): F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
# Locks would block other programs. On an inherited descriptor, flock(2) would even change the parent's lock.
_LOCKING: Final = {"fcntl": Condition(2, _WHOLE, FILE_LOCKS), "flock": None}
# PR_GET_DUMPABLE, SET_NAME, GET_NAME, CAPBSET_READ, GET_SECUREBITS, SET_VMA.
_OWN_CONTROL: Final = (3, 15, 16, 23, 27, 0x53564D41)

ASK: Final = 0x7FC00000  # SECCOMP_RET_USER_NOTIF: the listener decides
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
_KILL: Final = 0x80000000
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER_AT: Final = 0
_MACHINE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
# Bit in the numbers of x86-64's x32 calls. No processor has regular numbers this high.
_X32_BIT: Final = 0x40000000
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_Row = tuple[int, int, int, int]


def conditional_calls(own_pid: int) -> dict[str, tuple[Condition, ...]]:
    """Return the calls that a copy may make if all conditions hold."""
    return {
        "open": (Condition(2, _WRITE_FLAGS, (0,)),),
        "openat": (Condition(4, _WRITE_FLAGS, (0,)),),
        "clone": (Condition(0, _NAMESPACES, (_CLONE_THREAD,)),),
        "ioctl": (Condition(2, _WHOLE, _TERMINAL_QUESTIONS),),
        "fcntl": (Condition(2, _WHOLE, _FILE_CONTROL),),
        "socketpair": (Condition(0, _WHOLE, (1,)), Condition(2, 0xF, (1,))),  # stream sockets
        "sendto": (Condition(8, _WHOLE, (0,)), Condition(9, _WHOLE, (0,))),  # no address
        "prctl": (Condition(0, _WHOLE, _OWN_CONTROL),),
        "prlimit64": (  # read its own limits only
            *(Condition(0, _WHOLE, (0, own_pid)), Condition(4, _WHOLE, (0,)), Condition(5, _WHOLE, (0,))),
        ),
        "tgkill": (Condition(0, _WHOLE, (own_pid,)),),
        "kill": (Condition(0, _WHOLE, (own_pid,)),),
    }


# Seccomp can't inspect arguments passed in memory; the C library falls back to the older calls.
ABSENT: Final = frozenset({"clone3", "openat2"})


class CallRules(NamedTuple):
    """Rules for `install_filter`, by call name. Names that the processor doesn't have are skipped."""

    allowed: frozenset[str]
    absent: frozenset[str]  # reported as missing (ENOSYS)
    conditional: Mapping[str, tuple[Condition, ...]]  # allowed if all conditions hold
    unfit: int  # verdict if they don't
    others: int  # verdict on unlisted calls
    # Return success without effect if the condition holds; checked before the other rules.
    pretended: Mapping[str, Condition | None] = {}


def copy_rules(own_pid: int) -> CallRules:
    """Return the rules of a read-only copy of the kernel."""
    unfit, others = _FAIL | errno.EACCES, _FAIL | errno.EPERM
    return CallRules(HARMLESS, ABSENT, conditional_calls(own_pid), unfit, others, _LOCKING)


def writing_copy_rules(own_pid: int) -> CallRules:
    """Return the rules of a copy with an overlay."""
    plain = copy_rules(own_pid)
    conditional = {name: held for name, held in plain.conditional.items() if name not in WRITING}
    conditional |= {
        "renameat2": (Condition(8, _WHOLE, (0, 1, 2)),),  # no whiteouts (RENAME_WHITEOUT)
        "linkat": (Condition(8, _WHOLE, (0, 0x400)),),  # named files only (no AT_EMPTY_PATH)
    }
    return plain._replace(allowed=plain.allowed | WRITING, conditional=conditional)


def install_filter(rules: CallRules, *, listen: bool = False) -> int:
    """Apply the rules to this thread and those it starts.

    Args:
        rules: The allowed calls.
        listen: Whether a listener decides on calls whose verdict is `ASK`.

    Returns:
        The notification descriptor, or 0 without a listener.

    Raises:
        OSError: The kernel rejected the filter.
    """
    rows = b"".join(struct.pack("HBBI", *row) for row in filter_rows(rules, this_processor()))
    held = ctypes.create_string_buffer(rows)
    program = struct.pack("HxxxxxxP", len(rows) // 8, ctypes.addressof(held))
    flags = _NEW_LISTENER if listen else 0
    return system_call("seccomp", _SET_MODE_FILTER, flags, ctypes.create_string_buffer(program))


def filter_rows(rules: CallRules, processor: Processor) -> list[_Row]:
    """Compile the rules to BPF."""
    rows = [
        *((_LOAD, 0, 0, _MACHINE_AT), (_EQUAL, 1, 0, processor.audit_number), (_RETURN, 0, 0, _KILL)),
        *((_LOAD, 0, 0, _NUMBER_AT), (_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)),
    ]
    for name, number in processor.numbers.items():
        if name in rules.pretended:
            rows += _pretended_answer(number, rules.pretended[name])
        if name in rules.allowed:
            rows += _answer(number, _ALLOW)
        elif name in rules.absent:
            rows += _answer(number, _FAIL | errno.ENOSYS)
        elif name in rules.conditional:
            rows += _conditional_answer(number, rules.conditional[name], rules.unfit)
    return [*rows, (_RETURN, 0, 0, rules.others)]


def _answer(number: int, verdict: int) -> Iterator[_Row]:
    yield _EQUAL, 0, 1, number
    yield _RETURN, 0, 0, verdict


def _pretended_answer(number: int, condition: Condition | None) -> Iterator[_Row]:
    """Fail with errno 0, which the caller sees as success. If the condition doesn't hold, the rows below decide."""
    body: list[_Row] = []
    if condition is not None:
        word, mask, values = condition
        body += [(_LOAD, 0, 0, _ARGUMENTS_AT + 4 * word), (_AND, 0, 0, mask & _WHOLE)]
        body += [(_EQUAL, len(values) - place - 1, 0, value) for place, value in enumerate(values[:-1])]
        body.append((_EQUAL, 0, 1, values[-1]))
    body.append((_RETURN, 0, 0, _FAIL))
    if condition is not None:
        body.append((_LOAD, 0, 0, _NUMBER_AT))
    yield _EQUAL, 0, len(body), number
    yield from body


def _conditional_answer(number: int, conditions: tuple[Condition, ...], unfit: int) -> Iterator[_Row]:
    body: list[_Row] = []
    for word, mask, values in conditions:
        body += [(_LOAD, 0, 0, _ARGUMENTS_AT + 4 * word), (_AND, 0, 0, mask & _WHOLE)]
        body += [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
        body.append((_RETURN, 0, 0, unfit))
    yield _EQUAL, 0, len(body) + 1, number
    yield from body
    yield _RETURN, 0, 0, _ALLOW
