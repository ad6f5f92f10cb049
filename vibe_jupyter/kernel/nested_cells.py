"""Run a cell of the notebook in its own place, while the cell that asks for it is still running.

The page sends the execute_request that a user's Shift-Enter would send. The pump takes it off the queue, known by
its cell and its code, and the kernel executes it inside the running cell: outputs, number, ``input()`` and timing
are native. Where no request comes, the code runs inside the running cell and is shown there.

IPython 9.18 raises the count when a cell begins, IPython 8 when it ends. Either way the outer cell gets a new, last
number once cells ran inside it.

A page that is asked to run a cell may send the request late: it was busy, its connection was cut, or the user pressed ■
in between. Then nothing may run unasked, so the kernel answers the request as aborted, also long after the run.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, cast

from pydantic import JsonValue

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.execution import ExecutionAttempt, refuse_exit
from vibe_jupyter.kernel.interrupts import sigint_goes_to
from vibe_jupyter.kernel.ipython_types import (
    CellResult,
    Frames,
    IPythonKernel,
    IPythonShell,
    Message,
    NamespaceChanges,
    patched_attribute,
)
from vibe_jupyter.kernel.nested_await import run_nested
from vibe_jupyter.kernel.outputs import CollectedOutputs, OnOutput, collect_outputs, flush_streams, kernel_capture
from vibe_jupyter.kernel.pump import Pump, QueuedCell
from vibe_jupyter.protocol import ExecutionResult
from vibe_jupyter.tools.contract import OnAsking, unheard

REQUEST_COMES_WITHIN: Final = 5.0
"""Seconds in which the page sends the request it announced."""
PRESSED_WITHIN: Final = 0.3
"""Seconds in which a request comes that the page had sent already when it was asked."""
_LOOK: Final = 0.020
"""Seconds between two looks; a shell message ends the wait at once."""

REMEMBERED: Final = 64
"""Requests that were called off and have not come yet; the oldest is forgotten first."""
ANSWER_WAIT: Final = 1.0
"""Seconds in which the page names the request it sent; its answer follows the request on another channel."""
IN_DOUBT: Final = 10.0
"""Seconds, from asking on, in which a request that fits counts as the page's though the page has not said so."""


class _Shell(IPythonShell, Protocol):
    execution_count: int
    last_execution_result: CellResult


@dataclass(eq=False)
class Expected:
    """A request that a page was asked to send."""

    cell: str
    code: str
    frames: Frames | None = None
    """The request as it came; None until then."""
    stays: bool = False
    """Whether it is to wait in the queue, as one of the user's own does."""
    too_late: bool = False
    """Whether the code ran without it, so that it must not run again."""
    request: str | None = None
    """Id of the request, where the page has said it."""
    asked_at: float = field(default_factory=time.monotonic)
    answered: threading.Event = field(default_factory=threading.Event)
    """Set when the page has said which request it sent, or that it sends none."""
    doubted: str | None = None
    """Id of the request that was taken for this one before the page had answered."""

    def hear(self, result: Mapping[str, JsonValue] | None) -> None:
        """The page's answer, None where it refused or was not asked. Any thread."""
        request = result.get("request") if result is not None else None
        if isinstance(request, str):
            self.request = request
        elif result is not None:
            return  # an older page: it sent the request, and does not say which
        self.answered.set()

    def fits(self, cell: QueuedCell) -> bool:
        """Whether this may be the request: by its id where the page has said it, else by cell and exact code."""
        if self.request is not None:
            return self.request == cell.request
        return (self.cell, self.code) == (cell.cell_id, cell.code)


class InnerRun(NamedTuple):
    """A cell that was run in its place."""

    cell: str
    request: str
    number: int
    outputs: CollectedOutputs
    is_over: bool = False


