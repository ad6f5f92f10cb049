"""Cells in the order in which they came to the kernel, so that one that begins knows which wait behind it."""

from collections import deque
from typing import Final

REMEMBERED: Final = 500
"""Cells; who runs all of a notebook has as many waiting."""


class Arrivals:
    """The last cells, by the id of their request, with their code."""

    def __init__(self) -> None:
        self._cells: deque[tuple[str, str]] = deque(maxlen=REMEMBERED)

    def note(self, request: str, code: str) -> None:
        """A cell came."""
        self._cells.append((request, code))

    def behind(self, request: str) -> list[str]:
        """Code of the cells that came after the one of this request; none where that is not known."""
        cells = list(self._cells)
        place = next((n for n, (name, _) in enumerate(cells) if name == request), len(cells))
        return [code for _, code in cells[place + 1 :]]
