"""What asks the program to end, and does so as Ctrl-C does: what ran is saved, and nothing that it started goes on."""

import signal
from types import FrameType
from typing import Final

_ASKS: Final = ("SIGTERM", "SIGHUP")
"""Of a scheduler, a time limit or a container, and of a terminal that closes. Not every system has both."""


def interrupt_when_asked_to_end() -> None:
    """From now on. One that is ignored, as below `nohup`, stays so. Main thread."""
    for name in _ASKS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """To whoever owns Ctrl-C now; in the background of a shell nobody does."""
    owner = signal.getsignal(signal.SIGINT)
    if callable(owner):
        owner(signal.SIGINT, frame)
    else:
        signal.default_int_handler(signal.SIGINT, frame)
