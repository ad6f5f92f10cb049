"""Run a notebook cell natively while the cell that requests it is still running.

The front end sends the same execute_request as for Shift-Enter. The pump takes it off the queue, matching cell and
code, and the kernel executes it inside the running cell, so outputs, execution count, ``input()`` and timing are
native. If no request arrives, the code runs inside the running cell and its output is shown there.

IPython 9.18 increments the execution count when a cell begins, IPython 8 when it ends. Either way the outer cell gets
a new, final count once cells ran inside it.

A front end may send the request late: it was busy, its connection dropped, or the user interrupted in between. Nothing
may run unasked then, so the kernel answers such a request as aborted, even long after the run.
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

REQUEST_COMES_WITHIN: Final = 5.0  # seconds to wait for a request that the front end announced
PRESSED_WITHIN: Final = 0.3  # seconds to wait if the front end may have sent the request before it was asked
_LOOK: Final = 0.020  # seconds between polls; a shell message ends the wait early

REMEMBERED: Final = 64  # late requests remembered as cancelled; the oldest is dropped first
# Seconds to wait for the front end to name its request. The reply comes on another channel than the request.
ANSWER_WAIT: Final = 1.0
# Seconds during which a matching request counts as the front end's although the front end hasn't confirmed it.
IN_DOUBT: Final = 10.0


class _Shell(IPythonShell, Protocol):
    execution_count: int
    last_execution_result: CellResult


@dataclass(eq=False)
class Expected:
    """A request that a front end was asked to send."""

    cell: str
    code: str
    frames: Frames | None = None  # the received request, or None
    stays: bool = False  # True if it should stay in the queue, like the user's own
    too_late: bool = False  # True if the code ran without the request, which must then not run again
    request: str | None = None  # message id, if the front end has reported it
    asked_at: float = field(default_factory=time.monotonic)
    # Set once the front end has reported the id of its request, or that it sends none.
    answered: threading.Event = field(default_factory=threading.Event)
    doubted: str | None = None  # id of the request that was matched before the front end replied

    def hear(self, result: Mapping[str, JsonValue] | None) -> None:
        """Process the front end's reply, or None if it refused or wasn't asked. Thread-safe."""
        request = result.get("request") if result is not None else None
        if isinstance(request, str):
            self.request = request
        elif result is not None:
            return  # an older front end, which sends the request without reporting its id
        self.answered.set()

    def fits(self, cell: QueuedCell) -> bool:
        """Return whether the cell may be this request: same id if known, else same cell and code."""
        if self.request is not None:
            return self.request == cell.request
        return (self.cell, self.code) == (cell.cell_id, cell.code)


class InnerRun(NamedTuple):
    """A cell that ran natively inside the running cell."""

    cell: str
    request: str
    number: int
    outputs: CollectedOutputs
    is_over: bool = False


class NestedCells:
    """Executor of cells inside the running cell. Main thread only, except `expect` and `waits`."""

    def __init__(self, shell: object, pump: Pump) -> None:
        self._shell = cast(_Shell, shell)
        self._kernel = cast(IPythonKernel, getattr(shell, "kernel"))  # noqa: B009 (only a kernel's shell has it)
        self._pump = pump
        self._expected: list[Expected] = []
        self._called_off = CalledOff()
        self._left: set[str] = set()  # ids of cells whose request was left in the queue
        self._ran: set[str] = set()  # ids of cells that ran inside the running cell
        self._outer = OuterCell(shell)
        self.latest: InnerRun | None = None  # the latest cell run inside the running one, also while it runs

    @property
    def outer_number(self) -> int | None:
        """The execution count of the running cell, final after `end`, or None for a cell without one."""
        return self._outer.number

    def expect(self, cell: str, code: str, *, stays: bool = False) -> Expected:
        """Expect a request for this cell and exactly this code. With `stays`, leave it in the queue once it arrives.

        Thread-safe.
        """
        expected = Expected(cell, code, stays=stays)
        self._expected.append(expected)
        return expected

    def take(self, cell: QueuedCell) -> bool:
        """Handle a queued cell, and return whether the pump must take it off the queue.

        True for an expected request, unless it `stays`, and for a late one, which is answered as aborted.
        """
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
        """Return whether a queued cell was requested for a run that has ended, and answer it as aborted.

        Also used while no cell runs.
        """
        taken = self._called_off.takes(cell)
        if taken:
            self._answer_unrun(cell.frames)
        return taken

    def waits(self, cell: str, *, shown_running: bool) -> bool:
        """Return whether the user started a cell that can't run until the running one ends. Thread-safe.

        The front end shows it as running, but for a moment it also shows a cell that just ran natively that way.
        """
        return cell in self._left or (shown_running and cell not in self._ran)

    def drop(self, expected: Expected) -> None:
        """Cancel an expected request: answer it as aborted, now or on arrival."""
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
        """Prepare for the end of the running cell: answer all requests, and give the cell a unique execution count."""
        for expected in list(self._expected):
            self.drop(expected)
        self._left.clear()
        self._ran.clear()
        self.latest = None
        self._outer.end()

    def run(
        self, expected: Expected, *, timeout: float | None, announced: bool = True, on_asking: OnAsking = unheard
    ) -> ExecutionResult | None:
        """Wait for the request and execute it. Returns None if it doesn't arrive."""
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
        """Wait for a request that stays in the queue and return its id.

        Returns None if it doesn't arrive; it is then cancelled, so that it can't run later.
        """
        if self._wait_for(expected, REQUEST_COMES_WITHIN) is None:
            self.drop(expected)
            return None
        return expected.request

    def run_here(
        self, code: str, *, timeout: float | None, on_output: OnOutput, on_asking: OnAsking = unheard
    ) -> ExecutionResult:
        """Execute as a numbered cell, but show the output in the agent's step instead of below the cell."""
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
            with contextlib.suppress(KeyboardInterrupt):  # the result is complete; the interrupt is for the run
                proceed()
        return result

    def _wait_for(self, expected: Expected, seconds: float) -> Frames | None:
        pressed = False

        def on_sigint(_proceed: object) -> None:
            nonlocal pressed
            pressed = True  # raising inside the pump could lose a message

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
        """Restore the outer execution's shell state after the inner one."""
        shell, kernel, hook = self._shell, cast(Any, self._kernel), self._shell.displayhook
        # ipykernel saves the previous `input` on the kernel object; an inner execution would overwrite the outer one's.
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
                # ipykernel 7.4 fails the outer cell because of an error in a display, even one of the inner cell.
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
    """A request taken off the queue, to be executed or answered as aborted exactly once. Main thread only."""

    def __init__(self, kernel: IPythonKernel, frames: Frames) -> None:
        self._kernel = cast(_Kernel, kernel)
        self._identities, parts = kernel.session.feed_identities(frames, copy=False)
        self._message = kernel.session.deserialize(parts, content=True, copy=False)

    @property
    def id(self) -> str:
        """The message id, by which outputs name the request as their parent."""
        return self._message["header"]["msg_id"]

    @contextmanager
    def as_parent(self) -> Generator[None]:
        """Attribute the kernel's messages inside the block to this request."""
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
        """Execute the request and send the reply.

        Raises:
            NotebookError: The kernel didn't execute it synchronously.
        """
        # A failure here must not abort the cells that the user queued.
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
        """Reply with status "aborted", as the kernel does for cells queued behind an error."""
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
    # ipykernel 6 would send only in the loop's next iteration, which is after the running cell.
    if hasattr(stream, "flush"):
        import zmq  # noqa: PLC0415 - every kernel has it

        stream.flush(zmq.POLLOUT)


