"""Keeps the exit codes of our programs where SIGCHLD is ignored.

The system forgets at once how such a process's children exited, and asyncio takes 255 for the code of each. While a
program of ours runs, the signal therefore has its default action, which ignores it too but for that.
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
    """Counts the programs whose exit codes are waited for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def keep_for(self, protocol: Protocol) -> tuple[Protocol, Callable[[], None]]:
        """Keep the exit code of the program that is about to start.

        Args:
            protocol: makes the protocol of the program.

        Returns:
            The same, which gives up the exit code once it is known; and what gives it up where no program started.
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
        """Count one program less; after the last one SIGCHLD is ignored again."""
        with self._lock:
            self._count -= 1
            # The user's code may have set another action meanwhile.
            if not self._count and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                _set_action(_IGNORE)
                _forget_children()


CHILD_EXITS: Final = ChildExits()
"""Those of this process, which has one action for the signal."""


class _Kept:
    """The exit code of one program, which may be given up more than once."""

    def __init__(self, exits: ChildExits) -> None:
        self._exits: ChildExits | None = exits

    def give_up(self) -> None:
        exits, self._exits = self._exits, None
        if exits is not None:
            exits.take_back()


def _set_action(action: int) -> None:
    """Set the action of SIGCHLD, which Python allows on the main thread alone."""
    libc = ctypes.CDLL(None)
    libc.signal.restype, libc.signal.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
    libc.signal(signal.SIGCHLD, action)


def _forget_children() -> None:
    """Take the user's children that exited meanwhile off the system's list, as the ignored signal would have."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _nothing_kept() -> None:
    """Give up nothing."""
