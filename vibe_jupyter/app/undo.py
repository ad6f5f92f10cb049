"""Undoing a run: its cells by the page, its files and variables in place, and what the model hears of it.

What else code and commands did stays as it is: files they wrote, which are named, and requests they sent.
"""

import concurrent.futures
import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.sessions import KernelSessions
from vibe_jupyter.config.toml_file import vibe_home
from vibe_jupyter.errors import ConfigError, JournalError, NotebookError, ToolError
from vibe_jupyter.files.truncation import section
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import Change
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.session.conversation import title_of
from vibe_jupyter.session.snapshots import RunChanges, RunSnapshots, Snapshots
from vibe_jupyter.ui.run_output import UndoableRun

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.session.undo_plan import UndoPlan
    from vibe_jupyter.variables.kept import KeptVariables

EDIT_WAIT: Final = 30.0
"""Seconds in which a page tells its cells and changes them."""
RUNS_KEPT: Final = 5
"""Runs of which variables are kept, in memory."""
FILES_NAMED: Final = 20
"""Files that were written while a run was active and stay as they are."""
NO_RUN: Final = "No run of this conversation changed a cell, file or variable."
_NOT_KEPT: Final = "Nothing is kept of this conversation ([session_logging] enabled = false), so nothing can be undone."


class UndoResult(NamedTuple):
    """What became of it."""

    restored: Sequence[str]
    lost: Sequence[str]
    """What stays as it is, and why."""


class CodeOfRuns:
    """Keeps the variables that code of a run may change, between the run's beginning and its end. Main thread only."""

    def __init__(self, shell: InteractiveShell, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._shell = shell
        self._namespace = namespace
        self._bound: dict[str, object] = cast("Any", shell).user_ns
        self._runs: dict[tuple[str, int], KeptVariables] = {}
        """By conversation and number, the latest last: of runs whose code may have changed any."""
        self._present: tuple[str, int] | None = None
        """The run that has begun."""
        self._named: set[str] = set()
        """Variables of the present run that `newly_lost` has named."""
        self._process = os.getpid()

    @property
    def ipython_folder(self) -> str:
        """Where IPython writes its history."""
        return str(cast("Any", self._shell).ipython_dir)

    def begin(self, conversation: str, number: int) -> None:
        """A run begins: its code is looked at."""
        if self._present is None:
            self._shell.events.register("pre_run_cell", self._before_code)
        self._present = (conversation, number)
        self._runs.pop(self._present, None)
        self._named.clear()

    def end(self) -> tuple[str, ...]:
        """It is over; gives the variables that its code changed."""
        present, self._present = self._present, None
        if present is None:
            return ()
        self._shell.events.unregister("pre_run_cell", self._before_code)
        return self._runs[present].end_run() if present in self._runs else ()

    def not_undone(self, code: str) -> Mapping[str, str]:
        """Variables that this code may reach and that undo would not restore, each with the reason; none where nothing
        is kept of the present run."""
        return self._kept(self._present).not_undone(code) if self._present is not None else {}

    def newly_lost(self) -> Sequence[str]:
        """Variables that code of the present run may have changed and that undo would not restore, each once."""
        if self._present not in self._runs:
            return ()
        names = [name for name in self._runs[self._present].lost if name not in self._named]
        self._named.update(names)
        return names

    def keep_all(self) -> None:
        """Whatever happens to variables now, undoing the present run restores them."""
        if self._present is not None:
            self._kept(self._present).before_code(" ".join(self._namespace()))

    def of(self, conversation: str, number: int) -> "KeptVariables | None":
        """Those of a run; None where the kernel did not run it, or keeps it no longer."""
        return self._runs.get((conversation, number))

    def _before_code(self, info: object) -> None:
        if self._present is None or os.getpid() != self._process:  # in a copy of the kernel nothing stays
            return
        self._kept(self._present).before_code(str(getattr(info, "raw_cell", "")))

    def _kept(self, run: tuple[str, int]) -> "KeptVariables":
        """Made when the first code of a run comes: most first prompts run none before the request."""
        if run not in self._runs:
            with without_working_folder():
                from vibe_jupyter.sandbox.availability import is_memory_short
                from vibe_jupyter.variables.kept import KeptVariables

            while len(self._runs) >= RUNS_KEPT or (self._runs and is_memory_short()):
                del self._runs[next(iter(self._runs))]
            self._runs[run] = KeptVariables(self._namespace, self._bound)
        return self._runs[run]


class KernelUndo:
    """One for a kernel. Main thread only."""

    def __init__(
        self,
        engine: Engine,
        sessions: KernelSessions,
        workspace: Workspace,
        notebook: "NotebookAccess | None",
        code: CodeOfRuns,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._workspace = workspace
        self._notebook = notebook
        self.code = code
        self._begun: tuple[int, str] | None = None
        """Number and prompt of the present run."""
        self._spans: dict[tuple[str, int], tuple[float, float]] = {}
        """When a run of this kernel began and ended, in seconds since 1970, by its conversation's folder and number."""

    def begin(self, prompt: str) -> RunSnapshots | None:
        """A run of the open conversation begins, which the cells that it writes name.

        Gives what keeps its changes; None where nothing is kept.

        Args:
            prompt: without secrets.
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
        """The run that has begun; None where nothing is kept of it."""
        conversation = self._sessions.conversation
        if self._begun is None or conversation is None:
            return None
        return UndoableRun(conversation.id, self._begun[0])

    def end_run(self) -> None:
        """The run is over: what its code changed can be undone from now on."""
        begun, self._begun = self._begun, None
        changed, folder = self.code.end(), self._sessions.folder
        if begun is not None and (span := self._spans.get((str(folder), begun[0]))) is not None:
            self._spans[str(folder), begun[0]] = (span[0], time.time())
        if begun is not None and changed and folder is not None:
            with contextlib.suppress(JournalError):  # it is said where something is to be undone
                Snapshots(folder).note_variables(*begun, changed)

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

    def plan(self, number: int | None) -> "UndoPlan":
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
        """What undoing this run takes now.

        Raises:
            ConfigError: it is of another conversation, or `plan` has no such run.
            NotebookError: as `plan`.
        """
        conversation = self._sessions.conversation
        if conversation is None or conversation.id != run.conversation:
            raise ConfigError(
                f"The run belongs to another conversation. %vibe resume {run.conversation} continues it, "
                f"%vibe undo {run.number} then undoes the run."
            )
        return self.plan(run.number)

    def put_back_variables(self, number: int) -> UndoResult:
        """Those that code of a run and of all since changed, as they were before it; the present run keeps them."""
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
        """A sentence on what code and commands wrote in the last run, where it changed nothing else; empty for none."""
        numbers = [number for folder, number in self._spans if folder == str(self._sessions.folder)]
        written = self._written_in([max(numbers)], ()) if numbers else ""
        return f" Not restored: {written}." if written else ""

    def written_since(self, number: int) -> str:
        """Files that code and commands wrote in a run and all since, in words; empty for none. Any thread."""
        return self.written_by_code([run for run in self.runs() if run.number >= number and not run.undone])

    def written_by_code(self, runs: Sequence[RunChanges]) -> str:
        """Files that code and commands wrote in these runs, in words; empty for none. They stay. Any thread."""
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
        """Put back what was there.

        A run of which a file could not be put back stays to be undone.

        Raises:
            NotebookError: the cells cannot be changed; nothing was undone.
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
    """In words for the user: what the system said, where it was the system."""
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
