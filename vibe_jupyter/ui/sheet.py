"""The parts as the page shows them, and the patches that brought them there."""

from vibe_jupyter.ui.markup import Markup
from vibe_jupyter.ui.parts import PartKind, Patch, ViewPart

FOOT = "foot"
"""The id of the last part."""


class Sheet:
    """Parts in the order of the page. Every change is also a patch, until `take_patches`."""

    def __init__(self) -> None:
        self._parts: dict[str, ViewPart] = {}
        self._tails: dict[str, list[str]] = {}
        """Pieces of the growing texts: joined only when asked for, so that adding costs the piece alone."""
        self._patches: list[Patch] = []
        self._numbers = 0

    def new_id(self, prefix: str) -> str:
        """An id no part had."""
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def put(self, part_id: str, kind: PartKind, html: Markup) -> None:
        """Show a part: in its old place if it has one, else as the last before the foot."""
        part = ViewPart(part_id, kind, html)
        if self._parts.get(part_id) == part and part_id not in self._tails:
            return
        self._parts[part_id] = part
        self._tails.pop(part_id, None)
        self._patches.append({"id": part_id, "kind": kind, "html": html})

    def start_tail(self, part_id: str) -> None:
        """Show an empty growing text."""
        self._parts[part_id] = ViewPart(part_id, "tail", "")
        self._tails[part_id] = []
        self._patches.append({"id": part_id, "kind": "tail", "html": ""})

    def append(self, part_id: str, text: str) -> None:
        """Let a growing text grow."""
        if text:
            self._tails[part_id].append(text)
            self._patches.append({"id": part_id, "append": text})

    def remove(self, part_id: str) -> None:
        """Take a part away; one that is not there stays away."""
        if self._parts.pop(part_id, None) is not None:
            self._tails.pop(part_id, None)
            self._patches.append({"id": part_id, "remove": True})

    def take_patches(self) -> list[Patch]:
        """The changes since the last call."""
        patches, self._patches = self._patches, []
        return patches

    def parts(self) -> list[ViewPart]:
        """Everything that is shown now."""
        shown = [self._whole(part) for part in self._parts.values() if part.id != FOOT]
        return shown + [part for part in self._parts.values() if part.id == FOOT]

    def _whole(self, part: ViewPart) -> ViewPart:
        return ViewPart(part.id, part.kind, "", "".join(self._tails[part.id])) if part.kind == "tail" else part
