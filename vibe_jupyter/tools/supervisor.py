"""Supervisor process between the kernel and a command. Ends all descendants of the command, even if the kernel dies.

It is a child subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)), so orphaned descendants become its children. Neither
`setsid` nor a double fork nor an empty environment escapes that. It signals only its own children and their process
groups: until it reaps a child, the system doesn't reuse the child's id. On systems without subreapers (macOS) it ends
the command's process group, and the kernel searches for the rest (`process_marks.py`).

A supervisor starts with each command, so imports are minimal: `typing`, `contextlib` and the enums of `signal` would
double its start-up time.
"""

import ctypes
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from typing import NoReturn
else:
    import _signal as signal

TERM_GRACE = 0.4  # seconds between SIGTERM and SIGKILL
FORCE_SECONDS = 5.0  # seconds for killed processes to exit; the rest can't be killed by this user
LENGTH = 8  # bytes of the length prefix of the request
MARKED_LIMIT = 10  # RLIMIT_LOCKS, without effect since Linux 2.4.25; see `process_marks.py`

# First bytes of lines sent to the kernel.
BEGAN = b"b"  # the command was started
FAILED = b"f"  # the command could not be started; errno
EXITED = b"x"  # its first process exited; the exit code, negative for a signal
ENDED = b"e"  # names of processes that were ended
STAYED = b"s"  # names of processes that could not be ended
DONE = b"d"  # no process is left but those that stayed

_SET_CHILD_SUBREAPER = 36
_GAP = 0.02  # seconds between checks of processes that are ending
_PARENT_GAP = 1_000  # milliseconds between checks of the parent if no descriptor reports its exit


