"""Stop a run that makes too many requests (seed 001, Middleware Pipeline)."""

from vibe_jupyter.agent.middleware import Progress, Stop

MIN_TURNS = 1
MAX_TURNS = 200
DEFAULT_TURNS = 50
"""Requests to the model in one run."""


class TurnLimit:
    """Ends the run before request number `turns` + 1; the limit is clamped to 1-200 (seed 004)."""

    def __init__(self, turns: int = DEFAULT_TURNS) -> None:
        self.turns = max(MIN_TURNS, min(turns, MAX_TURNS))

    def before_turn(self, progress: Progress) -> Stop | None:
        if progress.turns < self.turns:
            return None
        plural = "" if self.turns == 1 else "s"
        return Stop(
            reason="turn_limit",
            notice=f"Stopped at the limit of {self.turns} turn{plural}. "
            "Say what is missing in another %%vibe cell, or give --max-turns more.",
        )
