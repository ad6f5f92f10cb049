"""Sentences about the effects of a trial run, made from validated facts (`protocol/variable_effects.py`).

They appear on approval cards in the product's own voice. A variable is named if the code contains its name or it is one
of the user's variables. Column labels, classes and values are data of the code: quoted, or omitted if unknown.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.files.shown_names import quoted_name, shown_name
from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.notebook.described_values import WITHOUT_NAME, class_words, column_type, described_value
from vibe_jupyter.notebook.known_names import NameCheck
from vibe_jupyter.protocol.variable_effects import FrameShape, ValueLook, VariableEffect
from vibe_jupyter.sandbox.file_changes import FileChange

_PLAIN_LABEL: Final = re.compile(r"\w{1,40}", re.ASCII)
_COLUMNS_NAMED: Final = 3  # columns named per kind of change


class EffectWords(NamedTuple):
    """Sentence builder for one piece of code."""

    names: NameCheck
    schema_only: bool  # True if sentences must not contain values, only names and counts

    def variables(self, effects: Sequence[VariableEffect]) -> tuple[list[str], int]:
        """Return a line for each variable that may be named, and the number of others that changed."""
        named = [one for one in effects if self.names.is_name(one.name)]
        lines = [self._variable(one) for one in named if one.change != "not compared"]
        unknown = [one.name for one in named if one.change == "not compared"]
        return [*lines, *([f"{', '.join(unknown)}: not compared"] if unknown else [])], len(effects) - len(named)

    def files(self, changes: Sequence[FileChange], shown: int) -> list[str]:
        """Return a line about file changes, or [] if there are none."""
        if not changes:
            return []
        if self.schema_only:
            return [f"would change {_counted(len(changes), 'file')}"]
        more = f" and {len(changes) - shown} more" if len(changes) > shown else ""
        return [f"would {', '.join(map(file_words, changes[:shown]))}{more}"]

    def _variable(self, effect: VariableEffect) -> str:
        name, before, after = effect.name, effect.frame_before, effect.frame_after
        if effect.change == "removed" or effect.after is None:
            return f"{name}: removed"
        if effect.change == "unchanged":
            return f"{name} unchanged" if after is None else f"{name} unchanged ({after.size})"
        is_new = effect.change == "new"
        if after is not None and (is_new or before is not None):
            return f"{name}: {self._frame(effect.change, before, after)}"
        line, line_before = self._look(effect.after), self._look(effect.before) if effect.before is not None else ""
        if is_new:
            return f"{name}: new, {line}"
        is_other = effect.before is not None and effect.before.line != effect.after.line and line_before != line
        return f"{name}: {line_before} → {line}" if is_other else f"{name}: {effect.change}, {line}"

    def _look(self, look: ValueLook) -> str:
        said = "" if self.schema_only else described_value(look.line, self.names)
        return said or class_words(look.kind, self.names)

    def _frame(self, change: str, before: FrameShape | None, after: FrameShape) -> str:
        if change == "new" or before is None:
            return f"new, {self._extent(after)}"
        return self._change(before, after) or f"{change}, {self._extent(after)}"

    def _extent(self, shape: FrameShape) -> str:
        kind = described_value(shape.kind, self.names)
        return shape._replace(kind=kind if kind == shape.kind else WITHOUT_NAME).extent

    def _change(self, before: FrameShape, after: FrameShape) -> str:
        """Return ``344 → 333 rows, column mass_kg added``, or '' if kind, rows, columns and types are the same."""
        if before.kind != after.kind:
            return f"{self._extent(before)} → {self._extent(after)}"
        parts = [f"{before.rows:,} → {after.rows:,} rows"] if before.rows != after.rows else []
        if before.is_whole and after.is_whole:
            parts += self._columns([label for label in after.types if label not in before.types], "added")
            parts += self._columns([label for label in before.types if label not in after.types], "removed")
        elif before.width != after.width:
            parts.append(f"{before.width:,} → {after.width:,} columns")
        parts += self._types(before.types, after.types)
        return ", ".join(parts)

    def _columns(self, labels: Sequence[str], what: str) -> list[str]:
        if not labels:
            return []
        if not all(map(self._may_name, labels)):
            return [f"{_counted(len(labels), 'column')} {what}"]
        return [f"column{'s' if len(labels) > 1 else ''} {_listed(list(map(_shown_label, labels)))} {what}"]

    def _types(self, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
        changed = [label for label in after if before.get(label, after[label]) != after[label]]
        if not changed:
            return []
        if not all(map(self._may_name, changed)):
            return [f"{_counted(len(changed), 'column')} of another type"]
        types = ((label, column_type(before[label]), column_type(after[label])) for label in changed)
        return [_listed([f"{_shown_label(label)} {old} → {new}" for label, old, new in types])]

    def _may_name(self, label: str) -> bool:
        return not self.schema_only or self.names.is_text(label) or self.names.is_name(label)


def file_words(change: FileChange) -> str:
    """Describe a file change, such as ``write out.csv (1.2 kB, 20 lines)``."""
    path = shown_name(change.path)
    if change.deed not in ("write", "change"):
        return f"{change.deed} {path}"
    if change.added or change.removed:
        parts = (f"+{change.added}" if change.added else "", f"−{change.removed}" if change.removed else "")
        noun = "line" if change.added + change.removed == 1 else "lines"
        return f"{change.deed} {path} ({' '.join(filter(None, parts))} {noun})"
    if change.size == 0:
        return f"{change.deed} {path} (empty)"
    lines = "" if change.lines is None else f", {_counted(change.lines, 'line')}"
    return f"{change.deed} {path} ({bytes_text(change.size)}{lines})"


def _shown_label(label: str) -> str:
    return label if _PLAIN_LABEL.fullmatch(label) else quoted_name(label)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _COLUMNS_NAMED:,} more" if len(words) > _COLUMNS_NAMED else ""
    return f"{', '.join(words[:_COLUMNS_NAMED])}{more}"
