"""What a job is: a notebook, what the user does in it, and the prompts, each with what an expert answers."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chair.desk import Desk, Source
from tests.chair.expert import Script, Seen

Check = Callable[[Desk, str], None]
"""Raises AssertionError where the job is not done. Takes the desk and the text of the answer."""


def do_nothing(_desk: Desk) -> None:
    """The user only asks."""


@dataclass(frozen=True)
class Prompt:
    """One of the eleven jobs."""

    job: str
    """As the table calls it."""
    about: str
    words: str
    """What the user asks; a whole line where it begins with `%vibe`."""
    script: Callable[[Seen], Script]
    done: Check
    least: int
    """Requests that it takes at least, the answer's included."""
    facts: tuple[str, ...]
    """What one has to know to do it."""
    before: Callable[[Desk], None] = do_nothing
    """What the user does first."""


@dataclass(frozen=True)
class Case:
    """A notebook, and prompts in one conversation."""

    cells: Sequence[str | Source]
    prompts: Sequence[Prompt]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    start: Callable[[Desk], None] = Desk.run_all
    """What the user did before the first prompt."""


class Names:
    """Names of columns, variables and files that differ with the seed, none of them twice."""

    _NOUNS = (
        *("Amber", "Birch", "Cedar", "Dahlia", "Ember", "Fjord", "Gravel", "Hazel", "Indigo", "Juniper", "Kestrel"),
        *("Larch", "Maple", "Nectar", "Ochre", "Poplar", "Quartz", "Russet", "Sorrel", "Thistle", "Umber", "Willow"),
    )
    _ENDS = ("count", "level", "share", "grade", "yield", "score", "quota", "index")

    def __init__(self, seed: int) -> None:
        self.chosen = random.Random(seed)
        self._left = [f"{noun} {end}" for noun in self._NOUNS for end in self._ENDS]
        self.chosen.shuffle(self._left)

    def title(self) -> str:
        """Two words, such as `Amber level`."""
        return self._left.pop()

    def variable(self) -> str:
        """A name of Python."""
        return self.title().lower().replace(" ", "_")

    def number(self, low: int, high: int) -> int:
        """A number that is not round."""
        return self.chosen.randrange(low, high) * 10 + self.chosen.randrange(1, 10)
