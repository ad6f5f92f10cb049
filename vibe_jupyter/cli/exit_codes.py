"""Exit codes of `vibe-jupyter`, one for each reason."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vibe_jupyter.protocol import FinishReason

DONE: Final = 0
CELL_FAILED: Final = 1  # a cell of a notebook, or anything else that failed outside of a run
USAGE: Final = 2
AGENT_FAILED: Final = 3
TURN_LIMIT: Final = 4
PRICE_LIMIT: Final = 5
TOKEN_LIMIT: Final = 6
TIME_LIMIT: Final = 7
INTERRUPTED: Final = 130

EXIT_CODES: Final = """\
exit codes of run and ask: 0 done, 1 a cell failed, 2 wrong usage or settings, 3 the agent did not finish,
4 it reached the limit of turns, 5 of the price, 6 of tokens, 7 of time, 130 interrupted. Whatever happens,
the cells that ran are saved with their outputs."""

_OF_REASONS: Final[Mapping["FinishReason", int]] = MappingProxyType(
    {
        "stop": DONE,
        "turn_limit": TURN_LIMIT,
        "price_limit": PRICE_LIMIT,
        "token_limit": TOKEN_LIMIT,
        "time_limit": TIME_LIMIT,
        "interrupted": INTERRUPTED,
    }
)


def exit_code(reason: "FinishReason") -> int:
    """Return the exit code for a run's finish reason."""
    return _OF_REASONS.get(reason, AGENT_FAILED)
