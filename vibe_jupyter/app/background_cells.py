"""Cells that keep running after a run ends, the card that shows their progress, and the run that continues from them.

The page sends their execute requests as it would for the user, and the kernel runs them in queue order. A comm message
of our own is queued behind them: once it arrives, each cell has either run or never will.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.errors import ToolError, VibeError
from vibe_jupyter.files.truncation import head_and_tail, section
from vibe_jupyter.kernel.interrupts import sigint_goes_to
from vibe_jupyter.kernel.main_thread import CellContext, ignore_interrupt
from vibe_jupyter.options import Options
from vibe_jupyter.protocol import Cell, ExecutionResult
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.background import time_text

if TYPE_CHECKING:
    from collections.abc import Generator

    from vibe_jupyter.kernel.later_calls import LaterCalls
    from vibe_jupyter.kernel.queued_runs import QueuedRun, QueuedRuns
    from vibe_jupyter.ui.background_card import BackgroundCard
    from vibe_jupyter.ui.cell_references import FindCell
    from vibe_jupyter.ui.front_end import RunRetention
    from vibe_jupyter.ui.page import ShownView

SHOWN: Final = 6_000  # characters of output, of all cells together, in the report to the model
DRAWN_WITHIN: Final = 1.0  # seconds that the end of a run waits for a page to draw the card
# The prompt of the continuing run.
GO_ON: Final = "The cells that you left in the background are done. Go on from there."
_NO_PAGE: Final = (
    "Nothing was queued: no page shows this notebook, so nobody would see the cells run. Run them without background."
)
_NOT_RUN: Final = "was not run: an error or ■ came before it"
_LEFT: Final = "{words} Left as it is; the next prompt reports it."
_STARTED_FIRST: Final = "{words} Reported with a later prompt."


@dataclass(eq=False, repr=False)
class BackgroundJob:
    """Cells that one run left in the background."""

    cell: CellContext  # context of the run's cell
    prompt_cell: str  # id of the run's cell
    options: Options
    redact: Callable[[str], str]
    queued: list[tuple[Cell, "QueuedRun"]] = field(default_factory=list[tuple[Cell, "QueuedRun"]])
    by_itself: bool = False  # True if the agent continues without a click
    awaited: int = 0  # messages queued behind its cells that haven't arrived yet
    card: "BackgroundCard | None" = None

    @property
    def is_over(self) -> bool:
        """True once each cell has run or never will."""
        return self.awaited == 0

    @property
    def state(self) -> str:
        """Status of the cells as one sentence for the user."""
        names = [f"#{cell.number}" for cell, _ in self.queued]
        called = f"Cell {names[0]}" if len(names) == 1 else f"Cells {', '.join(names)}"
        if not self.is_over:
            began = next((run.began for _, run in self.queued if run.began is not None), None)
            if began is None:
                return f"{called} {'is' if len(names) == 1 else 'are'} queued."
            return f"{called}: running for {time_text(time.monotonic() - began)}."
        results = self.results
        ran = [result for result in results if result is not None]
        if not ran:
            return f"{called} {'was' if len(names) == 1 else 'were'} not run: an error or ■ came before."
        seconds = time_text(sum(result.seconds for result in ran))
        for name, result in zip(names, results, strict=True):
            if result is not None and result.status != "ok":
                how = "was interrupted" if result.status == "interrupted" else f"failed: {_error_text(self, result)}"
                return f"Cell {name} {how} ({seconds})."
        if None in results:
            return f"{called}: {len(ran)} of {len(names)} finished after {seconds}, the rest was not run."
        return f"{called} finished after {seconds}."

    @property
    def results(self) -> list[ExecutionResult | None]:
        """Results of the cells, None for those that haven't finished."""
        return [run.result for _, run in self.queued]

    @property
    def may_go_on(self) -> bool:
        """True if at least one cell ran and the user interrupted none of them."""
        ran = [result for result in self.results if result is not None]
        return bool(ran) and not any(result.status == "interrupted" for result in ran)


