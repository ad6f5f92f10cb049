"""Patches that wait for the next message to the page, merged where nobody could see the difference."""

from collections.abc import Iterable

from vibe_jupyter.ui.parts import Patch


class Outbox:
    """Keeps the order of changes; text added to one tail becomes one patch, a part put twice is put once."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._pieces: dict[int, list[str]] = {}
        """Text of a waiting append, by its place in `_patches`; joined once, when taken."""
        self._last: dict[str, int] = {}
        """Place of the last waiting patch of a part."""

    def __bool__(self) -> bool:
        return bool(self._patches)

    def add(self, patches: Iterable[Patch]) -> None:
        """Let these wait behind the others."""
        for patch in patches:
            self._add(patch)

    def take(self) -> list[Patch]:
        """Everything that waits, in order; nothing waits afterwards."""
        for place, pieces in self._pieces.items():
            self._patches[place]["append"] = "".join(pieces)
        taken = self._patches
        self._patches, self._pieces, self._last = [], {}, {}
        return taken

    def _add(self, patch: Patch) -> None:
        place = self._last.get(patch["id"])
        if "append" in patch:
            if place is None or place not in self._pieces:
                place = self._push({"id": patch["id"]})
                self._pieces[place] = []
            self._pieces[place].append(patch["append"])
        elif place is not None and _is_put(patch) and "before" not in patch and self._replaceable(place):
            self._pieces.pop(place, None)
            self._patches[place].pop("append", None)
            self._patches[place].update(patch)
        else:
            self._push(patch.copy())

    def _replaceable(self, place: int) -> bool:
        """Whether nobody would see the waiting patch at this place, if a put of the same part came instead."""
        return _is_put(self._patches[place]) or place in self._pieces

    def _push(self, patch: Patch) -> int:
        self._patches.append(patch)
        self._last[patch["id"]] = len(self._patches) - 1
        return self._last[patch["id"]]


def _is_put(patch: Patch) -> bool:
    return "html" in patch