class OuterCell:
    """The running cell as seen by code inside it. Main thread only."""

    def __init__(self, shell: object) -> None:
        self._shell = cast(Any, shell)
        self._raw: str | None = None  # its source, or "" if it has no execution count; None until a cell runs inside it
        self._raised = False  # True if IPython incremented the count when the cell began

    def before_inner(self) -> None:
        """Prepare the execution count for a numbered cell that is about to run inside."""
        if self._raw is not None:
            return
        shell = self._shell
        # IPython stores the source of cell N as `_iN`. The history lists may be shorter, since ``exit`` isn't stored.
        self._raised = f"_i{shell.execution_count}" not in shell.user_ns
        self._raw = shell.history_manager.input_hist_raw[-1] if self._is_numbered() else ""
        if not self._raised:
            shell.execution_count += 1

    def end(self) -> None:
        """Give the outer cell the next count after those of the cells inside it."""
        raw, self._raw = self._raw, None
        if not raw:
            return
        self._shell.history_manager.store_inputs(self._shell.execution_count, raw, raw)
        if self._raised:
            self._shell.execution_count += 1

    @property
    def number(self) -> int | None:
        """The outer cell's execution count, final once its run has ended, or None for a cell without one."""
        if not self._is_numbered():
            return None
        count: int = self._shell.execution_count
        return count if f"_i{count}" in self._shell.user_ns else count - 1

    def _is_numbered(self) -> bool:
        """Return whether the outer cell has an execution count; silent requests have none."""
        content = self._shell.get_parent().get("content", {})
        return bool(content.get("store_history", True)) and not content.get("silent", False)


class CalledOff:
    """Requests that must not run if they arrive late. Main thread only."""

    def __init__(self) -> None:
        self._left: deque[Expected] = deque(maxlen=REMEMBERED)

    def add(self, expected: Expected) -> None:
        self._left.append(expected)

    def takes(self, cell: QueuedCell) -> bool:
        """Return whether this is one of them, which must then be answered as aborted."""
        return any(self._is_it(expected, cell) for expected in list(self._left))

    def _is_it(self, expected: Expected, cell: QueuedCell) -> bool:
        if not expected.fits(cell):
            return False
        if not expected.answered.wait(ANSWER_WAIT):
            # Where the server runs cells for its pages, the front end never learns the id.
            is_it = expected.doubted is None and time.monotonic() < expected.asked_at + IN_DOUBT
            expected.doubted = cell.request if is_it else expected.doubted
            return is_it
        if expected.request in (None, expected.doubted, cell.request):
            self._left.remove(expected)
        return expected.request == cell.request
