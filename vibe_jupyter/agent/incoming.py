"""The answer that is coming in: what it said, and what it has used, until it is a message or broke off."""

from vibe_jupyter.agent.budget import Budget
from vibe_jupyter.agent.middleware import Stop
from vibe_jupyter.protocol import Usage


class EnoughError(Exception):
    """The answer that is coming in has used up what the run may use."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.notice)
        self.stop = stop


class Incoming:
    """One answer at a time. Engine loop only."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._text: list[str] = []
        self._used = Usage()
        """By the server's latest word; most servers say nothing before the end."""

    def add_text(self, piece: str) -> None:
        """A piece of what the person reads."""
        self._text.append(piece)

    def count(self, used: Usage) -> None:
        """The server says what the answer has used so far.

        Raises:
            EnoughError: it is as much as the run may use.
        """
        self._used = used
        if (stop := self._budget.stop_aside(used)) is not None:
            raise EnoughError(stop)

    def complete(self, used: Usage | None) -> None:
        """It came to its end; None where the server sent no counts then."""
        self._budget.add(self._used if used is None else used)
        self._clear()

    def broken_off(self) -> str:
        """It did not; what it used is counted all the same. Returns what it said."""
        self._budget.add(self._used)
        text = "".join(self._text)
        self._clear()
        return text

    def _clear(self) -> None:
        self._text.clear()
        self._used = Usage()