class NestedCells:
    """Runs cells inside the running cell. Main thread only, but for `expect`."""

    def __init__(self, shell: object, pump: Pump) -> None:
        self._shell = cast(_Shell, shell)
        self._kernel = cast(IPythonKernel, getattr(shell, "kernel"))  # noqa: B009 (only a kernel's shell has it)
        self._pump = pump
        self._expected: list[Expected] = []
        self._called_off = CalledOff()
        self._left: set[str] = set()
        """Cells whose request was left in the queue."""
        self._ran: set[str] = set()
        """Cells that were run in their place."""
        self._outer = OuterCell(shell)
        self.latest: InnerRun | None = None
        """What was run in its place last in the running cell, also while it runs."""

    @property
    def outer_number(self) -> int | None:
        """The execution count of the running cell; final after `end`. None for a cell without one."""
        return self._outer.number

    def expect(self, cell: str, code: str, *, stays: bool = False) -> Expected:
        """Take the next request for this cell and exactly this code off the queue, or see that it `stays` in it. Any
        thread."""
        expected = Expected(cell, code, stays=stays)
        self._expected.append(expected)
        return expected

    def take(self, cell: QueuedCell) -> bool:
        """Whether a queued cell is an expected one; it is then ours to run and to answer."""
        if self.take_called_off(cell):
            return True
        for expected in self._expected:
            if expected.frames is None and expected.fits(cell):
                expected.frames = cell.frames
                if expected.stays:
                    expected.request = cell.request
                    self._expected.remove(expected)
                    return False
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
        """Whether the user started a cell that can only run when the running one has ended.

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
        self.latest = None
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
        request, outputs = TakenRequest(self._kernel, frames), CollectedOutputs()

        def execute() -> CellResult:
            self.latest = InnerRun(expected.cell, request.id, self._shell.execution_count, outputs)
            request.execute()
            return self._shell.last_execution_result

        try:
            return self._execute_request(
                execute,
                outputs,
                ExecutionAttempt(timeout, on_asking),
                request.as_parent(),
                collect_outputs(self._kernel, request.id, outputs),
            )
        finally:
            if self.latest is not None:
                self.latest = self.latest._replace(is_over=True)

    def wait_until_queued(self, expected: Expected) -> str | None:
        """Wait for a request that stays in the queue; its id. None if it does not come: then it must not run later."""
        if self._wait_for(expected, REQUEST_COMES_WITHIN) is None:
            self.drop(expected)
            return None
        return expected.request

    def run_here(
        self, code: str, *, timeout: float | None, on_output: OnOutput, on_asking: OnAsking = unheard
    ) -> ExecutionResult:
        """Execute as a cell, with a number, but show what comes of it in the step and not under the cell."""
        outputs = CollectedOutputs()

        def execute() -> CellResult:
            return self._shell.run_cell(code, store_history=True)

        return self._execute_request(
            execute, outputs, ExecutionAttempt(timeout, on_asking), kernel_capture(self._kernel, outputs, on_output)
        )

    def _execute_request(
        self,
        execute: Callable[[], CellResult],
        outputs: CollectedOutputs,
        attempt: ExecutionAttempt,
        *around: AbstractContextManager[None],
    ) -> ExecutionResult:
        self._outer.before_inner()
        number, names = self._shell.execution_count, NamespaceChanges(self._shell.user_ns)
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
    def _outer_kept(self, attempt: ExecutionAttempt) -> Generator[None]:
        """Whatever an execution sets for itself stands afterwards as the outer one set it."""
        shell, kernel, hook = self._shell, cast(Any, self._kernel), self._shell.displayhook
        # ipykernel keeps what `input` was before; an inner execution would keep the outer one's.
        kept = {name: getattr(kernel, name, None) for name in ("_allow_stdin", "_sys_raw_input", "_save_getpass")}
        outer_result, runner = hook.exec_result, shell.loop_runner
        payloads = list(shell.payload_manager.read_payload())
        shell.payload_manager.clear_payload()
        with contextlib.ExitStack() as stack:
            stack.enter_context(attempt.patient(kernel))
            stack.enter_context(patched_attribute(shell, "ask_exit", refuse_exit))
            stack.enter_context(patched_attribute(shell, "showtraceback", attempt.shown(shell.showtraceback)))
            stack.enter_context(patched_attribute(shell, "system", attempt.ending_with_interrupt(shell.system)))
            stack.enter_context(patched_attribute(shell, "getoutput", attempt.ending_with_interrupt(shell.getoutput)))
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


class _Kernel(IPythonKernel, Protocol):
    _parent_ident: dict[str, list[bytes]]
    shell_stream: Any

    def set_parent(self, ident: list[bytes], parent: Message, channel: str = "shell") -> None: ...
    def execute_request(self, stream: object, ident: list[bytes], parent: Message) -> Any: ...


class TakenRequest:
    """To be executed, or answered as not run, exactly once. Main thread only."""

    def __init__(self, kernel: IPythonKernel, frames: Frames) -> None:
        self._kernel = cast(_Kernel, kernel)
        self._identities, parts = kernel.session.feed_identities(frames, copy=False)
        self._message = kernel.session.deserialize(parts, content=True, copy=False)

    @property
    def id(self) -> str:
        """Of its message: what belongs to it names it as its parent."""
        return self._message["header"]["msg_id"]

    @contextmanager
    def as_parent(self) -> Generator[None]:
        """What the kernel tells meanwhile belongs to this request; afterwards to the one before again."""
        kernel = self._kernel
        outer, identities = kernel.get_parent("shell"), kernel._parent_ident["shell"]  # pyright: ignore[reportPrivateUsage]
        flush_streams()
        kernel.set_parent(self._identities, self._message, "shell")
        self._publish_state("busy", self._message)
        try:
            yield
        finally:
            flush_streams()
            self._publish_state("idle", self._message)
            kernel.set_parent(identities, outer, "shell")
            self._publish_state("busy", outer)

    def execute(self) -> None:
        """Let the kernel execute and answer it.

        Raises:
            NotebookError: this kernel puts executions off.
        """
        # Its failure is not to make void what the user queued.
        self._message["content"]["stop_on_error"] = False
        stream = self._reply_stream()
        execution = self._kernel.execute_request(stream, self._identities, self._message)
        try:
            execution.send(None)
        except StopIteration:
            pass
        else:
            execution.close()
            raise NotebookError("The kernel did not run the cell at once. Run it by hand, when this cell has ended.")
        finally:
            _send_out(stream)

    def answer_unrun(self) -> None:
        """As the kernel answers what an error before it made void."""
        stream, status = self._reply_stream(), {"status": "aborted"}
        self._publish_state("busy", self._message)
        self._kernel.session.send(
            stream, "execute_reply", status, parent=self._message, ident=self._identities, metadata=status
        )
        _send_out(stream)
        self._publish_state("idle", self._message)

    def _reply_stream(self) -> Any:
        thread = getattr(self._kernel, "shell_channel_thread", None)
        if thread is None:
            return self._kernel.shell_stream
        return thread.manager.get_subshell_to_shell_channel_socket(None)

    def _publish_state(self, state: str, parent: Message) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=topic)


def _send_out(stream: Any) -> None:
    """A stream of ipykernel 6 would send when its loop turns, which is after the running cell."""
    if hasattr(stream, "flush"):
        import zmq  # noqa: PLC0415 - every kernel has it

        stream.flush(zmq.POLLOUT)


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


class CalledOff:
    """Requests that must not run when they come. Main thread only."""

    def __init__(self) -> None:
        self._left: deque[Expected] = deque(maxlen=REMEMBERED)

    def add(self, expected: Expected) -> None:
        """It has not come, and must not run."""
        self._left.append(expected)

    def takes(self, cell: QueuedCell) -> bool:
        """Whether this is one of them, which then is to be answered as not run."""
        return any(self._is_it(expected, cell) for expected in list(self._left))

    def _is_it(self, expected: Expected, cell: QueuedCell) -> bool:
        if not expected.fits(cell):
            return False
        if not expected.answered.wait(ANSWER_WAIT):
            # A server that runs the cells for its pages does not tell them the id.
            is_it = expected.doubted is None and time.monotonic() < expected.asked_at + IN_DOUBT
            expected.doubted = cell.request if is_it else expected.doubted
            return is_it
        if expected.request in (None, expected.doubted, cell.request):
            self._left.remove(expected)
        return expected.request == cell.request
