"""What a run has used so far, and whether it may use more."""

from collections.abc import Sequence

from vibe_jupyter.agent.middleware import Middleware, Progress, Stop
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import Usage


class Budget:
    """Counts what the model's server was asked, by the agent and on behalf of others. Engine loop only."""

    def __init__(self, model: Model, rules: Sequence[Middleware]) -> None:
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

    def stop(self) -> Stop | None:
        """Why the next turn may not begin; None when it may."""
        return self._stop(self.turns, self.usage)

    def stop_aside(self, used: Usage | None = None) -> Stop | None:
        """Why nothing more may be asked, or answered, within this turn, which has begun; None when it may.

        Args:
            used: what an answer has used that is still coming in; None where there is none, or it does not say.
        """
        return self._stop(self.turns - 1, self.usage + (used or Usage()))

    def _stop(self, turns: int, usage: Usage) -> Stop | None:
        progress = Progress(turns=turns, usage=usage, cost=self._model.cost(usage))
        return next((stop for rule in self._rules if (stop := rule.before_turn(progress)) is not None), None)
