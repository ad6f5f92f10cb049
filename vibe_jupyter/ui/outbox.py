"""Patches that wait for the next message to the page, merged where nobody could see the difference."""

from collections.abc import Iterable

from vibe_jupyter.ui.parts import Patch

FEW = 400
"""Characters of added text up to which a message would be mostly envelope."""


class Outbox:
    """Keeps the order of changes; text added to one tail becomes one patch, a part put twice is put once."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []
        self._pieces: dict[int, list[str]] = {}
        """Text of a waiting append, by its place in `_patches`; joined once, when taken."""
        self._last: dict[str, int] = {}
        """Place of the last waiting patch of a part."""
        self._unseen: set[int] = set()
        """Places of waiting patches that need not be sent."""
        self._added = 0
        """Characters of the waiting text; more than `FEW` when a step, a card or the like waits too."""

    def __bool__(self) -> bool:
        return bool(self._patches)

    @property
    def is_little(self) -> bool:
        """Whether all that waits is a little more of an answer."""
        return self._added <= FEW

    def add(self, patches: Iterable[Patch]) -> None:
        """Let these wait behind the others."""
        for patch in patches:
            self._add(patch)

    def take(self) -> list[Patch]:
        """Everything that waits, in order; nothing waits afterwards."""
        for place, pieces in self._pieces.items():
            self._patches[place]["append"] = "".join(pieces)
        taken = [patch for place, patch in enumerate(self._patches) if place not in self._unseen]
        self._patches, self._pieces, self._last, self._unseen = [], {}, {}, set()
        self._added = 0
        return taken

    def _add(self, patch: Patch) -> None:
        place = self._last.get(patch["id"])
        self._added += len(patch.get("append", "")) if _is_of_answer(patch) else FEW + 1
        if "append" in patch:
            if place is None or place not in self._pieces:
                place = self._push({"id": patch["id"]})
                self._pieces[place] = []
            self._pieces[place].append(patch["append"])
        elif place is not None and _is_put(self._patches[place]) and _is_put(patch) and "before" not in patch:
            self._patches[place].update(patch)
        else:
            if place in self._pieces and _is_put(patch):
                self._unseen.add(place)  # text added to what is then replaced whole
            self._push(patch.copy())

    def _push(self, patch: Patch) -> int:
        self._patches.append(patch)
        self._last[patch["id"]] = len(self._patches) - 1
        return self._last[patch["id"]]


def _is_of_answer(patch: Patch) -> bool:
    return "append" in patch or patch.get("kind") in ("prose", "tail")


def _is_put(patch: Patch) -> bool:
    return "html" in patch
