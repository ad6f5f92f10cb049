"""What became of a frame, in a few words: its rows, its columns and their types, before and after."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.variables.adapters import VariableView
from vibe_jupyter.variables.adapters.frames import extent_text
from vibe_jupyter.variables.describe import column_labels, describe_value

_NAMED: Final = 3
"""Columns named of each kind of change."""
_EXTENT_ALONE: Final = VariableView(rows=0, stats=False)


class FrameShape(NamedTuple):
    """Of one frame, without any of its values."""

    kind: str
    """Such as ``pandas DataFrame``."""
    rows: int
    width: int
    """All columns, also those of which no type is known."""
    types: Mapping[str, str]
    """Of the first columns by their labels."""

    @property
    def extent(self) -> str:
        """``pandas DataFrame 344 × 8``."""
        return f"{self.kind} {extent_text(self.rows, self.width)}"

    @property
    def is_whole(self) -> bool:
        """Whether all columns are known, each by a label of its own."""
        return len(self.types) == self.width


def frame_shape(value: object) -> FrameShape | None:
    """The shape of a frame, no value looked at; None for what is no frame, has no columns or does not know its rows."""
    if not column_labels(value):
        return None
    described = describe_value(value, _EXTENT_ALONE)
    if described.extent is None or described.table is None:
        return None
    rows, width = described.extent
    types = {row[0]: row[1] for row in described.table.rows}
    return FrameShape(described.headline.removesuffix(extent_text(rows, width)).rstrip(), rows, width, types)


def change_words(before: FrameShape, after: FrameShape) -> str:
    """``344 → 333 rows, column mass_kg added``; empty where kind, rows, columns and types are the same."""
    if before.kind != after.kind:
        return f"{before.extent} → {after.extent}"
    parts = [f"{before.rows:,} → {after.rows:,} rows"] if before.rows != after.rows else []
    if before.is_whole and after.is_whole:
        parts += _column_words([label for label in after.types if label not in before.types], "added")
        parts += _column_words([label for label in before.types if label not in after.types], "removed")
    elif before.width != after.width:
        parts.append(f"{before.width:,} → {after.width:,} columns")
    parts += _type_words(before.types, after.types)
    return ", ".join(parts)


def _column_words(labels: Sequence[str], what: str) -> list[str]:
    if not labels:
        return []
    return [f"column{'s' if len(labels) > 1 else ''} {_listed(labels)} {what}"]


def _type_words(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    changed = [label for label in after if before.get(label, after[label]) != after[label]]
    return [_listed([f"{label} {before[label]} → {after[label]}" for label in changed])] if changed else []


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _NAMED:,} more" if len(words) > _NAMED else ""
    return f"{', '.join(words[:_NAMED])}{more}"
