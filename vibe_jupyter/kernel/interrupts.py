"""SIGINT handling on the main thread: handlers for a block, interrupts of a prompt, deadlines of code."""

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
from traceback import walk_tb
from types import FrameType
from typing import ClassVar, Final

from vibe_jupyter.kernel.ipython_types import patched_attribute

Proceed = Callable[[], None]  # runs the previous handler, which usually raises KeyboardInterrupt

AGAIN: Final = 1.0  # seconds until code that swallowed or missed an interrupt is interrupted again
_MOST_SIGNALS: Final = 65_536  # bytes per read


@contextmanager
def sigint_goes_to(handler: Callable[[Proceed], None]) -> Generator[Proceed]:
    """Route SIGINT to `handler` inside the block. Main thread only."""
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
    """Interrupt counter that owns SIGINT from the first line of a prompt until its static output is written.

    Interrupts are counted, and raised only inside `raising()`, where code is prepared for them. Raised anywhere
    else, a KeyboardInterrupt could leave an orphaned run, a half-finished import, or an answer without a transcript.

    Main thread only, except where noted.
    """

    def __init__(self) -> None:
        self.count = 0  # interrupts since the prompt began; safe to read from any thread
        self.waits: Callable[[], bool] = _no  # True while interruptible code runs, such as a click handler
        self._owned = False
        self._raises = False
        # For a signal sent by `end_code`: whether its code is still running.
        self._to_end: Callable[[], bool] | None = None

    @contextmanager
    def owned(self) -> Generator[None]:
        """Count interrupts inside the block. Does nothing in a nested block or on another thread."""
        if self._owned or threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.getsignal(signal.SIGINT)
        self.count, self._raises, self._to_end = 0, False, None
        try:
            signal.signal(signal.SIGINT, self._on_signal)
            self._owned = True
            yield
        finally:
            self._owned = False
            signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)

    @contextmanager
    def raising(self, raises: bool = True) -> Generator[None]:
        """Let an interrupt raise KeyboardInterrupt inside the block, or only be counted if `raises` is False."""
        before = self._raises
        try:
            self._raises = raises
            yield
        finally:
            self._raises = before

    def hold(self) -> None:
        """Stop raising: an interrupt has reached its handler."""
        self._raises = False

    def end_code(self, still_runs: Callable[[], bool]) -> None:
        """Interrupt code without counting it, unless it has ended by then. Thread-safe."""
        self._to_end = still_runs
        interrupt_main_thread()

    def check(self) -> None:
        """Raise the interrupt if one was only counted.

        Raises:
            KeyboardInterrupt: The user interrupted.
        """
        if self.count:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        still_runs, self._to_end = self._to_end, None
        if still_runs is None:
            self.count += 1
        elif not still_runs():
            return
        if self._raises or self.waits():
            signal.default_int_handler(number, frame)


def _no() -> bool:
    return False


class Deadline:
    """Timer that interrupts the main thread once time is up, and again until the code ends."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._over = False
        self._changed = threading.Event()
        self._sent = False
        # Receives a byte for each signal while the code runs. Polled rather than waited on: a forked copy counts as
        # deadlocked if all its threads wait for locks, and this thread must not hide that.
        self._signals: socket.socket | None = None
        self._is_noticed = False  # True after an interrupt that Python's handler hasn't processed yet
        self._asks = False
        self._asked = 0.0  # seconds the code spent waiting for user input
        self._thread = threading.Thread(target=self._watch_clock, name="vibe-deadline", daemon=True)

    @contextmanager
    def running(self) -> Generator[None]:
        """Run the timer inside the block; no signal is sent after it. Main thread only."""
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
        """Exclude the time inside the block, in which the code waits for the user."""
        began = time.monotonic()
        try:
            self._asks = True
            yield
        finally:
            self._asked += time.monotonic() - began
            self._asks = False

    def soon(self) -> None:
        """Repeat the user's interrupt shortly: the first one may be swallowed by a `__del__` or by the code."""
        self._changed.set()

    def sent(self) -> bool:
        """Return whether this deadline sent the signal being handled, and reset. Call from the signal handler."""
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
        """Resend a missed interrupt: one that arrived after Python's last signal check but before a blocking call."""
        was_noticed, self._is_noticed = self._is_noticed, True  # set before reading: the handler may run in between
        if was_noticed:
            interrupt_main_thread()
        elif signal.SIGINT not in self._read_signals():
            self._is_noticed = False

    def _read_signals(self) -> bytes:
        with suppress(BlockingIOError):
            return b"" if self._signals is None else self._signals.recv(_MOST_SIGNALS)
        return b""

    def _left(self, began: float) -> float:
        """Return the seconds left. While the code waits for input, at least `AGAIN`."""
        assert self._seconds is not None
        left = self._seconds + self._asked - (time.monotonic() - began)
        return max(left, AGAIN) if self._asks else left


_set_wakeup_fd: Final = signal.set_wakeup_fd  # the original; the code sees a patched one


class _Wakeup:
    fd: ClassVar[int] = -1  # our wakeup fd, or -1 while there is none


@contextmanager
def _signals_written(ours: int) -> Generator[None]:
    """Write each signal to `ours` immediately, without waiting for Python's handler.

    Python runs its handler only between bytecodes, so a signal that arrives just before a blocking call, or on
    another thread, is otherwise noticed late. Wakeup fds that the code sets for itself keep working.
    """
    _keep_from_children()

    def set_fd_of_code(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
        before = _set_wakeup_fd(fd if fd != -1 else ours, warn_on_full_buffer=warn_on_full_buffer and fd != -1)
        return -1 if before == ours else before

    before = _set_wakeup_fd(ours, warn_on_full_buffer=False)
    if before != -1:  # an enclosing event loop depends on it
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
    # A forked child inherits the wakeup fd; its signals must not be reported as the kernel's.
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=_forget_wakeup)


def _forget_wakeup() -> None:
    if _Wakeup.fd != -1 and (fd := _set_wakeup_fd(-1)) != _Wakeup.fd:
        _set_wakeup_fd(fd)


def interrupt_main_thread() -> None:
    """Send SIGINT to the main thread. Thread-safe."""
    main = threading.main_thread().ident
    if sys.platform == "win32" or main is None:
        _thread.interrupt_main()
    else:
        # A real signal also ends a blocking system call, such as a sleep.
        signal.pthread_kill(main, signal.SIGINT)


def raised_by_handler(error: BaseException) -> bool:
    """Return whether a currently installed signal handler raised this error."""
    codes = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))
