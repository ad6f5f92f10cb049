"""A unified diff as people read one: numbered lines that are new, gone or as they were, and what lies between."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vibe_jupyter.ui.text import plural

CONTEXT = 3
"""Unchanged lines that stay in sight before and behind a change."""
LEAST_FOLD = 4
"""Unchanged lines that are worth a fold."""
NO_FILE = "/dev/null"

Kind = Literal["same", "add", "del", "gap", "name", "note"]
"""The last three are words about the change, not lines of it."""

_HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_KINDS: dict[str, Kind] = {"+": "add", "-": "del", "\\": "note"}


@dataclass(frozen=True)
class DiffLine:
    """One line, without its sign."""

    kind: Kind
    text: str
    number: int | None = None
    """In the new text, or in the old one if it is gone; None where the diff does not say."""


@dataclass(frozen=True)
class Fold:
    """Unchanged lines far from every change."""

    lines: tuple[DiffLine, ...]


class _Reader:
    """Where a reading stands: a line is a file's name or a line of it depending on what came before."""

    def __init__(self) -> None:
        self._old = self._new = 1
        """Numbers of the next lines."""
        self._old_left = self._new_left = 0
        """Lines the hunk still has, as its head said."""
        self._counted = False
        self._file = ""
        """The old file's name, until the new one's follows."""

    def read(self, line: str, *, is_content: bool) -> DiffLine | None:
        """None for a line that says nothing to a person."""
        inside = self._old_left > 0 or self._new_left > 0 or (is_content and not self._counted)
        if line.startswith("@@") and not (self._counted and inside):
            return self._head(line)
        if not inside and line.startswith(("--- ", "+++ ")):
            return self._name(line)
        if not inside and not line.startswith((" ", "+", "-", "\\")):
            return DiffLine("name", line) if line else None
        return self._line(line)

    def _head(self, line: str) -> DiffLine | None:
        found = _HEAD.fullmatch(line)
        self._counted = found is not None
        if found is None:
            return DiffLine("gap", line.strip("@ "))
        old, old_count, new, new_count, section = found.groups()
        between = int(new) - self._new
        self._old, self._new = int(old), int(new)
        self._old_left = int(old_count or "1")
        self._new_left = int(new_count or "1")
        words = [plural(between, "unchanged line")] if between > 0 else []
        words += [section] if section else []
        return DiffLine("gap", " · ".join(words)) if words else None

    def _name(self, line: str) -> DiffLine | None:
        name = line[4:].split("\t", 1)[0]
        if line.startswith("---"):
            self._file, self._old, self._new = name, 1, 1
            return None
        old, new = self._file.removeprefix("a/"), name.removeprefix("b/")
        if self._file == NO_FILE:
            return DiffLine("name", f"{new}: a new file")
        if name == NO_FILE:
            return DiffLine("name", f"{old}: deleted")
        return DiffLine("name", new if old == new else f"{old} → {new}")

    def _line(self, line: str) -> DiffLine:
        if line[:1] not in ("", " ", *_KINDS):  # a word of ours: something was left out
            return DiffLine("note", line)
        kind = _KINDS.get(line[:1], "same")
        number = self._old if kind == "del" else self._new
        if kind != "note":
            old, new = kind != "add", kind != "del"
            self._old, self._new = self._old + old, self._new + new
            self._old_left, self._new_left = self._old_left - old, self._new_left - new
        return DiffLine(kind, line[1:].strip() if kind == "note" else line[1:], number if self._counted else None)


def read_diff(text: str) -> list[DiffLine]:
    """The lines of a unified diff, with or without file names and heads of hunks."""
    # A diff has a CR at the end of a line only where it says something: that this line ends differently.
    lines = text.replace("\r", "⟨U+000D⟩").split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), 0)
    reader = _Reader()
    read = [reader.read(line, is_content=at >= first) for at, line in enumerate(lines)]
    return [line for line in read if line is not None]


def folded(lines: list[DiffLine]) -> list[DiffLine | Fold]:
    """The same with long unchanged stretches folded away."""
    out: list[DiffLine | Fold] = []
    for start, end in _stretches(lines):
        head = CONTEXT if start > 0 and lines[start - 1].kind in ("add", "del", "note") else 0
        tail = CONTEXT if end < len(lines) and lines[end].kind in ("add", "del", "note") else 0
        inner = (start + head, end - tail)
        if lines[start].kind != "same" or inner[1] - inner[0] < LEAST_FOLD:
            out += lines[start:end]
        else:
            out += [*lines[start : inner[0]], Fold(tuple(lines[inner[0] : inner[1]])), *lines[inner[1] : end]]
    return out


def counts(text: str) -> tuple[int, int]:
    """Lines added and lines removed."""
    kinds = [line.kind for line in read_diff(text)]
    return kinds.count("add"), kinds.count("del")


def _stretches(lines: list[DiffLine]) -> Iterator[tuple[int, int]]:
    """Begin and end of runs of unchanged lines, and of what stands between them."""
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or (lines[at].kind == "same") != (lines[start].kind == "same"):
            yield start, at
            start = at
