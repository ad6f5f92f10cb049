"""Run a cell of the notebook in its own place, while the cell that asks for it is still running.

The page sends the execute_request that a person's Shift-Enter would send. The pump takes it off the queue, known by
its cell and its code, and the kernel executes it inside the running cell: outputs, number, ``input()`` and timing
are native. Where no request comes, the code runs inside the running cell and is shown there.
"""

import contextlib
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol, cast

from vibe_jupyter.notebook.attempt import Attempt, OnAsking, unheard
from vibe_jupyter.notebook.attribute import attribute
from vibe_jupyter.notebook.capture import OnOutput, kernel_capture
from vibe_jupyter.notebook.counts import OuterCell
from vibe_jupyter.notebook.execution import refuse_exit
from vibe_jupyter.notebook.expected_requests import CalledOff, Expected
from vibe_jupyter.notebook.listening import listening
from vibe_jupyter.notebook.names import Names
from vibe_jupyter.notebook.nested import run_nested
from vibe_jupyter.notebook.outputs import Outputs
from vibe_jupyter.notebook.pump import Pump, QueuedCell
from vibe_jupyter.notebook.requests import TakenRequest
from vibe_jupyter.notebook.shell import Frames, Kernel, Outcome, Shell
from vibe_jupyter.notebook.sigint import sigint_goes_to
from vibe_jupyter.protocol import ExecutionResult

REQUEST_COMES_WITHIN: Final = 5.0
"""Seconds in which the page sends the request it announced."""
PRESSED_WITHIN: Final = 0.3
"""Seconds in which a request comes that the page had sent already when it was asked."""
_LOOK: Final = 0.020
"""Seconds between two looks; a shell message ends the wait at once."""


class _Shell(Shell, Protocol):
    execution_count: int
    last_execution_result: Outcome


