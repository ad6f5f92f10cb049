"""How far a running call is: a bar in the live view, and the same in words wherever it is text."""

from dataclasses import dataclass

from vibe_jupyter.protocol import ToolProgress, ToolStarted
from vibe_jupyter.ui.markup import NOTHING, Markup, element
from vibe_jupyter.ui.text import one_line, output_text, readable

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


class Milestones:
    """Lines for where nothing can be drawn anew: one for each tenth of the way."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._tenths: dict[str, int] = {}

    def begin(self, event: ToolStarted) -> None:
        """A call began."""
        headline = event.headline
        self._calls[event.call_id] = " ".join(filter(None, (headline.doing, headline.target, headline.note)))
        self._tenths[event.call_id] = 0

    def line(self, event: ToolProgress) -> str:
        """What to say of it; empty as long as it has not come much further."""
        if event.done is None or not event.total or event.call_id not in self._calls:
            return ""
        tenth = int(min(event.done / event.total, 1.0) * 10)
        if tenth <= self._tenths[event.call_id]:
            return ""
        self._tenths[event.call_id] = tenth
        how_far = Progress(event.done, event.total, event.text).words
        return readable(one_line(f"{self._calls[event.call_id]} · {how_far}"))


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
