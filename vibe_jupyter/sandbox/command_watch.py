"""Seccomp listener that decides on system calls of a confined command and records the refused ones.

A call continues only if Landlock or seccomp checks it again, or if the decision depends only on register values, which
other threads can't change in the meantime. Changes of mode and times, which Landlock doesn't check, are made here, by
descriptor and only inside the command's own folder.
"""

import errno
import fcntl
import os
import re
import select
import stat
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from vibe_jupyter.files.shown_names import shown_name
from vibe_jupyter.sandbox import command_calls as calls
from vibe_jupyter.sandbox.call_numbers import this_processor
from vibe_jupyter.sandbox.caller import link_of, memory_of, of_thread, program_of, signed
from vibe_jupyter.sandbox.command_room import CommandRoom
from vibe_jupyter.sandbox.landlock import lies_in
from vibe_jupyter.sandbox.seccomp import FILE_LOCKS
from vibe_jupyter.tools.supervisor import Supervisor

MOST_STARTED: Final = 1_000  # processes that one command may start
MOST_SAID: Final = 5  # refusals reported per command; the last one ends it
GOES_ON: Final = 1.0  # seconds that a command continues after its first refusal, to find out what else it needs
# Seconds that background processes may outlive the first process. Without a listener, their calls would fail.
LEFT: Final = 0.5
_NOTICE: Final = struct.Struct("QIIiIQ6Q")
_ANSWER: Final = struct.Struct("QqiI")
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE: Final = 1
_LONGEST_PATH: Final = 4_096
_HERE: Final = -100  # AT_FDCWD
_CHANGES: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_NAMESPACES: Final = 0x7E020000
_TIME_NOW, _TIME_KEPT = (1 << 30) - 1, (1 << 30) - 2
_INET6, _NETLINK, _STREAM = 10, 16, 1
# Cache folders, which programs do without if they can't write to them.
_CACHES: Final = re.compile(r"/(__pycache__|\.(pytest|mypy|ruff)_cache|\.hypothesis|pytest-cache-files-\w+)(/|\Z)")
# Files that programs read by habit and do without.
_LOOKED_AT: Final = re.compile(
    r"/etc/(passwd|group|nsswitch\.conf|ld\.so\.preload|hosts|host\.conf|resolv\.conf|gai\.conf)|/dev/tty|/sys/.*|/proc/sys/.*"
)
# Git settings, which programs other than git read for ignore patterns and do without.
_GIT_SETTINGS: Final = re.compile(r"/\.gitconfig\Z|/\.config/git(/|\Z)")
_PASSES_ON: Final = ("/dev/null", "/dev/zero", "/dev/full")


class CommandTerms(NamedTuple):
    """Command line and permissions of one command."""

    argv: list[str]
    environment: dict[str, str]
    project: str  # absolute, without symbolic links, like the other paths
    own: str  # the only writable folder
    readable: list[str]
    listable: list[str]
    runnable: list[str]
    memory: int  # bytes for all its processes together


class _Call(NamedTuple):
    id: int
    thread: int
    name: str  # its number if no rule mentions it
    arguments: tuple[int, ...]


class _Refused(NamedTuple):
    """Error to return to the caller, or 0 if the listener made the call on its behalf."""

    error: int


