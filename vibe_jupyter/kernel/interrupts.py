"""Our own SIGINT handler around a stretch of the main thread."""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

Proceed = Callable[[], None]
"""Does what would have been done without our handler; most often it raises KeyboardInterrupt."""

AGAIN: Final = 1.0
"""Seconds after which code that swallowed an interrupt, or missed it, is interrupted again."""


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
        self._asks = False
        self._asked = 0.0
        """Seconds in which the code waited for the user."""
        self._thread = threading.Thread(target=self._watch_clock, name="vibe-deadline", daemon=True)

    def start(self) -> None:
        self._thread.start()

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

    def stop(self) -> None:
        """After this no more signal comes."""
        self._over = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()

    def sent(self) -> bool:
        """Whether the signal just received is this deadline's own; says so once for each."""
        sent, self._sent = self._sent, False
        return sent

    def _watch_clock(self) -> None:
        began, seconds = time.monotonic(), self._seconds
        while not self._over:
            if self._changed.wait(seconds):
                self._changed.clear()
            elif self._seconds is not None and (left := self._left(began)) > 0:
                seconds = left
                continue
            else:
                self._sent = True
                interrupt_main_thread()
            self._seconds, seconds = None, AGAIN

    def _left(self, began: float) -> float:
        """Seconds that the code may still run; some, as long as it waits for the user."""
        assert self._seconds is not None
        left = self._seconds + self._asked - (time.monotonic() - began)
        return max(left, AGAIN) if self._asks else left


def interrupt_main_thread() -> None:
    """Send the signal of an interrupt, from any thread."""
    main = threading.main_thread().ident
    if sys.platform == "win32" or main is None:
        _thread.interrupt_main()
    else:
        # A real signal also ends a blocking system call, such as a sleep.
        signal.pthread_kill(main, signal.SIGINT)
