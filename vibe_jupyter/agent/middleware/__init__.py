"""Rules that look at a run before each of its turns. One file each."""

from dataclasses import dataclass
from typing import Protocol

from vibe_jupyter.protocol import FinishReason, Usage


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    turns: int
    """Requests already made."""
    usage: Usage
    cost: float | None = None
    """US dollars so far; None where the prices are not known."""


@dataclass(frozen=True)
class Stop:
    """End the run before its next request."""

    reason: FinishReason
    notice: str
    """One sentence for the person, with the next step."""


class Middleware(Protocol):
    """A rule of the run."""

    def before_turn(self, progress: Progress) -> Stop | None:
        """Say whether the run may go on; None when it may."""
        ...
