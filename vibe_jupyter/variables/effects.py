"""What code did to the variables, a line for each: compared bit for bit where the code can reach them."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from vibe_jupyter.variables.describe import value_line
from vibe_jupyter.variables.frame_changes import FrameShape, change_words, frame_shape
from vibe_jupyter.variables.kept import KeptVariables, VariableLooks

TIME_LIMIT: Final = 0.05
"""Seconds in which variables are described before the code runs; those that it names come first."""
_MODULE: Final = "module "
"""What the line of an imported module begins with: it changes nothing."""


class VariableEffects:
    """Of one piece of code. Main thread only, of a copy of the kernel, since all of it is kept until the copy ends."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace
        self._kept = KeptVariables(namespace, {}, compared=math.inf)
        self._looks = VariableLooks(namespace)
        self._before: dict[str, object] = {}
        self._lines: dict[str, str] = {}
        self._shapes: dict[str, FrameShape] = {}
        self._marks: Mapping[str, object] = {}

    def before_code(self, code: str) -> None:
        """Keep how they are."""
        self._kept.before_code(code)
        self._marks = self._looks.of_code(code)
        namespace = self._namespace()
        self._before = dict(namespace)
        until = time.monotonic() + TIME_LIMIT
        for name in dict.fromkeys((*(name for name in namespace if name in code), *namespace)):
            if time.monotonic() > until:
                break
            self._lines[name] = value_line(namespace[name])
            if (shape := frame_shape(namespace[name])) is not None:
                self._shapes[name] = shape

    def after_code(self, code: str) -> list[str]:
        """What is different now; last, of which of those that the code may have changed that cannot be told."""
        now = self._namespace()
        marks = self._looks.of_code(code)
        looks_different = [name for name in self._marks if name in marks and self._marks[name] != marks[name]]
        changed = list(dict.fromkeys((*self._kept.end_run(), *looks_different)))
        in_place = [now[name] for name in changed if name in self._before and self._before[name] is now.get(name)]
        aliases = [
            name for name, value in now.items() if name in self._before and any(value is one for one in in_place)
        ]
        lines = [self._line(name, now) for name in dict.fromkeys((*changed, *aliases))]
        told = list(filter(None, lines))
        unknown = [name for name in self._kept.lost if name in now]
        return [*told, f"{', '.join(unknown)}: not compared"] if told and unknown else told

    def _line(self, name: str, now: Mapping[str, object]) -> str:
        if name not in now:
            return f"{name}: removed"
        is_new, shape = name not in self._before, frame_shape(now[name])
        if shape is not None and (is_new or name in self._shapes):
            return f"{name}: {_frame_words(None if is_new else self._shapes[name], shape)}"
        before, line = self._lines.get(name), value_line(now[name])
        if is_new:
            return "" if line.startswith(_MODULE) else f"{name}: new, {line}"
        return f"{name}: {before} → {line}" if before is not None and before != line else f"{name}: changed, {line}"


def _frame_words(before: FrameShape | None, after: FrameShape) -> str:
    if before is None:
        return f"new, {after.extent}"
    return change_words(before, after) or f"other values, {after.extent}"