class BackgroundCells:
    """Background cells of one kernel. Main thread, except for `queue` and `page_loaded`."""

    def __init__(self, kernel: Kernel) -> None:
        self._shell = kernel.shell
        self._engine = kernel.engine
        self._main_thread = kernel.main_thread
        self._host = kernel.host
        self._notebook = kernel.notebook
        self._presses = kernel.presses
        self.jobs: Sequence[BackgroundJob] = ()  # jobs whose end hasn't been reported to the model
        self.open_job: BackgroundJob | None = None  # job of the active run; None until it queues a cell
        self.options = Options()  # options of the active run
        self.going_on: BackgroundJob | None = None  # job that the active run continues from
        self._later: LaterCalls | None = None
        self._runs: QueuedRuns | None = None
        # Runs a prompt to completion; raises `VibeError`.
        self.go_on: Callable[[str, Options], object] = lambda _text, _options: None
        # Returns the retention settings, and a function that finds the cells an answer refers to.
        self.look: Callable[[], tuple[RunRetention, FindCell]] | None = None
        self.on_change: Callable[[], None] = lambda: None  # called when background cells have finished

    def end_run(self) -> None:
        """Show a card for the cells that the ending run left in the background, if any."""
        job, self.open_job = self.open_job, None
        if job is None or job.is_over or self._notebook is None:
            return
        with without_working_folder():
            from vibe_jupyter.ui import page
            from vibe_jupyter.ui.background_card import BackgroundCard

        if not page.can_show():
            return
        card = job.card = BackgroundCard(
            self._host.handled_message,
            on_continue=lambda: self._call_later(lambda: self._go_on_behind(job)),
            on_leave=lambda: self._call_later(lambda: self._close_card(job, _LEFT)),
        )
        card.open(job.state)
        self._engine.submit(card.tell(job.state))
        if self.going_on is not None:  # the cell ended earlier, so its page ignores further outputs from the kernel
            self._put_again(card.shown, job)
        # The page acknowledges the card on a comm, and comm messages wait in the queue behind the background cells:
        # wait for the acknowledgment now.
        self._main_thread.serve(self._engine.submit(card.is_drawn(within=DRAWN_WITHIN)), interrupt=lambda: None)

    async def queue(self, cells: Sequence[Cell], *, by_itself: bool, redact: Callable[[str], str]) -> None:
        """Queue cells behind everything that is already queued. Engine loop only.

        Raises:
            ToolError: No page shows the notebook, or it rejected a cell; the message lists the cells queued before.
        """
        notebook = self._notebook
        if notebook is None or not await notebook.look_again() or notebook.prompt_cell is None:
            raise ToolError(_NO_PAGE)
        job = await self._main_thread.call(lambda: self._open_job(str(notebook.prompt_cell), redact))
        job.by_itself = by_itself
        taken: list[str] = []
        try:
            for cell in cells:
                request = await notebook.cells.queue(cell)
                await self._main_thread.call(lambda cell=cell, request=request: self._watch(job, cell, request))
                taken.append(notebook.cells.reads.address(cell))
        except ToolError as error:
            raise ToolError(f"{error} Queued before it: {', '.join(taken)}." if taken else str(error)) from error
        finally:
            if taken:
                job.awaited += 1
                self._call_later(lambda: self._hear_end(job))

    def running(self) -> tuple[str, ...]:
        """Return the addresses of cells that haven't finished."""
        return tuple(
            self._name(cell)
            for job in self.jobs
            if not job.is_over
            for (cell, _), result in zip(job.queued, job.results, strict=True)
            if result is None
        )

    def lines(self) -> list[str]:
        """Return one status line per job for the user."""
        return [f"Background: {job.state}" for job in self.jobs]

    def report(self, *, schema_only: bool) -> str:
        """Return the section on background cells for the next prompt, or "" without any. Reports each end once.

        Args:
            schema_only: Whether to omit all values of the user's data.
        """
        told = self.jobs
        self.jobs = tuple(job for job in told if not job.is_over)
        for job in told:
            if job.is_over and job is not self.going_on:
                self._close_card(job, _STARTED_FIRST)
        texts = [self._report_text(job, schema_only=schema_only) for job in told]
        return section("background", "\n".join(texts)) if told else ""

    def page_loaded(self, view: "ShownView | None") -> bool:
        """Restore the cards, and the active run's view, after a page was loaded. Thread-safe.

        Args:
            view: View of the active run, or None.

        Returns:
            True if that view replaces a card, so that it was restored as well.
        """
        for job in self.jobs:
            self._put_again(job.card.shown if job.card is not None else None, job)
        if self.going_on is not None:
            self._put_again(view, self.going_on)
        return self.going_on is not None

    def _put_again(self, shown: "ShownView | None", job: BackgroundJob) -> None:
        if shown is not None and self._notebook is not None:
            with without_working_folder():
                from vibe_jupyter.ui.run_output import marked

            output = marked(shown.model_id, {"text/plain": ""})
            self._engine.submit(self._notebook.ends.put_view(shown.model_id, output, cell=job.prompt_cell))

    def forget(self) -> None:
        """Close all cards at the end of the conversation. Queued cells still run."""
        jobs, self.jobs, self.open_job = self.jobs, (), None
        for job in jobs:
            self._close_card(job, "{words}")

    def close(self) -> None:
        """Close all cards and stop listening."""
        self.forget()
        if self._runs is not None:
            self._runs.close()
        if self._later is not None:
            self._engine.submit(self._later.close())
        self._runs = self._later = None

    def _open_job(self, prompt_cell: str, redact: Callable[[str], str]) -> BackgroundJob:
        kernel: object = getattr(self._shell, "kernel")  # noqa: B009 (only a kernel's shell has it)
        if self._later is None or self._runs is None:
            with without_working_folder():
                from vibe_jupyter.kernel.later_calls import LaterCalls
                from vibe_jupyter.kernel.queued_runs import QueuedRuns

            self._later, self._runs = LaterCalls(kernel), QueuedRuns(self._shell)
        if self.open_job is None:
            self.open_job = BackgroundJob(CellContext(kernel), prompt_cell, self.options, redact)
            self.jobs = (*self.jobs, self.open_job)
        return self.open_job

    def _watch(self, job: BackgroundJob, cell: Cell, request: str) -> None:
        assert self._runs is not None
        job.queued.append((cell, self._runs.watch(request)))

    def _call_later(self, function: Callable[[], None]) -> None:
        """Call `function` on the main thread after everything now queued has run. Engine loop only."""
        if self._later is not None:
            self._later.call(function)

    def _hear_end(self, job: BackgroundJob) -> None:
        """Handle the message behind the cells: each of them has run or never will."""
        job.awaited -= 1
        if not job.is_over or job not in self.jobs:
            return
        for _, run in job.queued:
            if run.result is None and self._runs is not None:
                self._runs.forget(run)
        self.on_change()
        if job.card is None:
            return
        if not any(job.results):
            self._close_card(job, "{words}")
        elif job.by_itself and job.may_go_on:
            self._go_on_behind(job)
        else:
            self._engine.submit(job.card.tell(job.state, asks=True))

    def _go_on_behind(self, job: BackgroundJob) -> None:
        """Run the agent from where these cells ended, displayed in place of their card."""
        if job not in self.jobs or job.card is None:
            return
        self.going_on = job
        try:
            with sigint_goes_to(ignore_interrupt), job.cell.entered(), self._presses.owned(), self._in_its_place(job):
                self.go_on(GO_ON, job.options._replace(keep=False))
        except VibeError as error:
            self._engine.submit(job.card.tell(f"{job.state} It did not go on: {error}", asks=job in self.jobs))
        except KeyboardInterrupt:  # the transcript shows the interrupt; no cell should fail
            if job in self.jobs:
                self._engine.submit(job.card.tell(job.state, asks=True))
        finally:
            self.going_on = None

    @contextmanager
    def _in_its_place(self, job: BackgroundJob) -> "Generator[None]":
        with without_working_folder():
            from vibe_jupyter.ui.transcript import Transcript

        card, look, before = job.card, self.look, self._host.front_end
        assert card is not None
        assert look is not None
        keep, find_cell = look()
        self._host.front_end = lambda: card.turned_into(Transcript(keep=keep, find_cell=find_cell))
        try:
            yield
        finally:
            self._host.front_end = before

    def _close_card(self, job: BackgroundJob, form: str) -> None:
        """Replace the card with its final text."""
        card, job.card = job.card, None
        shown = card.shown if card is not None else None
        if card is None or shown is None or self._notebook is None:
            return
        with job.cell.entered():
            left = card.close(form.format(words=job.state))
        self._notebook.ends.add(shown.model_id, left, number=None, cell=job.prompt_cell)
        self._engine.submit(self._notebook.ends.deliver_last())

    def _name(self, cell: Cell) -> str:
        return f"cell {self._notebook.cells.reads.address(cell)}" if self._notebook is not None else ""

    def _report_text(self, job: BackgroundJob, *, schema_only: bool) -> str:
        if not job.is_over:
            return f"Not run yet: {', '.join(self._name(cell) for cell, _ in job.queued)}. They wait for their turn."
        room = SHOWN // len(job.queued)

        def told(cell: Cell, result: ExecutionResult | None) -> str:
            text = _result_text(cell, result, schema_only=schema_only, redact=job.redact, room=room)
            return f"{self._name(_numbered(cell, result))} {text}"

        return "\n".join(told(cell, result) for (cell, _), result in zip(job.queued, job.results, strict=True))


def _numbered(cell: Cell, result: ExecutionResult | None) -> Cell:
    """Return the cell with its current execution count."""
    count = result.execution_count if result is not None else None
    return cell if count is None else cell.model_copy(update={"execution_count": count})


def _result_text(
    cell: Cell, result: ExecutionResult | None, *, schema_only: bool, redact: Callable[[str], str], room: int
) -> str:
    if result is None:
        return _NOT_RUN
    with without_working_folder():
        from vibe_jupyter.notebook.tools.cell_report import names_line, output_text, status_line
        from vibe_jupyter.notebook.tools.schema_results import schema_result

    result = schema_result(result, cell.source) if schema_only else result
    output = head_and_tail(redact(output_text(result.outputs)), room)
    return "\n".join(filter(None, (redact(status_line(result, None)), output, names_line(result))))


def _error_text(job: BackgroundJob, result: ExecutionResult) -> str:
    return job.redact(result.error.name) if result.error is not None else "error"
