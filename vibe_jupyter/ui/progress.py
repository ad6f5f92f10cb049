"""How far a running call is: a bar in the live view, and the same in words wherever it is text."""

from dataclasses import dataclass

from vibe_jupyter.ui.markup import NOTHING, Markup, element
from vibe_jupyter.ui.text import one_line, output_text

WORDS_LIMIT = 80
"""Characters of what a tool says beside it."""

EXACT = 1e12
"""A number from which on its digits say nothing to anybody."""


@dataclass(frozen=True)
class Progress:
    """As a tool told it last."""

    done: float
    total: float | None
    """None where the tool does not know."""
    said: str
    """Its own words; may be empty."""

    @property
    def words(self) -> str:
        """``3 of 10 · loading``."""
        known = "" if self.total is None else f" of {_number(self.total)}"
        said = one_line(output_text(self.said), WORDS_LIMIT)
        return " · ".join(word for word in (f"{_number(self.done)}{known}", said) if word)


def bar_html(progress: Progress | None) -> Markup:
    """A bar that moves, where it is known how far it goes."""
    if progress is None or progress.total is None:
        return NOTHING
    done = min(progress.done, progress.total)
    # What stands beside it in words need not be read out twice.
    return element("progress", max=_number(progress.total), value=_number(done), aria_hidden="true")


def _number(value: float) -> str:
    """Without a sign of how a computer keeps it."""
    return str(int(value)) if value < EXACT and value == int(value) else f"{value:.6g}"
