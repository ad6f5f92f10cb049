"""Stop a run that costs too much (seed 001, Middleware Pipeline)."""

from vibe_jupyter.agent.middleware import Progress, Stop

DEFAULT_PRICE = 2.0
"""US dollars for one run."""


class PriceLimit:
    """Ends the run before the next request once it has cost more than `dollars`; never where prices are not known, and
    never at a limit of 0."""

    def __init__(self, dollars: float = DEFAULT_PRICE) -> None:
        self._dollars = dollars

    def before_turn(self, progress: Progress) -> Stop | None:
        if not self._dollars or progress.cost is None or progress.cost <= self._dollars:
            return None
        return Stop(
            reason="price_limit",
            notice=f"Stopped: the run has cost ${progress.cost:.2f}, and the limit of one run is ${self._dollars:.2f}. "
            "Go on in another %%vibe cell, or set max_price in config.toml (0 for no limit).",
        )
