"""What may be said of one prompt, and of the run that is open."""

import re
from dataclasses import dataclass

STOP_CELL = re.compile(r"\s*%vibe\s+stop\s*")
"""A whole cell that only asks for the end of the run; noticed while another cell's run is open."""

OPTION_NAMES = ("--model", "--agent", "--max-turns", "--yes")
AGENTS = ("default",)
"""Profiles that exist."""
TOUR = "tour"
"""Name of the scripted demonstration among the models."""


@dataclass(frozen=True)
class Options:
    """What was given on the magic's line."""

    model: str | None = None
    """None for the chosen one."""
    agent: str = "default"
    max_turns: int | None = None
    """None for the configured limit."""
    allowed: frozenset[str] = frozenset()
