"""Which system calls a command may make in its sandbox, and which of them are decided on one by one.

What Landlock judges (paths) goes on to it after a look; what it does not judge is refused, or done for the command.
"""

import errno
from typing import Final, NamedTuple

from vibe_jupyter.sandbox.seccomp import ABSENT, ASK, HARMLESS, CallRules, Condition, conditional_calls

_OWN_FILES: Final = {
    "pwrite64": 18,
    "msync": 26,
    "sendfile": 40,
    "ftruncate": 77,
    "setpgid": 109,
    "setsid": 112,
    "setrlimit": 160,
    "splice": 275,
    "tee": 276,
    "fallocate": 285,
    "pwritev": 296,
    "copy_file_range": 326,
    "pwritev2": 328,
}
"""Beside the harmless ones: they need a file that is open for writing, or change the caller alone."""
_ALSO_ABSENT: Final = (250, 329, 330, 331, 425, 426, 427, 452)
"""keyctl, keys of memory, io_uring, fchmodat2: programs use what they used before these."""
_OWN_CONTROL: Final = (1, 2, 3, 15, 16, 23, 27, 38, 0x53564D41)
"""PR_SET_PDEATHSIG, GET_PDEATHSIG, GET_DUMPABLE, SET_NAME, GET_NAME, CAPBSET_READ, GET_SECUREBITS, SET_NO_NEW_PRIVS,
SET_VMA."""
_WHOLE: Final = 0xFFFFFFFF

OPEN, OPENAT, CREAT = 2, 257, 85
EXECVE, EXECVEAT = 59, 322
FORKS: Final = (56, 57, 58)
"""clone, fork, vfork."""
KILL, TKILL, TGKILL = 62, 200, 234
SOCKET, CONNECT = 41, 42
CHMOD, FCHMOD, FCHMODAT, UTIMENSAT = 90, 91, 268, 280


class PathCall(NamedTuple):
    """A call that changes a path, which Landlock judges."""

    words: str
    """What it does, before the path's name."""
    places: tuple[tuple[int | None, int], ...]
    """For each path which argument is the folder it begins at, None for the caller's, and which is the path."""


PATH_CALLS: Final = {
    76: PathCall("cut", ((None, 0),)),  # truncate
    82: PathCall("rename", ((None, 0), (None, 1))),
    83: PathCall("make the folder", ((None, 0),)),  # mkdir
    84: PathCall("delete", ((None, 0),)),  # rmdir
    85: PathCall("write", ((None, 0),)),  # creat
    86: PathCall("link to", ((None, 0), (None, 1))),
    87: PathCall("delete", ((None, 0),)),  # unlink
    88: PathCall("make the link", ((None, 1),)),  # symlink
    133: PathCall("make", ((None, 0),)),  # mknod
    258: PathCall("make the folder", ((0, 1),)),
    259: PathCall("make", ((0, 1),)),
    263: PathCall("delete", ((0, 1),)),
    264: PathCall("rename", ((0, 1), (2, 3))),
    265: PathCall("link to", ((0, 1), (2, 3))),
    266: PathCall("make the link", ((1, 2),)),
    316: PathCall("rename", ((0, 1), (2, 3))),
}
"""By their numbers."""
MAKES_FOLDER: Final = frozenset({83, 258})

HABITS: Final = {
    **dict.fromkeys((135, 141, 144, 149, 150, 151, 152, 157, 203, 237, 238, 251, 298, 314), errno.EPERM),
    **dict.fromkeys((317, 319, 321, 323, 325, 444, 445, 446, 453, 462), errno.EPERM),
    **dict.fromkeys((188, 189, 190, 197, 198, 199), errno.EOPNOTSUPP),  # setxattr and its kin
    16: errno.ENOTTY,  # ioctl
    72: errno.EINVAL,  # fcntl
}
"""What programs try, and do without where it fails: priorities, pinned memory and processors, marks on files."""

CALL_WORDS: Final = {
    **dict.fromkeys((44, 49, 50, 53, 288, 43, 307), "use the network"),
    **dict.fromkeys((92, 93, 94, 260), "change the owner of files"),
    **dict.fromkeys((132, 235, 261), "change the times of files"),
    **dict.fromkeys((101, 310, 311, 434), "look into other processes"),
    **dict.fromkeys((105, 106, 113, 114, 116, 117, 119), "become another user"),
    **dict.fromkeys((161, 165, 166, 155, 272, 308), "change what is mounted"),
    **dict.fromkeys((253, 254, 294), "watch files"),
    **dict.fromkeys((29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 240, 241, 242), "share memory with other programs"),
    73: "lock a file",
}
"""What a refused call was for, by its number."""

_DECIDED: Final = frozenset({OPEN, OPENAT, KILL, TGKILL})


def command_rules() -> CallRules:
    """Those of a command: whoever listens decides on all that is not harmless."""
    conditional = {
        **{number: held for number, held in conditional_calls(0).items() if number not in _DECIDED},
        41: (Condition(0, _WHOLE, (1,)), Condition(2, 0xF, (1,))),  # socket: of this computer, of streams
        157: (Condition(0, _WHOLE, _OWN_CONTROL),),  # prctl
        302: (Condition(0, _WHOLE, (0,)),),  # prlimit64: its own
    }
    return CallRules((*HARMLESS.values(), *_OWN_FILES.values()), (*ABSENT, *_ALSO_ABSENT), conditional, ASK, ASK)
