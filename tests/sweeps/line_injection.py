"""Lives in a kernel: presses ■ at one chosen line of a prompt, as a real signal that its handlers get."""

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import vibe_jupyter
from vibe_jupyter.magics import VibeMagics

PACKAGE = str(Path(vibe_jupyter.__file__).parent)
ENTRY = VibeMagics.vibe.__code__
Line = tuple[str, int, int]
"""File, line, and which time it is executed, from 1."""


class Injection:
    """Traces the lines of ours between the first of `%vibe` and its return."""

    def __init__(self, target: Line | None) -> None:
        self.target = target
        """None only records."""
        self.seen: Counter[tuple[str, int]] = Counter()
        self.lines: list[Line] = []
        self.pressed = False
        self._inside = False
        self._traced = PACKAGE if target is None else str(Path(PACKAGE, target[0]))

    def start(self) -> None:
        sys.settrace(self._on_call)

    def _on_call(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        if frame.f_code is ENTRY:
            self._inside = True
        if self._inside and (frame.f_code is ENTRY or frame.f_code.co_filename.startswith(self._traced)):
            return self._on_event
        return None

    def _on_event(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        if event == "return" and frame.f_code is ENTRY:
            self._inside = False
            sys.settrace(None)
        if event != "line" or not self._inside:
            return self._on_event
        place = (frame.f_code.co_filename[len(PACKAGE) + 1 :], frame.f_lineno)
        self.seen[place] += 1
        line = (*place, self.seen[place])
        if self.target is None:
            self.lines.append(line)
        elif line == self.target:
            self.pressed = True
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return self._on_event


current = Injection(None)
"""The one in use. In a variable of the kernel, each line that it saw would be one of the values kept for undo."""
