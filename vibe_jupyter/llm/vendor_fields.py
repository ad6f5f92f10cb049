"""Collect vendor fields of a message or call, unknown to the dialect, from their deltas.

Servers require some of them back unchanged: Gemini its call signatures, OpenRouter its reasoning details. Their meaning
is unknown here, so deltas are joined by type: strings are concatenated, objects are merged, and list items are merged
if `index` and `type` identify them as the same item.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.llm.json_text import repair_surrogates

Object = dict[str, JsonValue]

MAX_DEPTH: Final = 32  # nesting depth of a field; deeper ones are dropped
MAX_ITEMS: Final = 1_000  # items of a streamed list; further ones are dropped
_EMPTY: Final[tuple[JsonValue, ...]] = (None, "", [], {})  # values that mean absent
# Strings that every delta repeats in full, as it does those whose name ends in `_id`.
_LABELS: Final = frozenset(
    {"type", "id", "format", "role", "name", "object", "status", "model", "provider", "kind", "language"}
)
# Prefixes and suffixes of names whose value seals an item: nothing is appended to it afterward.
_SEALS: Final = ("signature", "encrypted", "data")


class VendorFields:
    """Vendor fields of one message or call."""

    def __init__(self, count: Callable[[int], None]) -> None:
        """
        Args:
            count: Called with the number of characters added by each delta.
        """
        self._values: Object = {}
        self._count = count

    def add(self, delta: Mapping[str, JsonValue], known: frozenset[str] = frozenset(), *, whole: bool) -> None:
        """Add the unknown fields of a delta.

        Args:
            delta: Part or all of a message or call.
            known: Fields that the dialect reads itself.
            whole: True if the delta is complete, so that its values replace earlier ones.
        """
        for name, value in delta.items():
            if name in known or value in _EMPTY or not is_flat(value):
                continue
            self._count(_size(value))
            before = self._values.get(name)
            self._values[name] = value if whole or before is None else _joined(name, before, value)

    def finish(self) -> Object:
        """Return the fields with valid Unicode."""
        # only at the end: repairing each delta would rescan the whole text
        return {name: _repaired(value) for name, value in self._values.items()}


def _joined(name: str, before: JsonValue, piece: JsonValue) -> JsonValue:
    match before, piece:
        case str(), str():
            return _joined_text(name, before, piece)
        case dict(), dict():
            return _merged(before, piece)
        case list(), list():
            return _extended(before, piece)
        case _:
            return before if piece is None else piece


def _joined_text(name: str, before: str, piece: str) -> str:
    if name in _LABELS or name.endswith("_id"):
        return piece or before
    return before if piece == before and _is_seal(name) else before + piece


def _merged(before: Object, piece: Object) -> Object:
    merged = dict(before)
    for name, value in piece.items():
        had = merged.get(name)
        if had is None or value is not None:
            merged[name] = value if had is None else _joined(name, had, value)
    return merged


def _extended(before: list[JsonValue], pieces: list[JsonValue]) -> list[JsonValue]:
    items = list(before)
    for piece in pieces:
        place = _place_of(items, piece) if isinstance(piece, dict) else None
        if place is not None:
            items[place] = _merged(cast("Object", items[place]), cast("Object", piece))
        elif len(items) < MAX_ITEMS and piece not in items:  # some servers repeat the whole list in every chunk
            items.append(piece)
    return items


def _place_of(items: list[JsonValue], piece: Object) -> int | None:
    """Return the index of the item that a piece continues, or None if it is new."""
    if isinstance(piece.get("index"), int):
        same = (
            place
            for place in range(len(items) - 1, -1, -1)
            if isinstance(item := items[place], dict) and _is_same(item, piece)
        )
        return next(same, None)
    # without an index, a piece continues the last item unless that differs or is sealed
    last = items[-1] if items else None
    is_open = isinstance(last, dict) and "type" in piece and _is_same(last, piece) and not _is_sealed(last)
    return len(items) - 1 if is_open else None


def _is_same(item: Object, piece: Object) -> bool:
    same = all(item.get(name) == piece.get(name) for name in ("index", "type"))
    return same and (item.get("id") is None or piece.get("id") is None or item["id"] == piece["id"])


def _is_sealed(item: Object) -> bool:
    return any(value and _is_seal(name) for name, value in item.items())


def _is_seal(name: str) -> bool:
    return name.lower().endswith(_SEALS) or name.startswith(_SEALS)


def is_flat(value: JsonValue) -> bool:
    """Return whether a value is nested at most `MAX_DEPTH` levels deep."""
    level: list[JsonValue] = [value]
    for _ in range(MAX_DEPTH):
        level = [one for holder in level for one in _inside(holder)]
        if not level:
            return True
    return False


def _inside(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _size(value: JsonValue) -> int:
    if isinstance(value, str):
        return len(value)
    return 1 + sum(map(_size, _inside(value))) + (sum(map(len, value)) if isinstance(value, dict) else 0)


def _repaired(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return repair_surrogates(value)
        case list():
            return [_repaired(one) for one in value]
        case dict():
            return {repair_surrogates(name): _repaired(one) for name, one in value.items()}
        case _:
            return value
