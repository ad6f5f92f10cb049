"""Preserve exit codes of child processes while SIGCHLD is ignored.

If a process ignores SIGCHLD, the operating system discards the exit status of its children at once (POSIX), and asyncio
reports 255 for each. While one of our child processes runs, the signal therefore has its default action, which also
ignores it but preserves the exit status.
"""

import asyncio
import ctypes
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

Protocol = Callable[[], asyncio.BaseProtocol]

_DEFAULT: Final = 0  # SIG_DFL of C
_IGNORE: Final = 1  # SIG_IGN of C


class ChildExits:
    """Reference count of the child processes whose exit codes are needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def keep_for(self, protocol: Protocol) -> tuple[Protocol, Callable[[], None]]:
        """Preserve the exit code of a child process that is about to start.

        Args:
            protocol: factory of the process's protocol.

        Returns:
            A factory whose protocol releases the exit code once it is known, and a function that releases it if no
                process was started.
        """
        if signal.getsignal(signal.SIGCHLD) is not signal.SIG_IGN:
            return protocol, _nothing_kept
        kept = _Kept(self)
        with self._lock:
            self._count += 1
            _set_action(_DEFAULT)

        def make() -> asyncio.BaseProtocol:
            made = protocol()
            assert isinstance(made, asyncio.SubprocessProtocol)
            exited = made.process_exited

            def process_exited() -> None:
                kept.give_up()
                exited()

            made.process_exited = process_exited
            return made

        return make, kept.give_up

    def take_back(self) -> None:
        """Decrement the count. When it reaches zero, SIGCHLD is ignored again."""
        with self._lock:
            self._count -= 1
            # The user's code may have set another action in the meantime.
            if not self._count and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                _set_action(_IGNORE)
                _forget_children()


CHILD_EXITS: Final = ChildExits()  # one per process, because a signal has one action per process


class _Kept:
    """Exit code of one child process. Releasing it again has no effect."""

    def __init__(self, exits: ChildExits) -> None:
        self._exits: ChildExits | None = exits

    def give_up(self) -> None:
        exits, self._exits = self._exits, None
        if exits is not None:
            exits.take_back()


def _set_action(action: int) -> None:
    """Set the action of SIGCHLD on any thread. Python's `signal.signal` only works on the main thread.

    Python doesn't notice the change: `signal.getsignal` still returns the action that the user's code set.
    """
    libc = ctypes.CDLL(None)
    libc.signal.restype, libc.signal.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
    libc.signal(signal.SIGCHLD, action)


def _forget_children() -> None:
    """Reap the user's children that exited in the meantime, as the operating system would have done."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _nothing_kept() -> None:
    """Do nothing, because no exit code was preserved."""
