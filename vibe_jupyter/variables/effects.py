"""Detect which variables code changed, comparing bit for bit those that the code can reach."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vibe_jupyter.protocol.variable_effects import (
    LONGEST_LOOK,
    LONGEST_NAME,
    MOST_COLUMNS,
    FrameShape,
    ValueLook,
    VariableEffect,
)
from vibe_jupyter.variables.content_hash import ContentHash, ContentHasher, same_content
from vibe_jupyter.variables.describe import value_kind, value_line
from vibe_jupyter.variables.frame_changes import frame_shape
from vibe_jupyter.variables.kept import KeptVariables, VariableLooks

# Seconds for describing variables before the code runs. Those that the code names come first.
TIME_LIMIT: Final = 0.05
# CPU seconds for hashing values before the code runs, and again afterwards for those it assigned.
HASH_LIMIT: Final = 0.2
_MODULE: Final = "module "  # prefix of a module's line; importing one isn't a change


class VariableEffects:
    """Effects of one piece of code. Main thread only, in a forked copy: snapshots are kept until the copy exits."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace
        self._kept = KeptVariables(namespace, {}, compared=math.inf)
        self._looks = VariableLooks(namespace)
        self._before: dict[str, object] = {}
        self._lines: dict[str, ValueLook] = {}
        self._shapes: dict[str, FrameShape] = {}
        self._marks: Mapping[str, object] = {}
        self._hashers: list[ContentHasher] = []
        self._hashes: dict[str, ContentHash | None] = {}

    def before_code(self, code: str) -> None:
        """Take a snapshot of the variables."""
        self._kept.before_code(code)
        self._marks = self._looks.of_code(code)
        namespace = self._namespace()
        self._before = dict(namespace)
        names = tuple(dict.fromkeys((*(name for name in namespace if name in code), *namespace)))
        self._hashes = self._hashes_of(names, namespace)
        until = time.monotonic() + TIME_LIMIT
        for name in names:
            if time.monotonic() > until:
                break
            self._lines[name] = _look(namespace[name])
            if (shape := _shape(namespace[name])) is not None:
                self._shapes[name] = shape

    def after_code(self, code: str) -> list[VariableEffect]:
        """Return the changed variables, followed by reachable ones that can't be compared."""
        now = self._namespace()
        marks = self._looks.of_code(code)
        looks_different = [name for name in self._marks if name in marks and self._marks[name] != marks[name]]
        changed = list(dict.fromkeys((*self._kept.end_run(), *looks_different)))
        in_place = [now[name] for name in changed if name in self._before and self._before[name] is now.get(name)]
        aliases = [
            name for name, value in now.items() if name in self._before and any(value is one for one in in_place)
        ]
        names = tuple(dict.fromkeys((*changed, *aliases)))
        hashes = self._hashes_of([name for name in names if name in now and name in self._before], now)
        effects = [self._effect(name, now, hashes.get(name)) for name in names]
        found = [effect for effect in effects if effect is not None]
        unknown = [name for name in self._kept.lost if name in now]
        return [*found, *(VariableEffect(name, "not compared") for name in unknown)] if found else []

    def _hashes_of(self, names: Sequence[str], namespace: Mapping[str, object]) -> dict[str, ContentHash | None]:
        hasher = ContentHasher(HASH_LIMIT)
        self._hashers.append(hasher)  # both hashers must live until their hashes are compared, or ids could be reused
        return {name: hasher.hash(namespace[name]) for name in names if not hasher.is_spent}

    def _effect(self, name: str, now: Mapping[str, object], content: ContentHash | None) -> VariableEffect | None:
        """Return a variable's change, or None for an imported module."""
        if name not in now:
            return VariableEffect(name, "removed")
        after, shape = _look(now[name]), _shape(now[name])
        if name not in self._before:
            new = VariableEffect(name, "new", None, after, None, shape)
            return None if after.line.startswith(_MODULE) else new
        same = same_content(self._hashes.get(name), content)
        change = "set again" if same is None else "unchanged" if same else "changed"
        return VariableEffect(name, change, self._lines.get(name), after, self._shapes.get(name), shape)


def _look(value: object) -> ValueLook:
    line = value_line(value)
    return ValueLook(
        value_kind(value)[:LONGEST_NAME], line if len(line) <= LONGEST_LOOK else f"{line[: LONGEST_LOOK - 1]}…"
    )


def _shape(value: object) -> FrameShape | None:
    """Return the shape, cut to the limits of a report."""
    shape = frame_shape(value)
    if shape is None:
        return None
    types = list(shape.types.items())[:MOST_COLUMNS]
    known = {label: kind for label, kind in types if len(label) <= LONGEST_LOOK and len(kind) <= LONGEST_LOOK}
    return shape._replace(kind=shape.kind[:LONGEST_NAME], types=known)
