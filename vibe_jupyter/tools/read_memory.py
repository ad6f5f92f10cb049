"""Which files the agent has read, and in which state: what changed since is not replaced unseen (security C43)."""

import os
from pathlib import Path
from typing import Final

from vibe_jupyter.tools.fingerprint import of_status

REMEMBERED: Final = 1_000
"""Files; the longest unread is forgotten first."""


class ReadMemory:
    """One for all file tools of a kernel."""

    def __init__(self) -> None:
        self._states: dict[Path, str] = {}

    def saw(self, path: Path, status: os.stat_result) -> None:
        """The agent read the file, or wrote it, in this state."""
        self._states.pop(path, None)
        self._states[path] = of_status(status)
        if len(self._states) > REMEMBERED:
            del self._states[next(iter(self._states))]

    def is_stale(self, path: Path, state: str) -> bool:
        """Whether the file was read and is in another state now."""
        return self._states.get(path, state) != state
