"""Limits of a run (turns, price, tokens, time, denials) and its usage so far."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from vibe_jupyter.agent.middleware import Middleware, RunProgress, StopRun, TurnState, Verdict
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import ToolCall, Usage
from vibe_jupyter.safe_imports import without_working_folder

T = TypeVar("T")

MIN_TURNS = 1
MAX_TURNS = 200
DEFAULT_TURNS = 50  # requests to the model per run

DEFAULT_PRICE = 2.0  # US dollars per run

# Tokens sent and received per run, if calls run without approval and no limit is set
UNASKED_TOKENS: Final = 10_000_000
UNASKED_SECONDS: Final = 3_600.0  # per run in that case

LOOK: Final = 0.05  # Minimum seconds between two checks of the time limit. The clock pauses while waiting for the user.

MAX_EQUAL: Final = 3  # denials of calls that do the same
MAX_UNATTENDED: Final = 5  # consecutive denials of any calls, if no user is present to approve one of them


class LimitExceeded(Exception):
    """Raised when work in progress exceeds a limit of the run."""

    def __init__(self, stop: StopRun) -> None:
        super().__init__(stop.notice)
        self.stop = stop


class RunLimit(Middleware):
    """Limit that applies before each request and while a response streams in."""

    def exceeded(self, progress: RunProgress) -> StopRun | None:
        """Return why the run may not continue, or None if it may."""
        raise NotImplementedError

    def before_turn(self, state: TurnState) -> Verdict | None:
        return self.exceeded(state.progress)


class TurnLimit(RunLimit):
    """Limit on the requests of a run, clamped to 1-200."""

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
    """Limit on the price of a run in US dollars. No limit at 0, or if the prices of the model are unknown."""

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
    """Limit on the tokens of a run, sent and received together. No limit at 0."""

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
    """Limit on the duration of a run in seconds, excluding time spent waiting for the user. No limit at 0."""

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
    """Usage of the model server, by the agent and on behalf of others. Engine loop only."""

    def __init__(
        self,
        model: Model,
        middleware: Sequence[Middleware],
        *,
        waited: Callable[[], float] = _no_wait,
        caller: "Budget | None" = None,
    ) -> None:
        """Start counting, including the time.

        Args:
            model: defines the prices.
            middleware: the limits in it also apply while a response streams in.
            waited: returns the seconds spent waiting for the user.
            caller: for a sub-agent, the budget of the calling run: tokens and price also count there, and its limits
                apply.
        """
        self.turns = 0
        self.usage = Usage.model_construct()
        self._model = model
        self._limits = [one for one in middleware if isinstance(one, RunLimit)]
        self._began = time.monotonic()
        self._waited = waited
        self._caller = caller
        self._is_time_up = False
        self._of_subagents = Usage()
        self._cost_of_subagents: float | None = 0.0  # None if the prices of one of their models are unknown

    @property
    def total(self) -> Usage:
        """Tokens so far, including those of sub-agents."""
        return self.usage + self._of_subagents

    @property
    def cost(self) -> float | None:
        """US dollars so far, including sub-agents. None if the prices of a model are unknown."""
        return self._cost_with(self.usage)

    @property
    def progress(self) -> RunProgress:
        """Usage so far, for the limits and other middleware."""
        return self._progress_with(self.turns, self.usage)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time limit. None if there is no limit."""
        limits = [limit.seconds for limit in self._limits if isinstance(limit, TimeLimit) and limit.seconds]
        return max(0.0, min(limits) - self._seconds()) if limits else None

    @property
    def is_time_up(self) -> bool:
        """True if work was cancelled because this run or its caller is out of time. Thread-safe."""
        return self._is_time_up or (self._caller is not None and self._caller.is_time_up)

    async def within_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work and return its result. The work is cancelled when the time is up.

        Raises:
            LimitExceeded: the time is up, and the work has ended.
        """
        if self.seconds_left is None:
            return await work
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=max(LOOK, self.seconds_left))
                # The clock pauses while waiting for the user, so the time may not be up yet.
                if not task.done() and (stop := self._out_of_time()) is not None:
                    self._is_time_up = True
                    raise LimitExceeded(stop)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        return task.result()

    def _out_of_time(self) -> StopRun | None:
        limits = (limit for limit in self._limits if isinstance(limit, TimeLimit))
        return next((stop for limit in limits if (stop := limit.exceeded(self.progress)) is not None), None)

    def add(self, usage: Usage | None) -> None:
        """Count an answer. `usage` is None if the server sent no counts."""
        used = usage or Usage()
        self.usage = self.usage + used
        if self._caller is not None:
            self._caller.add_of_subagent(used, self._model.cost(used))

    def add_of_subagent(self, usage: Usage, cost: float | None) -> None:
        """Count an answer to a sub-agent."""
        self._of_subagents = self._of_subagents + usage
        known = self._cost_of_subagents is not None and cost is not None
        self._cost_of_subagents = (self._cost_of_subagents or 0.0) + (cost or 0.0) if known else None
        if self._caller is not None:
            self._caller.add_of_subagent(usage, cost)

    def stop_aside(self, used: Usage | None = None) -> StopRun | None:
        """Return why no further request or output is allowed within the current turn, or None if it is.

        Args:
            used: usage of a response that is still streaming; None if there is none, or if it is unknown.
        """
        # Excluding the current turn, which the turn limit has already admitted.
        progress = self._progress_with(self.turns - 1, self.usage + (used or Usage()))
        return next((stop for limit in self._limits if (stop := limit.exceeded(progress)) is not None), None)

    def _progress_with(self, turns: int, usage: Usage) -> RunProgress:
        """Return the progress of the whole budget, which a sub-agent shares with its caller."""
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
    """Counter of denied calls in one run."""

    def __init__(self, is_alone: Callable[[], bool]) -> None:
        self._is_alone = is_alone
        self._of_equal_calls: dict[tuple[str, str], int] = {}
        self._in_a_row = 0

    def note(self, call: ToolCall, *, denied: bool) -> None:
        """Record whether a call was denied."""
        if not denied:
            self._in_a_row = 0
            return
        with without_working_folder():
            from vibe_jupyter.agent.equal_calls import deed_of  # noqa: PLC0415 - few runs deny anything
        self._in_a_row += 1
        key = (call.name, deed_of(call))
        self._of_equal_calls[key] = self._of_equal_calls.get(key, 0) + 1

    @property
    def are_enough(self) -> bool:
        """True if the run must end."""
        equal = any(count >= MAX_EQUAL for count in self._of_equal_calls.values())
        return equal or (self._is_alone() and self._in_a_row >= MAX_UNATTENDED)
