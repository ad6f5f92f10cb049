"""Our own SIGINT handler around a stretch of the main thread."""

import _thread
import functools
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import ClassVar, Final

from vibe_jupyter.kernel.ipython_types import patched_attribute

Proceed = Callable[[], None]
"""Does what would have been done without our handler; most often it raises KeyboardInterrupt."""

AGAIN: Final = 1.0
"""Seconds after which code that swallowed an interrupt, or missed it, is interrupted again."""
_MOST_SIGNALS: Final = 65_536
"""Read at a time."""


@contextmanager
def sigint_goes_to(handler: Callable[[Proceed], None]) -> Generator[Proceed]:
    """Call `handler` on each SIGINT. Main thread only."""
    previous = signal.getsignal(signal.SIGINT)

    def proceed() -> None:
        if callable(previous):
            previous(signal.SIGINT, None)
        else:
            signal.default_int_handler(signal.SIGINT, None)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        handler(proceed)

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield proceed
    finally:
        signal.signal(signal.SIGINT, previous)


class Presses:
    """Owns SIGINT from the first line of a prompt to after its static output. Main thread, but where said.

    A press is counted, and raised only where something waits for it (`raising`): an exception anywhere else could leave
    a run that nobody ends, half an import, or an answer without its transcript.
    """

    def __init__(self) -> None:
        self.count = 0
        """Presses since the prompt began. Any thread may read it."""
        self.waits: Callable[[], bool] = _no
        """Whether code that may be interrupted runs, such as the handler of a click."""
        self._owned = False
        self._raises = False

    @contextmanager
    def owned(self) -> Generator[None]:
        """Count presses meanwhile; inside another such stretch, and on other threads, nothing is changed."""
        if self._owned or threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.getsignal(signal.SIGINT)
        self.count, self._raises = 0, False
        try:
            signal.signal(signal.SIGINT, self._on_signal)
            self._owned = True
            yield
        finally:
            self._owned = False
            signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)

    @contextmanager
    def raising(self, raises: bool = True) -> Generator[None]:
        """Let a press raise KeyboardInterrupt meanwhile, or only count it where `raises` is false."""
        before = self._raises
        try:
            self._raises = raises
            yield
        finally:
            self._raises = before

    def hold(self) -> None:
        """A press was raised and has reached whoever deals with it: from now on it is only counted."""
        self._raises = False

    def check(self) -> None:
        """Raise a press that was only counted.

        Raises:
            KeyboardInterrupt: somebody pressed.
        """
        if self.count:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self._raises or self.waits():
            signal.default_int_handler(number, frame)


def _no() -> bool:
    return False


class Deadline:
    """Interrupts the main thread when the time is over, or soon, and again while the code does not end."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._over = False
        self._changed = threading.Event()
        self._sent = False
        self._signals: socket.socket | None = None
        """A byte for each signal, while the code runs. Not waited for: a copy of the kernel in which all threads wait
        for locks is stalled, and the thread of this one must not hide it."""
        self._is_noticed = False
        """Whether there was an interrupt that Python's handler has not seen yet."""
        self._asks = False
        self._asked = 0.0
        """Seconds in which the code waited for the user."""
        self._thread = threading.Thread(target=self._watch_clock, name="vibe-deadline", daemon=True)

    @contextmanager
    def running(self) -> Generator[None]:
        """While the code does; afterwards no more signal comes. Main thread."""
        signals, written = socket.socketpair()
        with signals, written:
            signals.setblocking(False)
            written.setblocking(False)
            self._thread.start()
            self._signals = signals
            try:
                with _signals_written(written.fileno()):
                    yield
            finally:
                self._over = True
                self._changed.set()
                self._thread.join()
                self._signals = None

    @contextmanager
    def asking(self) -> Generator[None]:
        """The code waits for the user: that time is not the code's."""
        began = time.monotonic()
        try:
            self._asks = True
            yield
        finally:
            self._asked += time.monotonic() - began
            self._asks = False

    def soon(self) -> None:
        """The user wants the end; the first signal of it may be swallowed, by a `__del__` or by the code."""
        self._changed.set()

    def sent(self) -> bool:
        """Whether the signal just received is this deadline's own; says so once for each. In the handler."""
        self._read_signals()
        self._is_noticed = False
        sent, self._sent = self._sent, False
        return sent

    def _watch_clock(self) -> None:
        began = time.monotonic()
        due = math.inf if self._seconds is None else began + self._seconds
        while not self._over:
            if self._changed.wait(min(due - time.monotonic(), AGAIN)):
                self._changed.clear()
            elif time.monotonic() < due:
                self._send_missed()
                continue
            elif self._seconds is not None and (left := self._left(began)) > 0:
                due = time.monotonic() + left
                continue
            else:
                self._sent = True
                interrupt_main_thread()
            self._seconds, due = None, time.monotonic() + AGAIN

    def _send_missed(self) -> None:
        """A press that came between Python's last look for one and a call that blocks did not end that call."""
        was_noticed, self._is_noticed = self._is_noticed, True  # before they are read: the handler may come between
        if was_noticed:
            interrupt_main_thread()
        elif signal.SIGINT not in self._read_signals():
            self._is_noticed = False

    def _read_signals(self) -> bytes:
        with suppress(BlockingIOError):
            return b"" if self._signals is None else self._signals.recv(_MOST_SIGNALS)
        return b""

    def _left(self, began: float) -> float:
        """Seconds that the code may still run; some, as long as it waits for the user."""
        assert self._seconds is not None
        left = self._seconds + self._asked - (time.monotonic() - began)
        return max(left, AGAIN) if self._asks else left


_set_wakeup_fd: Final = signal.set_wakeup_fd
"""Python's own."""


class _Wakeup:
    """Where the process writes its signals."""

    fd: ClassVar[int] = -1
    """Ours; -1 while there is none."""


@contextmanager
def _signals_written(ours: int) -> Generator[None]:
    """Each signal is written there at once, also one that Python's handler is not called for: one that came between
    Python's last look and a call that blocks, or that another thread got. The code keeps a wakeup fd of its own."""
    _keep_from_children()

    def set_fd_of_code(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
        before = _set_wakeup_fd(fd if fd != -1 else ours, warn_on_full_buffer=warn_on_full_buffer and fd != -1)
        return -1 if before == ours else before

    before = _set_wakeup_fd(ours, warn_on_full_buffer=False)
    if before != -1:  # of a loop around us, which needs it
        _set_wakeup_fd(before)
        yield
        return
    _Wakeup.fd = ours
    try:
        with patched_attribute(signal, "set_wakeup_fd", set_fd_of_code):
            yield
    finally:
        _Wakeup.fd = -1
        left = _set_wakeup_fd(-1)
        if left != ours:
            _set_wakeup_fd(left)


@functools.cache
def _keep_from_children() -> None:
    """What a child of `os.fork` receives is no signal of ours."""
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=_forget_wakeup)


def _forget_wakeup() -> None:
    if _Wakeup.fd != -1 and (fd := _set_wakeup_fd(-1)) != _Wakeup.fd:
        _set_wakeup_fd(fd)


def interrupt_main_thread() -> None:
    """Send the signal of an interrupt, from any thread."""
    main = threading.main_thread().ident
    if sys.platform == "win32" or main is None:
        _thread.interrupt_main()
    else:
        # A real signal also ends a blocking system call, such as a sleep.
        signal.pthread_kill(main, signal.SIGINT)
