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
        """Its source, empty if it has no number; None until a cell ran inside it."""
        self._raised = False
        """Whether the count was raised when it began."""

    def before_inner(self) -> None:
        """A cell with a number of its own is about to run inside."""
        if self._raw is not None:
            return
        shell = self._shell
        # IPython keeps the source of cell N as `_iN`; the lists may be shorter, since ``exit`` is not stored.
        self._raised = f"_i{shell.execution_count}" not in shell.user_ns
        self._raw = shell.history_manager.input_hist_raw[-1] if self._is_numbered() else ""
        if not self._raised:
            shell.execution_count += 1

    def end(self) -> None:
        """The outer cell is about to end: give it the number after those of the cells inside."""
        raw, self._raw = self._raw, None
        if not raw:
            return
        self._shell.history_manager.store_inputs(self._shell.execution_count, raw, raw)
        if self._raised:
            self._shell.execution_count += 1

    @property
    def number(self) -> int | None:
        """What it will be called; final once the run in it has ended. None for a cell without a number."""
        if not self._is_numbered():
            return None
        count: int = self._shell.execution_count
        return count if f"_i{count}" in self._shell.user_ns else count - 1

    def _is_numbered(self) -> bool:
        """Whether the outer cell itself has a number; what a front end asks silently has none."""
        content = self._shell.get_parent().get("content", {})
        return bool(content.get("store_history", True)) and not content.get("silent", False)