class Supervisor:
    """The descendants of this process, and the connection to the kernel."""

    def __init__(self, control: int, parent: int, mark: int) -> None:
        """Become the subreaper of all descendants. Once per process.

        Args:
            control: a socket connected to the kernel. After the request, any input or end of file is a request to end
                the command.
            parent: process id of the kernel.
            mark: mark of this process and its descendants; 0 for none.

        Raises:
            OSError: the system rejected it.
        """
        self.control = control
        self._parent = parent
        self._leader = self._group = 0
        self._status = ""  # exit code of the first process, until it is sent
        self._exits = _hear_exits()
        self._parent_exit = _exit_descriptor(parent)
        self._is_reaper = sys.platform == "linux"
        os.set_inheritable(control, False)
        if self._is_reaper:
            if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
                raise OSError(ctypes.get_errno(), "prctl")
            mark_process(mark)

    def request(self) -> tuple[list[bytes], dict[bytes, bytes]]:
        """Read the command and its environment, which the kernel sends first.

        Raises:
            EOFError: the kernel exited or cancelled the command.
        """
        length = int.from_bytes(self._read(LENGTH), "little")
        return marshal.loads(self._read(length))

    def start(self, argv: list[bytes], environment: "Mapping[bytes, bytes]") -> None:
        """Start the command in a new session, with the standard streams of this process.

        Raises:
            OSError: the command could not be started.
        """
        # Python ignores the first two, and the kernel's process may ignore the third.
        signals = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
        program = _find_program(argv[0], environment)
        self.began(os.posix_spawn(program, argv, environment, setsid=True, setsigmask=(), setsigdef=signals))

    def began(self, leader: int) -> None:
        """Record the command's first process, and close the standard streams, which belong to it."""
        self._leader = self._group = leader
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        self.say(BEGAN)

    def say(self, kind: bytes, text: str = "") -> None:
        """Send a line to the kernel. Ignores a closed connection."""
        line = kind + text.encode("utf-8", "replace") + b"\n"
        try:
            while line:
                line = line[os.write(self.control, line) :]
        except OSError:
            pass

    def say_exit(self) -> None:
        """Send the exit code of the command's first process, once it has exited."""
        if self._status:
            self.say(EXITED, self._status)
            self._status = ""

    def register(self, poll: "select.poll") -> None:
        """Register descriptors with a poll that report a child's exit or a request to end."""
        for descriptor in (self.control, self._exits, self._parent_exit):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)

    def is_over(self) -> bool:
        """Return whether to end everything: the kernel requests it, or has exited."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        return bool(poll.poll(0)) or os.getppid() != self._parent

    def reap(self) -> bool:
        """Reap children that exited, and return whether others are left."""
        try:
            while os.read(self._exits, 4_096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if child == 0:
                return True
            if child == self._leader:
                self._leader = 0
                self._status = str(os.waitstatus_to_exitcode(status))

    @property
    def leader_runs(self) -> bool:
        """True if the command's first process was running at the last `reap`."""
        return self._leader > 0

    def wait(self) -> None:
        """Wait for a child's exit or a request to end."""
        poll = select.poll()
        self.register(poll)
        poll.poll(_PARENT_GAP if self._parent_exit < 0 else None)

    def end(self, grace: float = TERM_GRACE) -> None:
        """End all descendants, by SIGKILL after the grace period, and report the remaining ones. Takes bounded time."""
        left = self._names() if self.reap() else []
        asked: set[int] = set()
        until = time.monotonic() + grace
        while self.reap() and time.monotonic() < until:
            self._signal_children(signal.SIGTERM, asked)
            self._wait_exit()
        until = time.monotonic() + FORCE_SECONDS
        while self.reap() and time.monotonic() < until:
            self._signal_children(signal.SIGKILL, set())
            self._wait_exit()
        if not self._is_reaper:
            self._end_group()
        stays = self._names() if self.reap() else []
        self.say_exit()
        self.say(ENDED, ", ".join(one for one in left if one not in stays))
        self.say(STAYED, ", ".join(stays))
        self.say(DONE)

    def descendants(self) -> dict[int, tuple[int, str, bool]]:
        """Return all descendants with parent, name, and whether they are zombies."""
        below: dict[int, list[int]] = {}
        table = _process_table()
        for process, (parent, _, _) in table.items():
            below.setdefault(parent, []).append(process)
        order = list(below.get(os.getpid(), ()))
        for process in order:
            order += below.get(process, ())
        return {process: table[process] for process in order}

    def _names(self) -> list[str]:
        found = self.descendants().items()
        return [f"{name} ({process})" for process, (_, name, is_zombie) in found if not is_zombie]

    def _signal_children(self, number: int, done: set[int]) -> None:
        """Signal the process groups of all children. Only descendants can be members of these groups.

        Args:
            number: the signal.
            done: groups that have been signaled. Newly signaled groups are added.
        """
        own = os.getpgrp()
        for child in [one for one, (parent, _, _) in _process_table().items() if parent == os.getpid()]:
            try:
                group = os.getpgid(child)
                if group == own or number == signal.SIGKILL:
                    os.kill(child, number)
                if group != own and group not in done:
                    done.add(group)
                    os.killpg(group, number)
            except OSError:  # another user's process; `end` reports it
                continue

    def _end_group(self) -> None:
        try:
            os.killpg(self._group, signal.SIGTERM)
            time.sleep(_GAP)
            os.killpg(self._group, signal.SIGKILL)
        except OSError:
            pass

    def _wait_exit(self) -> None:
        select.select([self._exits], [], [], _GAP)

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            chunk = os.read(self.control, length - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data


def main() -> "NoReturn":
    """Supervise one command. The last arguments: descriptor of the control socket, id of the kernel, mark."""
    status = 1
    try:
        supervisor = Supervisor(*map(int, sys.argv[-3:]))
        argv, environment = supervisor.request()
        try:
            supervisor.start(argv, environment)
        except (OSError, ValueError) as error:
            supervisor.say(FAILED, str(getattr(error, "errno", None) or ""))
            supervisor.say(DONE)
        else:
            while supervisor.reap() and not supervisor.is_over():
                supervisor.say_exit()
                supervisor.wait()
            supervisor.end()
            status = 0
    except EOFError:  # the command was cancelled before anything started
        status = 0
    finally:
        os._exit(status)


def mark_process(mark: int) -> None:
    """Mark this process and its future descendants; 0 for no mark."""
    if mark:
        import resource  # noqa: PLC0415 - Windows does not have it

        try:
            resource.setrlimit(MARKED_LIMIT, (mark, mark))
        except (OSError, ValueError):  # a lower limit is set; descendants can still be found through their parents
            return


def _hear_exits() -> int:
    """Return a descriptor that becomes readable when a child exits."""
    readable, writable = os.pipe()
    for descriptor in (readable, writable):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def _exit_descriptor(process: int) -> int:
    """Return a descriptor that becomes readable when a process exits, or -1 if pidfds are not supported."""
    try:
        return os.pidfd_open(process)
    except (AttributeError, OSError):
        return -1


def _find_program(name: bytes, environment: "Mapping[bytes, bytes]") -> bytes:
    """Look up a program like execvpe."""
    if os.path.dirname(name):
        return name
    for folder in environment.get(b"PATH", os.fsencode(os.defpath)).split(os.fsencode(os.pathsep)):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return name


def _process_table() -> dict[int, tuple[int, str, bool]]:
    """Return parent, name and zombie state of all processes, newest first, so that a process that keeps forking is
    signaled before its children."""
    table: dict[int, tuple[int, str, bool]] = {}
    try:
        processes = sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)
    except OSError:  # macOS
        return table
    for process in processes:
        try:
            with open(f"/proc/{process}/stat", "rb", buffering=0) as status:
                head, _, tail = status.read(4_096).rpartition(b") ")
        except OSError:  # it has exited
            continue
        state, parent = tail.split(maxsplit=2)[:2]
        name = head.partition(b" (")[2].decode("utf-8", "replace")
        table[process] = int(parent), " ".join(name.split()), state in b"ZX"
    return table