class CommandWatch:
    """Listener for one command, in the guard's process."""

    def __init__(self, terms: CommandTerms, listener: int, supervisor: Supervisor, *, is_scoped: bool) -> None:
        """Create a listener.

        Args:
            terms: What the command may use.
            listener: The seccomp notification descriptor.
            supervisor: Supervisor of this process, from which the command descends.
            is_scoped: Whether Landlock restricts signals to the command's own processes.
        """
        self._terms = terms
        self._listener = listener
        self._supervisor = supervisor
        self._is_scoped = is_scoped
        self._allowed = frozenset(map(os.path.realpath, (*terms.readable, *terms.runnable, terms.own)))
        self._listable = frozenset(map(os.path.realpath, terms.listable))
        self._names = {number: name for name, number in this_processor().numbers.items()}
        self._started = 0
        self._said: dict[str, None] = {}

    def until_end(self) -> tuple[str, ...]:
        """Answer calls until the command ends or its time after a refusal is up. Returns the refusals in words."""
        room = CommandRoom(self._terms.own, self._terms.memory)
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        self._supervisor.register(poll)
        last = None
        while len(self._said) < MOST_SAID and (last is None or time.monotonic() < last):
            wait = room.wait if last is None else min(room.wait, max(0.0, last - time.monotonic()) * 1_000)
            ready = dict(poll.poll(wait))
            if excess := room.wait == 0 and room.excess(self._supervisor.descendants()):
                self._said[excess] = None
                break
            if ready.pop(self._listener, 0) & select.POLLIN:
                self._answer_next()
            if ready and (not self._supervisor.reap() or self._supervisor.is_over()):
                break
            if not self._supervisor.leader_runs and last is None:
                last = time.monotonic() + LEFT
            if self._said and last is None:
                last = time.monotonic() + GOES_ON
        return tuple(self._said)

    def _answer_next(self) -> None:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, notice)
        except OSError:  # the caller is gone
            return
        number, thread, _, call, _, _, *arguments = _NOTICE.unpack(notice)
        refused = self._judge(_Call(number, thread, self._names.get(call, str(call)), tuple(arguments)))
        answer = (number, 0, 0, _CONTINUE) if refused is None else (number, 0, -refused.error, 0)
        with suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(*answer))

    def _judge(self, call: _Call) -> _Refused | None:
        """Return None if the call may continue to the system's own checks."""
        match call.name:
            case "open" | "openat":
                return self._judge_open(call)
            case "execve" | "execveat":
                return self._judge_program(call)
            case name if name in calls.FORKS:
                return self._judge_fork(call)
            case "kill" | "tkill" | "tgkill":
                return self._judge_signal(signed(call.arguments[0]))
            case "flock" | "fcntl" if call.name == "flock" or call.arguments[1] in FILE_LOCKS:
                return self._judge_lock(call)
            case "socket" | "connect":
                return self._judge_socket(call) if call.name == "socket" else self._judge_connection(call)
            case "chmod" | "fchmod" | "fchmodat" | "utimensat":
                return self._change_own(call)
            case name if name in calls.PATH_CALLS:
                return self._judge_path_call(call)
            case name if name in calls.HABITS:
                return _Refused(calls.HABITS[name])
            case name:
                return self._refuse(calls.CALL_WORDS.get(name, f"make the system call {name}"))

    def _judge_open(self, call: _Call) -> _Refused | None:
        at = call.name == "openat"
        flags = call.arguments[2 if at else 1]
        path = self._path(call, 0 if at else None, 1 if at else 0)
        if flags & os.O_TRUNC and flags & os.O_ACCMODE == os.O_RDONLY:
            return self._refuse("cut", path)  # Landlock before version 3 doesn't check truncation
        if flags & os.O_TMPFILE == os.O_TMPFILE and path == self._terms.own:
            return None
        if flags & _CHANGES:
            return self._judge_change("write", path)
        if path is None or flags & os.O_PATH or self._may_read(path) or not os.access(path, os.R_OK):
            return None
        if _GIT_SETTINGS.search(path) and program_of(call.thread) != "git":
            return _Refused(errno.EACCES)
        return self._refuse("read", path)

    def _judge_program(self, call: _Call) -> _Refused | None:
        at = call.name == "execveat"
        path = self._path(call, 0 if at else None, 1 if at else 0)
        if path is None or not os.access(path, os.X_OK):
            return None
        if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
            return self._refuse("have the rights of another user, by", path)
        return None if self._is_allowed(path) else self._refuse("start", path)

    def _judge_fork(self, call: _Call) -> _Refused | None:
        if call.name == "clone" and call.arguments[0] & _NAMESPACES:
            return self._refuse("make namespaces of its own")
        self._started += 1
        return None if self._started <= MOST_STARTED else self._refuse(f"start more than {MOST_STARTED:,} programs")

    def _judge_signal(self, process: int) -> _Refused | None:
        if process == 0 and self._is_scoped:
            return None
        try:
            os.getsid(abs(process))
        except ProcessLookupError:
            return _Refused(errno.ESRCH)
        except OSError:
            pass
        is_own = process not in (0, -1) and self._is_of_command(abs(process))
        return None if is_own else self._refuse("send signals to other processes")

    def _judge_lock(self, call: _Call) -> _Refused | None:
        """Pretend success for locks on the user's files, since a lock would block other programs that write to them."""
        path = link_of(call.thread, f"fd/{signed(call.arguments[0])}")
        return None if path is not None and self._is_own(path) else _Refused(0)

    def _judge_socket(self, call: _Call) -> _Refused | None:
        family, kind = call.arguments[0], call.arguments[1] & 0xF
        # Programs use these to find out about interfaces and IPv6 support.
        if family == _NETLINK or (family == _INET6 and kind == _STREAM):
            return _Refused(errno.EAFNOSUPPORT)
        return self._refuse("use the network")

    def _judge_connection(self, call: _Call) -> _Refused | None:
        name = memory_of(call.thread, call.arguments[1], min(call.arguments[2], 110))[2:].partition(b"\0")[0]
        if name and not os.path.lexists(name):
            return _Refused(errno.ENOENT)
        return self._refuse("talk to another program, by", os.fsdecode(name) or None)

    def _judge_path_call(self, call: _Call) -> _Refused | None:
        does = calls.PATH_CALLS[call.name]
        refused = None
        for folder, place in does.places:
            path = self._path(call, folder, place, follow=False)
            if path is not None and call.name in calls.MAKES_FOLDER and os.path.lexists(path):
                return _Refused(errno.EEXIST)
            refused = refused or self._judge_change(does.words, path)
        return refused

    def _judge_change(self, words: str, path: str | None) -> _Refused | None:
        if path is not None:
            folder = os.path.dirname(path)
            if self._is_own(path) or path in _PASSES_ON or path.startswith("/proc/") or not os.path.isdir(folder):
                return None
            if words in ("delete", "rename") and not os.path.lexists(path):
                return None
            if _CACHES.search(path) or path == "/dev/tty":
                return _Refused(errno.EACCES)
        return self._refuse(words, path)

    def _change_own(self, call: _Call) -> _Refused | None:
        """Change mode or times on the command's behalf, only of its own files, since Landlock doesn't check this."""
        by_descriptor = call.name == "fchmod" or (call.name == "utimensat" and not call.arguments[1])
        at = call.name in ("fchmodat", "utimensat")
        if by_descriptor:
            path = link_of(call.thread, f"fd/{signed(call.arguments[0])}")
        else:
            path = self._path(call, 0 if at else None, 1 if at else 0)
        words = "change the times of" if call.name == "utimensat" else "change the rights of"
        if path is None or not self._is_own(path):
            exists = path is None or os.path.lexists(path)
            return self._refuse(words, path) if exists else _Refused(errno.ENOENT)
        times = memory_of(call.thread, call.arguments[2], 32) if call.arguments[2] else None
        mode = call.arguments[2 if at else 1] & 0o777
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            return _Refused(error.errno or errno.EACCES)
        try:
            link = f"/proc/self/fd/{descriptor}"
            found = os.fstat(descriptor)
            if not self._is_own(os.readlink(link)) or (found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)):
                return self._refuse(words, path)
            if call.name == "utimensat":
                os.utime(link, ns=_new_times(times, found))
            else:
                os.chmod(link, mode)
        except OSError as error:
            return _Refused(error.errno or errno.EACCES)
        finally:
            os.close(descriptor)
        return _Refused(0)

    def _may_read(self, path: str) -> bool:
        if not os.path.lexists(path) or self._is_allowed(path) or _LOOKED_AT.fullmatch(path):
            return True
        if path.startswith("/proc/"):
            process = path.split("/")[2]
            return path.count("/") > 2 and process.isdigit() and self._is_of_command(int(process))
        return os.path.isdir(path) and any(lies_in(path, folder) for folder in self._listable)

    def _is_of_command(self, process: int) -> bool:
        return process != os.getpid() and process in self._supervisor.descendants()

    def _is_allowed(self, path: str) -> bool:
        return path in self._allowed or any(str(above) in self._allowed for above in PurePosixPath(path).parents)

    def _is_own(self, path: str) -> bool:
        """Return whether the path is inside the writable folder. The folder itself must not be changed."""
        return path != self._terms.own and lies_in(path, self._terms.own)

    def _path(self, call: _Call, folder: int | None, place: int, *, follow: bool = True) -> str | None:
        """Return the absolute path of an argument without symbolic links, or None if it can't be determined."""
        given = memory_of(call.thread, call.arguments[place], _LONGEST_PATH).partition(b"\0")[0]
        path = os.fsdecode(given)
        at = _HERE if folder is None else signed(call.arguments[folder])
        if not path.startswith("/"):
            start = link_of(call.thread, "cwd" if at == _HERE else f"fd/{at}")
            if start is None:
                return None
            path = os.path.join(start, path) if path else start
        path = of_thread(path, call.thread)
        if follow:
            return os.path.realpath(path)
        above, name = os.path.split(path.rstrip("/") or "/")
        return os.path.join(os.path.realpath(above), name)

    def _refuse(self, words: str, path: str | None = None) -> _Refused:
        self._said[words if path is None else f"{words} {_shown(path, self._terms.project)}"] = None
        return _Refused(errno.EACCES)


def _shown(path: str, project: str) -> str:
    """Return the path for display, relative inside the project and escaped, since the command chose its name."""
    return shown_name(os.path.relpath(path, project) if lies_in(path, project) else path)


def _new_times(given: bytes | None, found: os.stat_result) -> tuple[int, int]:
    now = time.time_ns()
    if given is None:
        return now, now
    fields: Sequence[int] = struct.unpack("4q", given)
    kept = (found.st_atime_ns, found.st_mtime_ns)
    pairs = zip(fields[::2], fields[1::2], kept, strict=True)
    chosen = [
        now if part == _TIME_NOW else old if part == _TIME_KEPT else whole * 1_000_000_000 + part
        for whole, part, old in pairs
    ]
    return chosen[0], chosen[1]
