"""How much of a run stays in the notebook. Apart from what renders it: settings are read before anything is shown."""

from dataclasses import dataclass
from typing import Final, Literal

Form = Literal["full", "summary", "none"]
"""All that was said and done; the answer and one line of steps; one line that a run was here."""


@dataclass(frozen=True)
class RunRetention:
    """What the kept form holds. The live view always shows everything."""

    form: Form = "full"
    times: bool = True
    """Whether seconds, tokens, price and retries stay. Without them the same run leaves the same bytes."""


EVERYTHING: Final = RunRetention()
