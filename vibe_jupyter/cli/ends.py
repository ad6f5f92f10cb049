"""Handling of SIGTERM and SIGHUP like Ctrl-C: save what ran, and stop child processes."""

import signal
from types import FrameType
from typing import Final

# Sent by schedulers, time limits and containers, and by a closing terminal; Windows has no SIGHUP.
_ASKS: Final = ("SIGTERM", "SIGHUP")


def interrupt_when_asked_to_end() -> None:
    """Handle SIGTERM and SIGHUP as interrupts from now on.

    Ignored ones stay ignored, as under `nohup`. Main thread only.
    """
    for name in _ASKS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Call the current SIGINT handler, or Python's default: shells start background jobs with SIGINT ignored."""
    owner = signal.getsignal(signal.SIGINT)
    if callable(owner):
        owner(signal.SIGINT, frame)
    else:
        signal.default_int_handler(signal.SIGINT, frame)
