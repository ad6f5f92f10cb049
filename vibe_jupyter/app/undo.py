"""Undoing a run: the page restores its cells, the kernel its files and variables, and the model is informed.

Other effects of code and commands remain: files they wrote, which are listed, and requests they sent.
"""

import concurrent.futures
import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.app.sessions import KernelSessions
from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.config.toml_file import vibe_home
from vibe_jupyter.errors import ConfigError, JournalError, NotebookError, ToolError
from vibe_jupyter.files.truncation import section
from vibe_jupyter.protocol import Change
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.session.conversation import title_of
from vibe_jupyter.session.snapshots import RunChanges, RunSnapshots, Snapshots
from vibe_jupyter.ui.run_output import UndoableRun

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.session.undo_plan import UndoPlan
    from vibe_jupyter.variables.kept import KeptVariables

EDIT_WAIT: Final = 30.0  # seconds for the page to send its cells and change them
RUNS_KEPT: Final = 5  # number of runs whose variables are retained in memory
FILES_NAMED: Final = 20  # files listed that were written during a run and remain
NO_RUN: Final = "No run of this conversation changed a cell, file or variable."
_NOT_KEPT: Final = "Nothing is kept of this conversation ([session_logging] enabled = false), so nothing can be undone."


class UndoResult(NamedTuple):
    """Outcome of undoing a run."""

    restored: Sequence[str]
    lost: Sequence[str]  # what remains, each with the reason


