"""What goes along with a run: it prepares the prompt, and may ask the person or the model while the run goes on."""

from dataclasses import dataclass
from typing import Protocol

from vibe_jupyter.agent.budget import Budget
from vibe_jupyter.agent.desk import Desk
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import ImagePart, TextPart

Parts = tuple[TextPart | ImagePart, ...]


@dataclass(frozen=True)
class Seat:
    """What a companion may use of the run, from `begin` to `end`."""

    desk: Desk
    model: Model
    client: LLMClient
    budget: Budget


@dataclass(frozen=True)
class Prepared:
    """What a companion makes of a prompt."""

    before: Parts = ()
    """Goes before the person's words."""
    instead: Parts | None = None
    """Takes the place of the person's words; None where they stay."""


class Companion(Protocol):
    """One for each run. Engine loop only."""

    async def begin(self, seat: Seat) -> Prepared:
        """Prepare, before anything is sent to the model; an interrupt cancels it. What takes long is said by a Notice.

        Raises:
            VibeError: the run ends with these words, and nothing is sent.
        """
        ...

    async def end(self) -> None:
        """The run is about to end; whatever was shown in it is over when this returns."""
        ...


class Alone:
    """No companion."""

    async def begin(self, seat: Seat) -> Prepared:
        return Prepared()

    async def end(self) -> None:
        pass
