"""System calls that a sandboxed command may make, and those that are decided individually.

Calls that Landlock checks (paths) are inspected and then continue to it. Other calls are refused, or made on the
command's behalf.
"""

import errno
from typing import Final, NamedTuple

from vibe_jupyter.sandbox.seccomp import ABSENT, ASK, HARMLESS, CallRules, Condition, conditional_calls

# Allowed besides the harmless ones: they require a file open for writing, or affect only the caller.
_OWN_FILES: Final = (
    *("pwrite64", "msync", "sendfile", "ftruncate", "setpgid", "setsid", "setrlimit", "splice", "tee"),
    *("fallocate", "pwritev", "copy_file_range", "pwritev2"),
)
# Reported as missing (ENOSYS), so that programs fall back to older calls.
_ALSO_ABSENT: Final = (
    *("keyctl", "pkey_mprotect", "pkey_alloc", "pkey_free", "fchmodat2"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
)
# PR_SET_PDEATHSIG, GET_PDEATHSIG, GET_DUMPABLE, SET_NAME, GET_NAME, CAPBSET_READ, GET_SECUREBITS, SET_NO_NEW_PRIVS,
# SET_VMA.
_OWN_CONTROL: Final = (1, 2, 3, 15, 16, 23, 27, 38, 0x53564D41)
_WHOLE: Final = 0xFFFFFFFF
FORKS: Final = ("clone", "fork", "vfork")


class PathCall(NamedTuple):
    """A call that changes a path, which Landlock checks."""

    words: str  # the operation, worded to precede the path
    # Per path: index of the folder argument (None: working directory) and of the path argument.
    places: tuple[tuple[int | None, int], ...]


PATH_CALLS: Final = {
    "truncate": PathCall("cut", ((None, 0),)),
    "rename": PathCall("rename", ((None, 0), (None, 1))),
    "mkdir": PathCall("make the folder", ((None, 0),)),
    "rmdir": PathCall("delete", ((None, 0),)),
    "creat": PathCall("write", ((None, 0),)),
    "link": PathCall("link to", ((None, 0), (None, 1))),
    "unlink": PathCall("delete", ((None, 0),)),
    "symlink": PathCall("make the link", ((None, 1),)),
    "mknod": PathCall("make", ((None, 0),)),
    "mkdirat": PathCall("make the folder", ((0, 1),)),
    "mknodat": PathCall("make", ((0, 1),)),
    "unlinkat": PathCall("delete", ((0, 1),)),
    "renameat": PathCall("rename", ((0, 1), (2, 3))),
    "linkat": PathCall("link to", ((0, 1), (2, 3))),
    "symlinkat": PathCall("make the link", ((1, 2),)),
    "renameat2": PathCall("rename", ((0, 1), (2, 3))),
}
MAKES_FOLDER: Final = frozenset({"mkdir", "mkdirat"})

# Calls that programs try but can do without, with the error to return: priorities, pinned memory and processors, file
# attributes, and opening a file as the real user (setfsuid), as newer ncurses does for terminal descriptions.
HABITS: Final = {
    **dict.fromkeys(
        (
            *("personality", "setpriority", "sched_setscheduler", "mlock", "munlock", "mlockall", "munlockall"),
            *("prctl", "sched_setaffinity", "mbind", "set_mempolicy", "ioprio_set", "perf_event_open"),
            *("sched_setattr", "seccomp", "memfd_create", "bpf", "userfaultfd", "mlock2"),
            *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "map_shadow_stack"),
            *("mseal", "setfsuid", "setfsgid"),
        ),
        errno.EPERM,
    ),
    **dict.fromkeys(
        ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"), errno.EOPNOTSUPP
    ),
    "ioctl": errno.ENOTTY,
    "fcntl": errno.EINVAL,
}

# Wording of refused calls by purpose.
CALL_WORDS: Final = {
    **dict.fromkeys(("sendto", "bind", "listen", "socketpair", "accept4", "accept", "sendmmsg"), "use the network"),
    **dict.fromkeys(("chown", "fchown", "lchown", "fchownat"), "change the owner of files"),
    **dict.fromkeys(("utime", "utimes", "futimesat"), "change the times of files"),
    **dict.fromkeys(("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open"), "look into other processes"),
    **dict.fromkeys(
        ("setuid", "setgid", "setreuid", "setregid", "setgroups", "setresuid", "setresgid"), "become another user"
    ),
    **dict.fromkeys(("chroot", "mount", "umount2", "pivot_root", "unshare", "setns"), "change what is mounted"),
    **dict.fromkeys(("inotify_init", "inotify_add_watch", "inotify_init1"), "watch files"),
    **dict.fromkeys(
        (
            *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl"),
            *("mq_open", "mq_unlink", "mq_timedsend"),
        ),
        "share memory with other programs",
    ),
}

_DECIDED: Final = frozenset({"open", "openat", "kill", "tgkill"})


def command_rules() -> CallRules:
    """Return the rules of a command: the listener decides on every call that isn't harmless."""
    conditional = {
        **{name: held for name, held in conditional_calls(0).items() if name not in _DECIDED},
        "socket": (Condition(0, _WHOLE, (1,)), Condition(2, 0xF, (1,))),  # only local (AF_UNIX) stream sockets
        "prctl": (Condition(0, _WHOLE, _OWN_CONTROL),),
        "prlimit64": (Condition(0, _WHOLE, (0,)),),  # only its own limits
    }
    return CallRules(HARMLESS.union(_OWN_FILES), ABSENT.union(_ALSO_ABSENT), conditional, ASK, ASK)