class CodeOfRuns:
    """Snapshots of variables that a run's code may change, from the run's start to its end. Main thread only."""

    def __init__(self, shell: InteractiveShell, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._shell = shell
        self._namespace = namespace
        self._bound: dict[str, object] = cast("Any", shell).user_ns
        # Snapshots of runs whose code may have changed variables, by conversation and run number, oldest first.
        self._runs: dict[tuple[str, int], KeptVariables] = {}
        self._present: tuple[str, int] | None = None  # the active run
        self._named: set[str] = set()  # variables of the active run already returned by `newly_lost`
        self._process = os.getpid()

    @property
    def ipython_folder(self) -> str:
        return str(cast("Any", self._shell).ipython_dir)

    def begin(self, conversation: str, number: int) -> None:
        """Watch the code of a run that begins."""
        if self._present is None:
            self._shell.events.register("pre_run_cell", self._before_code)
        self._present = (conversation, number)
        self._runs.pop(self._present, None)
        self._named.clear()

    def end(self) -> tuple[str, ...]:
        """Stop watching. Returns the variables that the run's code changed."""
        present, self._present = self._present, None
        if present is None:
            return ()
        self._shell.events.unregister("pre_run_cell", self._before_code)
        return self._runs[present].end_run() if present in self._runs else ()

    def not_undone(self, code: str) -> Mapping[str, str]:
        """Return variables that this code may change and undo wouldn't restore, each with the reason.

        Empty if the active run isn't recorded.
        """
        return self._kept(self._present).not_undone(code) if self._present is not None else {}

    def newly_lost(self) -> Sequence[str]:
        """Return variables that the active run may have changed and undo wouldn't restore. Returns each one once."""
        if self._present not in self._runs:
            return ()
        names = [name for name in self._runs[self._present].lost if name not in self._named]
        self._named.update(names)
        return names

    def keep_all(self) -> None:
        """Snapshot all variables, so that undoing the active run restores them whatever changes them."""
        if self._present is not None:
            self._kept(self._present).before_code(" ".join(self._namespace()))

    def of(self, conversation: str, number: int) -> "KeptVariables | None":
        """Return the snapshot of a run, or None if this kernel didn't run it or has dropped it."""
        return self._runs.get((conversation, number))

    def _before_code(self, info: object) -> None:
        if self._present is None or os.getpid() != self._process:  # changes in a forked copy are discarded anyway
            return
        self._kept(self._present).before_code(str(getattr(info, "raw_cell", "")))

    def _kept(self, run: tuple[str, int]) -> "KeptVariables":
        """Return the run's snapshot, created at its first code: most first prompts run none before the request."""
        if run not in self._runs:
            with without_working_folder():
                from vibe_jupyter.sandbox.availability import is_memory_short
                from vibe_jupyter.variables.kept import KeptVariables

            while len(self._runs) >= RUNS_KEPT or (self._runs and is_memory_short()):
                del self._runs[next(iter(self._runs))]
            self._runs[run] = KeptVariables(self._namespace, self._bound)
        return self._runs[run]


class KernelUndo:
    """Undo of one kernel's runs. Main thread only."""

    def __init__(self, kernel: Kernel, sessions: KernelSessions, code: CodeOfRuns) -> None:
        self._engine = kernel.engine
        self._sessions = sessions
        self._workspace = kernel.workspace
        self._notebook = kernel.notebook
        self.code = code
        self._begun: tuple[int, str] | None = None  # number and prompt of the active run
        # Start and end of this kernel's runs in seconds since 1970, by conversation folder and run number.
        self._spans: dict[tuple[str, int], tuple[float, float]] = {}

    def begin(self, prompt: str) -> RunSnapshots | None:
        """Start recording a run, and mark the cells that it writes with it.

        Returns the recorder of its changes, or None if nothing is recorded.

        Args:
            prompt: The redacted prompt.
        """
        folder = self._sessions.folder
        title = title_of(prompt)
        snapshots = Snapshots(folder).begin(title) if folder is not None else None
        if self._notebook is not None:
            conversation, number = self._sessions.conversation, snapshots.number if snapshots is not None else None
            self._notebook.cells.recorder = snapshots
            self._notebook.sign(self._notebook.cells, conversation.id if conversation is not None else "", number)
        if snapshots is not None:
            self._begun = (snapshots.number, title)
            self._spans[str(folder), snapshots.number] = (time.time(), math.inf)
            self.code.begin(str(folder), snapshots.number)
        return snapshots

    @property
    def present(self) -> UndoableRun | None:
        """The active run, or None if it isn't recorded."""
        conversation = self._sessions.conversation
        if self._begun is None or conversation is None:
            return None
        return UndoableRun(conversation.id, self._begun[0])

    def end_run(self) -> None:
        """Stop recording. From now on, the variables that the run changed can be restored."""
        begun, self._begun = self._begun, None
        changed, folder = self.code.end(), self._sessions.folder
        if begun is not None and (span := self._spans.get((str(folder), begun[0]))) is not None:
            self._spans[str(folder), begun[0]] = (span[0], time.time())
        if begun is not None and changed and folder is not None:
            with contextlib.suppress(JournalError):  # reported when the user undoes something
                Snapshots(folder).note_variables(*begun, changed)

    def report(self) -> str:
        """Return the section on undone runs for the next prompt, or "" without any."""
        folder = self._sessions.folder
        if folder is None:
            return ""
        snapshots = Snapshots(folder)
        told = [run for run in snapshots.runs() if run.undone and not run.told]
        for run in told:
            snapshots.mark(run.number, "told")
        return section("undone", "\n".join(map(_told_words, told))) if told else ""

    def runs(self) -> list[RunChanges]:
        """Return the runs of the open conversation that changed something, oldest first.

        Raises:
            ConfigError: No conversation is open, or it isn't recorded.
        """
        if self._sessions.conversation is None:
            raise ConfigError("No conversation is open yet. %vibe resume continues a saved one.")
        if self._sessions.folder is None:
            raise ConfigError(_NOT_KEPT)
        return Snapshots(self._sessions.folder).runs()

    def plan(self, number: int | None) -> "UndoPlan":
        """Plan undoing a run, by default the latest that hasn't been undone.

        Raises:
            ConfigError: There is no such run.
            NotebookError: A run is active, or the notebook doesn't send its cells.
        """
        runs = self.runs()
        left = [run for run in runs if not run.undone and number in (None, run.number)]
        if not left:
            if any(run.number == number for run in runs):
                raise ConfigError(f"Run {number} was undone already.")
            there_are = "%vibe undo list shows them." if runs else NO_RUN
            raise ConfigError(
                f"There is no run {number} to undo. {there_are}"
                if number
                else f"Nothing to undo. {there_are}{self._written_last()}"
            )
        from vibe_jupyter.session.undo_plan import plan_undo

        run = left[-1]
        cells = ()
        if (run.cells or run.moved) and self._notebook is not None:
            self._notebook.cells.resume()
            try:
                cells = self._engine.submit(self._notebook.cells.reads.listing()).result(EDIT_WAIT).cells
            except (ToolError, concurrent.futures.TimeoutError) as error:
                raise NotebookError(f"Nothing was undone: the notebook does not answer. {error}") from error
        plan = plan_undo(run, cells)
        self._plan_variables(plan)
        written = self.written_by_code([run])
        plan.lost += [written] if written else []
        return plan

    def plan_of(self, run: UndoableRun) -> "UndoPlan":
        """Plan undoing this run.

        Raises:
            ConfigError: It belongs to another conversation, or there is no such run.
            NotebookError: A run is active, or the notebook doesn't send its cells.
        """
        conversation = self._sessions.conversation
        if conversation is None or conversation.id != run.conversation:
            raise ConfigError(
                f"The run belongs to another conversation. %vibe resume {run.conversation} continues it, "
                f"%vibe undo {run.number} then undoes the run."
            )
        return self.plan(run.number)

    def put_back_variables(self, number: int) -> UndoResult:
        """Restore variables changed by a run and all later ones. The active run records this like its own change."""
        self.code.keep_all()
        restored, lost = dict[str, None](), list[str]()
        for run in reversed([run for run in self.runs() if run.number >= number and not run.undone and run.variables]):
            kept = self.code.of(str(self._sessions.folder), run.number)
            lost += _lost_variables(run, kept)
            restored |= dict.fromkeys(kept.restore() if kept is not None else ())
        return UndoResult(list(restored), list(dict.fromkeys(lost)))

    def _plan_variables(self, plan: "UndoPlan") -> None:
        run, names = plan.run, plan.run.variables
        if not names:
            return
        kept = self.code.of(str(self._sessions.folder), run.number)
        plan.lost += _lost_variables(run, kept)
        if kept is None:
            return
        plan.changed_since += kept.changed_since
        plan.restored += [name for name in names if name not in kept.lost]

    def _written_last(self) -> str:
        """Return a sentence on files written by code or commands in the last run, or "".

        Used if it changed nothing else.
        """
        numbers = [number for folder, number in self._spans if folder == str(self._sessions.folder)]
        written = self._written_in([max(numbers)], ()) if numbers else ""
        return f" Not restored: {written}." if written else ""

    def written_since(self, number: int) -> str:
        """Describe files written by code or commands in a run and all later ones, or return "". Thread-safe."""
        return self.written_by_code([run for run in self.runs() if run.number >= number and not run.undone])

    def written_by_code(self, runs: Sequence[RunChanges]) -> str:
        """Describe files written by code or commands in these runs, which undo leaves alone, or return "".

        Thread-safe.
        """
        by_tools = [file.name for run in runs for file in run.files.values()]
        return self._written_in([run.number for run in runs], by_tools)

    def _written_in(self, numbers: Sequence[int], by_tools: Sequence[str]) -> str:
        folder = str(self._sessions.folder)
        spans = [self._spans[folder, number] for number in numbers if (folder, number) in self._spans]
        if not spans:
            return ""
        from vibe_jupyter.files.written import written_between

        own = [os.path.realpath(folder) for folder in (str(vibe_home(os.environ)), self.code.ipython_folder)]
        found = {name for span in spans for name in written_between(self._workspace.root, *span, own)}
        names = sorted(found.difference(by_tools))
        more = f" and {len(names) - FILES_NAMED} more" if len(names) > FILES_NAMED else ""
        during = "the run" if len(numbers) == 1 else "these runs"
        return f"{', '.join(names[:FILES_NAMED])}{more}: written during {during}, by code or a command" if names else ""

    def carry_out(self, plan: "UndoPlan") -> UndoResult:
        """Undo a run as planned. If a file can't be restored, the run can be undone again.

        Raises:
            NotebookError: The cells can't be changed; nothing was undone.
        """
        from vibe_jupyter.files.access import FileAccess

        folder = self._sessions.folder
        assert folder is not None
        if plan.edits and self._notebook is not None:
            self._put_back_cells(plan, self._notebook)
        number, failed = plan.run.number, list[str]()
        files = FileAccess(self._workspace)
        for file in plan.files:
            try:
                files.restore(file.path, file.content())
            except (OSError, ToolError) as error:
                failed.append(f"{file.name}: {_reason(error)} (%vibe undo {number} tries again)")
        kept = self.code.of(str(folder), number)
        if kept is not None:
            kept.restore()
        lost = [*plan.lost, *failed]
        restored = plan.restored_without(lost)
        if not failed:
            try:
                Snapshots(folder).mark(number, "undone")
            except JournalError as error:
                lost.append(f"the note of it, so the model is not told: {_reason(error)}")
        return UndoResult(restored, lost)

    def _put_back_cells(self, plan: "UndoPlan", notebook: "NotebookAccess") -> None:
        from vibe_jupyter.notebook.document import EditUnsure

        unsure = NotebookError(
            "The notebook's page does not answer: its cells may change yet. Files and variables are as they were; "
            f"%vibe undo {plan.run.number} does the rest."
        )
        try:
            done = self._engine.submit(notebook.cells.edit(*plan.edits, undoes=True)).result(EDIT_WAIT)
        except concurrent.futures.TimeoutError as error:
            raise unsure from error
        except ToolError as error:
            if isinstance(error.__cause__, EditUnsure):
                raise unsure from error
            raise NotebookError(f"Nothing was undone: {error}") from error
        if done.may_come:
            raise unsure
        if done.outcome != "done":
            raise NotebookError("Nothing was undone: no page shows the notebook. Open it in JupyterLab and try again.")


def _reason(error: Exception) -> str:
    """Describe an error for the user, by the operating system's message if it has one."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return cause.strerror or str(cause) if isinstance(cause, OSError) else str(cause)


def _lost_variables(run: RunChanges, kept: "KeptVariables | None") -> list[str]:
    if kept is None:
        kept_for = f"variables are kept for the last {RUNS_KEPT} runs of a kernel, fewer where memory is short"
        return [f"{', '.join(run.variables)}: {kept_for}"]
    return [f"{name}: {why}" for name, why in kept.lost.items()]


def _told_words(run: RunChanges) -> str:
    variables = [f"variable {name}" for name in run.variables]
    changed = ", ".join((*map(_told_change, run.changes), *variables))
    return (
        f"The user undid what your run for the prompt {run.prompt!r} changed: {changed}. These are as they were before "
        "it; outputs are not. Read them again before you change them, and do not repeat the change "
        "unasked."
    )


def _told_change(change: Change) -> str:
    return f"{change.kind} {change.name} ({change.what})"