class InPlace:
    """Runs cells inside the running cell. Main thread only, but for `expect`."""

    def __init__(self, shell: object, pump: Pump) -> None:
        self._shell = cast(_Shell, shell)
        self._kernel = cast(Kernel, getattr(shell, "kernel"))  # noqa: B009 (only a kernel's shell has it)
        self._pump = pump
        self._expected: list[Expected] = []
        self._called_off = CalledOff()
        self._left: set[str] = set()
        """Cells whose request was left in the queue."""
        self._ran: set[str] = set()
        """Cells that were run in their place."""
        self._outer = OuterCell(shell)

    @property
    def outer_number(self) -> int | None:
        """The execution count of the running cell; final after `end`. None for a cell without one."""
        return self._outer.number

    def expect(self, cell: str, code: str) -> Expected:
        """Take the next request for this cell and exactly this code off the queue. Any thread."""
        expected = Expected(cell, code)
        self._expected.append(expected)
        return expected

    def take(self, cell: QueuedCell) -> bool:
        """Whether a queued cell is an expected one; it is then ours to run and to answer."""
        if self.take_called_off(cell):
            return True
        for expected in self._expected:
            if expected.frames is None and expected.fits(cell):
                expected.frames = cell.frames
                if expected.too_late:
                    self.drop(expected)
                return True
        if cell.cell_id is not None:
            self._left.add(cell.cell_id)
        return False

    def take_called_off(self, cell: QueuedCell) -> bool:
        """Whether a queued cell is one that a page was asked to send for a run that is over; it is answered as not run.

        Also while no cell runs.
        """
        taken = self._called_off.takes(cell)
        if taken:
            self._answer_unrun(cell.frames)
        return taken

    def waits(self, cell: str, *, shown_running: bool) -> bool:
        """Whether the person started a cell that can only run when the running one has ended.

        The page shows it as running; so it does for a moment with one that has just been run in its place. Any thread.
        """
        return cell in self._left or (shown_running and cell not in self._ran)

    def drop(self, expected: Expected) -> None:
        """The request is not wanted any more: it is answered as not run, now or when it comes."""
        if expected not in self._expected:
            return
        self._expected.remove(expected)
        if expected.frames is not None:
            self._answer_unrun(expected.frames)
        else:
            self._called_off.add(expected)

    def _answer_unrun(self, frames: Frames) -> None:
        TakenRequest(self._kernel, frames).answer_unrun()

    def end(self) -> None:
        """The running cell is about to end: leave no request unanswered, no number twice."""
        for expected in list(self._expected):
            self.drop(expected)
        self._left.clear()
        self._ran.clear()
        self._outer.end()

    def run(
        self, expected: Expected, *, timeout: float | None, announced: bool = True, on_asking: OnAsking = unheard
    ) -> ExecutionResult | None:
        """Wait for the request and execute it; None if it does not come."""
        frames = self._wait_for(expected, REQUEST_COMES_WITHIN if announced else PRESSED_WITHIN)
        if frames is None:
            expected.too_late = True
            return None
        self._expected.remove(expected)
        self._ran.add(expected.cell)
        request, outputs = TakenRequest(self._kernel, frames), Outputs()

        def execute() -> Outcome:
            request.execute()
            return self._shell.last_execution_result

        return self._finished(
            execute,
            outputs,
            Attempt(timeout, on_asking),
            request.as_parent(),
            listening(self._kernel, request.id, outputs),
        )

    def run_here(
        self, code: str, *, timeout: float | None, on_output: OnOutput, on_asking: OnAsking = unheard
    ) -> ExecutionResult:
        """Execute as a cell, with a number, but show what comes of it in the step and not under the cell."""
        outputs = Outputs()

        def execute() -> Outcome:
            return self._shell.run_cell(code, store_history=True)

        return self._finished(
            execute, outputs, Attempt(timeout, on_asking), kernel_capture(self._kernel, outputs, on_output)
        )

    def _finished(
        self,
        execute: Callable[[], Outcome],
        outputs: Outputs,
        attempt: Attempt,
        *around: AbstractContextManager[None],
    ) -> ExecutionResult:
        self._outer.before_inner()
        number, names = self._shell.execution_count, Names(self._shell.user_ns)
        began = time.monotonic()
        with sigint_goes_to(attempt.on_sigint) as proceed:
            with self._outer_kept(attempt), contextlib.ExitStack() as stack:
                for manager in around:
                    stack.enter_context(manager)
                attempt.run(execute)
            result = ExecutionResult(
                status=attempt.status(),
                outputs=(collected := outputs.collected()),
                execution_count=number,
                error=attempt.error(collected),
                seconds=time.monotonic() - began,
                names_created=names.created(),
                names_changed=names.changed(),
            )
        if attempt.late_press:
            with contextlib.suppress(KeyboardInterrupt):  # the result is there; the run hears of it
                proceed()
        return result

    def _wait_for(self, expected: Expected, seconds: float) -> Frames | None:
        pressed = False

        def on_sigint(_proceed: object) -> None:
            nonlocal pressed
            pressed = True  # an exception inside the pump could lose a message

        end = time.monotonic() + seconds
        with sigint_goes_to(on_sigint) as proceed:
            while expected.frames is None and not pressed and time.monotonic() < end:
                self._pump.wait(_LOOK)
        if pressed:
            proceed()
            raise KeyboardInterrupt
        return expected.frames

    @contextmanager
    def _outer_kept(self, attempt: Attempt) -> Generator[None]:
        """Whatever an execution sets for itself stands afterwards as the outer one set it."""
        shell, kernel, hook = self._shell, cast(Any, self._kernel), self._shell.displayhook
        # ipykernel keeps what `input` was before; an inner execution would keep the outer one's.
        kept = {name: getattr(kernel, name, None) for name in ("_allow_stdin", "_sys_raw_input", "_save_getpass")}
        outer_result, runner = hook.exec_result, shell.loop_runner
        payloads = list(shell.payload_manager.read_payload())
        shell.payload_manager.clear_payload()
        with contextlib.ExitStack() as stack:
            stack.enter_context(attempt.patient(kernel))
            stack.enter_context(attribute(shell, "ask_exit", refuse_exit))
            stack.enter_context(attribute(shell, "showtraceback", attempt.shown(shell.showtraceback)))
            stack.enter_context(attribute(shell, "system", attempt.ending_with_interrupt(shell.system)))
            stack.enter_context(attribute(shell, "getoutput", attempt.ending_with_interrupt(shell.getoutput)))
            if runner is shell.loop_runner_map["asyncio"][0]:
                shell.loop_runner = run_nested
            stack.enter_context(self._pump.serving())
            try:
                yield
            finally:
                shell.loop_runner, hook.exec_result = runner, outer_result
                for name, value in kept.items():
                    setattr(kernel, name, value)
                # ipykernel 7.4 fails the outer cell for an error in a display, also for one of the inner cell.
                setattr(shell, "_last_traceback_during_displayhook", False)  # noqa: B010
                shell.payload_manager.clear_payload()
                for payload in payloads:
                    shell.payload_manager.write_payload(payload, single=False)
