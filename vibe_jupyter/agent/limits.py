"""Limits of a run: turns, price, denials, and what it has used so far."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import FinishReason, ToolCall, Usage

MIN_TURNS = 1
MAX_TURNS = 200
DEFAULT_TURNS = 50
"""Requests to the model in one run."""

DEFAULT_PRICE = 2.0
"""US dollars for one run."""

MAX_EQUAL: Final = 3
"""Denials of one and the same call."""
MAX_UNATTENDED: Final = 5
"""Denials in a row, of whatever calls, where nobody is there to say yes to one of them."""


class RunProgress(NamedTuple):
    """How far a run is."""

    turns: int
    """Requests already made."""
    usage: Usage
    cost: float | None = None
    """US dollars so far; None where the prices are not known."""


class StopRun(NamedTuple):
    """End the run before its next request."""

    reason: FinishReason
    notice: str
    """One sentence for the user, with the next step."""
    level: Literal["info", "warning"] = "warning"


class RunLimit(Protocol):
    """A rule of the run."""

    def before_turn(self, progress: RunProgress) -> StopRun | None:
        """Say whether the run may go on; None when it may."""
        ...


class TurnLimit:
    """Ends the run before request number `turns` + 1; the limit is clamped to 1-200."""

    def __init__(self, turns: int = DEFAULT_TURNS) -> None:
        self.turns = max(MIN_TURNS, min(turns, MAX_TURNS))

    def before_turn(self, progress: RunProgress) -> StopRun | None:
        if progress.turns < self.turns:
            return None
        plural = "" if self.turns == 1 else "s"
        return StopRun(
            reason="turn_limit",
            notice=f"Stopped at the limit of {self.turns} turn{plural}. "
            "Say what is missing in another %%vibe cell, or give --max-turns more.",
        )


class PriceLimit:
    """Ends the run before the next request once it has cost more than `dollars`; never where prices are not known, and
    never at a limit of 0."""

    def __init__(self, dollars: float = DEFAULT_PRICE) -> None:
        self._dollars = dollars

    def before_turn(self, progress: RunProgress) -> StopRun | None:
        if not self._dollars or progress.cost is None or progress.cost <= self._dollars:
            return None
        return StopRun(
            reason="price_limit",
            notice=f"Stopped: the run has cost ${progress.cost:.2f}, and the limit of one run is ${self._dollars:.2f}. "
            "Go on in another %%vibe cell, or set max_price in config.toml (0 for no limit).",
        )


class Budget:
    """Counts what the model's server was asked, by the agent and on behalf of others. Engine loop only."""

    def __init__(self, model: Model, rules: Sequence[RunLimit]) -> None:
        self.turns = 0
        self.usage = Usage()
        self._model = model
        self._rules = rules

    @property
    def cost(self) -> float | None:
        """US dollars so far; None where the prices of the model are not known."""
        return self._model.cost(self.usage)

    def add(self, usage: Usage | None) -> None:
        """Count an answer; None when the server sent no counts."""
        self.usage = self.usage + (usage or Usage())

    def stop(self) -> StopRun | None:
        """Why the next turn may not begin; None when it may."""
        return self._stop_reason(self.turns, self.usage)

    def stop_aside(self, used: Usage | None = None) -> StopRun | None:
        """Why nothing more may be asked, or answered, within this turn, which has begun; None when it may.

        Args:
            used: what an answer has used that is still coming in; None where there is none, or it does not say.
        """
        return self._stop_reason(self.turns - 1, self.usage + (used or Usage()))

    def _stop_reason(self, turns: int, usage: Usage) -> StopRun | None:
        progress = RunProgress(turns=turns, usage=usage, cost=self._model.cost(usage))
        return next((stop for rule in self._rules if (stop := rule.before_turn(progress)) is not None), None)


class DenialLimit:
    """Counts those of one run."""

    def __init__(self, is_alone: Callable[[], bool]) -> None:
        self._is_alone = is_alone
        self._of_equal_calls: dict[tuple[str, str], int] = {}
        self._in_a_row = 0

    def note(self, call: ToolCall, *, denied: bool) -> None:
        """A call was answered."""
        if not denied:
            self._in_a_row = 0
            return
        self._in_a_row += 1
        key = (call.name, call.arguments)
        self._of_equal_calls[key] = self._of_equal_calls.get(key, 0) + 1

    @property
    def are_enough(self) -> bool:
        """Whether the run is to end."""
        equal = any(count >= MAX_EQUAL for count in self._of_equal_calls.values())
        return equal or (self._is_alone() and self._in_a_row >= MAX_UNATTENDED)
