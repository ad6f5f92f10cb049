"""Limits of a run: turns, price, tokens, time, denials, and what it has used so far."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from vibe_jupyter.agent.middleware import Middleware, RunProgress, StopRun, TurnState, Verdict
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import ToolCall, Usage

MIN_TURNS = 1
MAX_TURNS = 200
DEFAULT_TURNS = 50
"""Requests to the model in one run."""

DEFAULT_PRICE = 2.0
"""US dollars for one run."""

UNASKED_TOKENS: Final = 10_000_000
"""Tokens of one run, sent and received, where calls run without asking and no limit was set."""
UNASKED_SECONDS: Final = 3_600.0
"""Seconds of one run there."""

MAX_EQUAL: Final = 3
"""Denials of one and the same call."""
MAX_UNATTENDED: Final = 5
"""Denials in a row, of whatever calls, where nobody is there to say yes to one of them."""


class RunLimit(Middleware):
    """A limit that holds before each request, and while an answer comes in."""

    def exceeded(self, progress: RunProgress) -> StopRun | None:
        """Why the run may not go on; None when it may."""
        raise NotImplementedError

    def before_turn(self, state: TurnState) -> Verdict | None:
        return self.exceeded(state.progress)


class TurnLimit(RunLimit):
    """Ends the run before request number `turns` + 1; the limit is clamped to 1-200."""

    def __init__(self, turns: int = DEFAULT_TURNS) -> None:
        self.turns = max(MIN_TURNS, min(turns, MAX_TURNS))

    def exceeded(self, progress: RunProgress) -> StopRun | None:
        if progress.turns < self.turns:
            return None
        plural = "" if self.turns == 1 else "s"
        return StopRun(
            reason="turn_limit",
            notice=f"Stopped at the limit of {self.turns} turn{plural}. "
            "Say what is missing in another prompt, or give --max-turns more.",
        )


class PriceLimit(RunLimit):
    """Ends the run before the next request once it has cost more than `dollars`; never where prices are not known, and
    never at a limit of 0."""

    def __init__(self, dollars: float = DEFAULT_PRICE) -> None:
        self._dollars = dollars

    def exceeded(self, progress: RunProgress) -> StopRun | None:
        if not self._dollars or progress.cost is None or progress.cost <= self._dollars:
            return None
        return StopRun(
            reason="price_limit",
            notice=f"Stopped: the run has cost ${progress.cost:.2f}, and the limit of one run is ${self._dollars:.2f}. "
            "Go on in another prompt, or set max_price in config.toml (0 for no limit).",
        )


class TokenLimit(RunLimit):
    """Ends the run once it has used more than `tokens`, sent and received together; never at a limit of 0."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def exceeded(self, progress: RunProgress) -> StopRun | None:
        used = progress.usage.prompt_tokens + progress.usage.completion_tokens
        if not self._tokens or used <= self._tokens:
            return None
        return StopRun(
            reason="token_limit",
            notice=f"Stopped: the run has used {used:,} tokens, and the limit of one run is {self._tokens:,}. "
            "Go on in another prompt, or set max_tokens in config.toml (0 for no limit).",
        )


class TimeLimit(RunLimit):
    """Ends the run once it has taken `seconds`, without the time it waited for the user; never at a limit of 0."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def exceeded(self, progress: RunProgress) -> StopRun | None:
        if not self.seconds or progress.seconds < self.seconds:
            return None
        return StopRun(
            reason="time_limit",
            notice=f"Stopped: the run has taken {progress.seconds:,.0f} s, and the limit of one run is "
            f"{self.seconds:,.0f} s. Go on in another prompt, or set max_seconds in config.toml (0 for no limit).",
        )


def _no_wait() -> float:
    return 0.0


class Budget:
    """Counts what the model's server was asked, by the agent and on behalf of others. Engine loop only."""

    def __init__(
        self,
        model: Model,
        middleware: Sequence[Middleware],
        *,
        waited: Callable[[], float] = _no_wait,
        caller: "Budget | None" = None,
    ) -> None:
        """Begin to count, the time too.

        Args:
            model: has the prices.
            middleware: the limits among it hold also while an answer comes in.
            waited: seconds that the user was waited for.
            caller: of the run for which a sub-agent works: tokens and price count there too, and its limits hold.
        """
        self.turns = 0
        self.usage = Usage.model_construct()
        self._model = model
        self._limits = [one for one in middleware if isinstance(one, RunLimit)]
        self._began = time.monotonic()
        self._waited = waited
        self._caller = caller
        self._of_subagents = Usage()
        self._cost_of_subagents: float | None = 0.0
        """None where the prices of one of their models are not known."""

    @property
    def total(self) -> Usage:
        """Tokens so far, those of sub-agents too."""
        return self.usage + self._of_subagents

    @property
    def cost(self) -> float | None:
        """US dollars so far, with what sub-agents cost; None where the prices of a model are not known."""
        return self._cost_with(self.usage)

    @property
    def progress(self) -> RunProgress:
        """How far the run is."""
        return self._progress_with(self.turns, self.usage)

    @property
    def seconds_left(self) -> float | None:
        """Until the time is up; None where there is no limit."""
        limits = [limit.seconds for limit in self._limits if isinstance(limit, TimeLimit) and limit.seconds]
        return max(0.0, min(limits) - self._seconds()) if limits else None

    def add(self, usage: Usage | None) -> None:
        """Count an answer; None when the server sent no counts."""
        used = usage or Usage()
        self.usage = self.usage + used
        if self._caller is not None:
            self._caller.add_of_subagent(used, self._model.cost(used))

    def add_of_subagent(self, usage: Usage, cost: float | None) -> None:
        """Count an answer that a sub-agent got."""
        self._of_subagents = self._of_subagents + usage
        known = self._cost_of_subagents is not None and cost is not None
        self._cost_of_subagents = (self._cost_of_subagents or 0.0) + (cost or 0.0) if known else None
        if self._caller is not None:
            self._caller.add_of_subagent(usage, cost)

    def stop_aside(self, used: Usage | None = None) -> StopRun | None:
        """Why nothing more may be asked, or answered, within this turn, which has begun; None when it may.

        Args:
            used: what an answer has used that is still coming in; None where there is none, or it does not say.
        """
        progress = self._progress_with(self.turns - 1, self.usage + (used or Usage()))
        return next((stop for limit in self._limits if (stop := limit.exceeded(progress)) is not None), None)

    def _progress_with(self, turns: int, usage: Usage) -> RunProgress:
        """With a caller's tokens, price and time where there is one: they are one budget."""
        if self._caller is None:
            total = usage + self._of_subagents
            return RunProgress(turns=turns, usage=total, cost=self._cost_with(usage), seconds=self._seconds())
        whole, more = self._caller.progress, usage.minus(self.usage)
        cost, of_more = whole.cost, self._model.cost(more)
        return RunProgress(
            turns=turns,
            usage=whole.usage + more,
            cost=None if cost is None or of_more is None else cost + of_more,
            seconds=whole.seconds,
        )

    def _cost_with(self, usage: Usage) -> float | None:
        own = self._model.cost(usage)
        return None if own is None or self._cost_of_subagents is None else own + self._cost_of_subagents

    def _seconds(self) -> float:
        return time.monotonic() - self._began - self._waited()


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
