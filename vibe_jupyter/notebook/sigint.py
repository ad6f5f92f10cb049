"""Our own SIGINT handler around a stretch of the main thread."""

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

Proceed = Callable[[], None]
"""Does what would have been done without our handler; most often it raises KeyboardInterrupt."""

_AGAIN: Final = 1.0
"""Seconds after which code that swallowed an interrupt is interrupted again."""


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


class Deadline:
    """Interrupts the main thread when the time is over, or soon, and again while the code does not end."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._over = False
        self._changed = threading.Event()
        self._sent = False
        self._thread = threading.Thread(target=self._watch, name="vibe-deadline", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def soon(self) -> None:
        """The person wants the end; the first signal of it may be swallowed, by a `__del__` or by the code."""
        self._changed.set()

    def stop(self) -> None:
        """After this no more signal comes."""
        self._over = True
        self._changed.set()
        self._thread.join()

    def sent(self) -> bool:
        """Whether the signal just received is this deadline's own; says so once for each."""
        sent, self._sent = self._sent, False
        return sent

    def _watch(self) -> None:
        seconds = self._seconds
        while not self._over:
            if self._changed.wait(seconds):
                self._changed.clear()
            else:
                self._sent = True
                interrupt_main_thread()
            seconds = _AGAIN


def interrupt_main_thread() -> None:
    """Send the signal of an interrupt, from any thread."""
    main = threading.main_thread().ident
    if sys.platform == "win32" or main is None:
        _thread.interrupt_main()
    else:
        # A real signal also ends a blocking system call, such as a sleep.
        signal.pthread_kill(main, signal.SIGINT)
