"""Execution counts when cells run inside a running cell: every number once, `In` in line with it.

IPython 9.18 raises the count when a cell begins, IPython 8 when it ends. Either way the outer cell gets a new, last
number once cells ran inside it.
"""

from typing import Any, cast


class OuterCell:
    """The cell that runs now, seen from inside. Main thread only."""

    def __init__(self, shell: object) -> None:
        self._shell = cast(Any, shell)
        self._raw: str | None = None
        """Its source; None until a cell ran inside it."""
        self._raised = False
        """Whether the count was raised when it began."""

    def before_inner(self) -> None:
        """A cell with a number of its own is about to run inside."""
        if self._raw is not None:
            return
        stored: list[str] = self._shell.history_manager.input_hist_raw
        number = len(stored) - 1
        self._raw = stored[-1]
        self._raised = self._shell.execution_count > number
        if not self._raised:
            self._shell.execution_count = number + 1

    def end(self) -> None:
        """The outer cell is about to end: give it the number after those of the cells inside."""
        if self._raw is None:
            return
        self._shell.history_manager.store_inputs(self._shell.execution_count, self._raw, self._raw)
        if self._raised:
            self._shell.execution_count += 1
        self._raw = None
