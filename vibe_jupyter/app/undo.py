"""Undoing a run: its cells by the page, its files in place, and what the model hears of it.

Variables and what else code did stay as they are.
"""

import concurrent.futures
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.sessions import KernelSessions
from vibe_jupyter.errors import ConfigError, NotebookError, ToolError
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.truncation import section
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import Change
from vibe_jupyter.session.snapshots import RunChanges, RunSnapshots, Snapshots
from vibe_jupyter.session.store import title_of
from vibe_jupyter.session.undo_plan import UndoPlan, plan_undo

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess

EDIT_WAIT: Final = 30.0
"""Seconds in which a page tells its cells and changes them."""
_NOT_KEPT: Final = "Nothing is kept of this conversation ([session_logging] enabled = false), so nothing can be undone."


class UndoResult(NamedTuple):
    """What became of it."""

    restored: Sequence[str]
    lost: Sequence[str]
    """What stays as it is, and why."""


class KernelUndo:
    """One for a kernel. Main thread only."""

    def __init__(
        self, engine: Engine, sessions: KernelSessions, workspace: Workspace, notebook: "NotebookAccess | None"
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._workspace = workspace
        self._notebook = notebook

    def begin(self, prompt: str) -> RunSnapshots | None:
        """A run of the open conversation begins; gives what keeps its changes, None where nothing is kept.

        Args:
            prompt: without secrets.
        """
        folder = self._sessions.folder
        snapshots = Snapshots(folder).begin(title_of(prompt)) if folder is not None else None
        if self._notebook is not None:
            self._notebook.cells.recorder = snapshots
        return snapshots

    def report(self) -> str:
        """What is reported to the model with the next prompt; empty for nothing."""
        folder = self._sessions.folder
        if folder is None:
            return ""
        snapshots = Snapshots(folder)
        told = [run for run in snapshots.runs() if run.undone and not run.told]
        for run in told:
            snapshots.mark(run.number, "told")
        return section("undone", "\n".join(map(_told_words, told))) if told else ""

    def runs(self) -> list[RunChanges]:
        """Those of the open conversation that changed something, the latest last.

        Raises:
            ConfigError: there is no conversation, or nothing is kept of it.
        """
        if self._sessions.conversation is None:
            raise ConfigError("No conversation is open yet. %vibe resume continues a saved one.")
        if self._sessions.folder is None:
            raise ConfigError(_NOT_KEPT)
        return Snapshots(self._sessions.folder).runs()

    def plan(self, number: int | None) -> UndoPlan:
        """What undoing a run takes now; the latest that was not undone where no number is given.

        Raises:
            ConfigError: there is no such run.
            NotebookError: a run is open, or the notebook does not tell its cells.
        """
        runs = self.runs()
        left = [run for run in runs if not run.undone and number in (None, run.number)]
        if not left:
            if any(run.number == number for run in runs):
                raise ConfigError(f"Run {number} was undone already.")
            there_are = "%vibe undo list shows them." if runs else "No run of this conversation changed a cell or file."
            raise ConfigError(
                f"There is no run {number} to undo. {there_are}" if number else f"Nothing to undo. {there_are}"
            )
        run = left[-1]
        cells = ()
        if (run.cells or run.moved) and self._notebook is not None:
            self._notebook.cells.resume()
            try:
                cells = self._engine.submit(self._notebook.cells.reads.listing()).result(EDIT_WAIT).cells
            except (ToolError, concurrent.futures.TimeoutError) as error:
                raise NotebookError(f"Nothing was undone: the notebook does not answer. {error}") from error
        return plan_undo(run, cells)

    def carry_out(self, plan: UndoPlan) -> UndoResult:
        """Put back what was there.

        Raises:
            NotebookError: the cells cannot be changed; nothing was undone.
            JournalError: it cannot be noted.
        """
        folder = self._sessions.folder
        assert folder is not None
        if plan.edits and self._notebook is not None:
            try:
                done = self._engine.submit(self._notebook.cells.edit(*plan.edits, undoes=True)).result(EDIT_WAIT)
            except (ToolError, concurrent.futures.TimeoutError) as error:
                raise NotebookError(f"Nothing was undone: {error}") from error
            if done.outcome != "done":
                raise NotebookError(
                    "Nothing was undone: no page shows the notebook. Open it in JupyterLab and try again."
                )
        lost = list(plan.lost)
        files = FileAccess(self._workspace)
        for file in plan.files:
            try:
                files.restore(file.path, file.content())
            except (OSError, ToolError) as error:
                lost.append(f"{file.name}: {error}")
        restored = plan.restored_without(lost)
        Snapshots(folder).mark(plan.run.number, "undone")
        return UndoResult(restored, lost)


def _told_words(run: RunChanges) -> str:
    changed = ", ".join(_told_change(one) for one in run.changes)
    return (
        f"The user undid what your run for the prompt {run.prompt!r} changed: {changed}. These are as they were before "
        "it; variables and outputs are not. Read them again before you change them, and do not repeat the change "
        "unasked."
    )


def _told_change(change: Change) -> str:
    return f"{change.kind} {change.name} ({change.what})"
