"""Run code in the user's kernel outside the notebook's history: deadline, interrupts and outcome."""

import builtins
import contextlib
import functools
import getpass
import signal
import sys
import threading
import time
import tokenize
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NoReturn, cast

import psutil
from IPython.core.error import StdinNotImplementedError
from IPython.core.page import display_page  # pyright: ignore[reportUnknownVariableType]

from vibe_jupyter.kernel.interrupts import Deadline, Proceed, sigint_goes_to
from vibe_jupyter.kernel.ipython_types import (
    CellResult,
    IPythonKernel,
    IPythonShell,
    NamespaceChanges,
    patched_attribute,
)
from vibe_jupyter.kernel.nested_await import run_nested
from vibe_jupyter.kernel.outputs import (
    CollectedOutputs,
    OnOutput,
    OnShown,
    Output,
    exception_message,
    kernel_capture,
    plain_text,
    terminal_capture,
    unseen,
)
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.protocol import ExecutionResult, RaisedError
from vibe_jupyter.tools.contract import OnAsking, unheard

_PACKAGE: Final = str(Path(__file__).parents[1])
# Error raised by `input()` and `getpass()` where the front end has no text prompt.
NOBODY_TYPES: Final = (
    "{called}() was called, but nobody can type here. Set the value in the code; take a secret from an environment "
    "variable."
)
Status = Literal["ok", "error", "interrupted", "timeout"]


class ExecutionAttempt:
    """An execution of code under a deadline."""

    def __init__(self, timeout: float | None, on_asking: OnAsking = unheard) -> None:
        self._on_asking = on_asking
        self._deadline = Deadline(timeout)
        self._asks = False
        self.has_asked = False  # True once the code asked for input; a front end may store the answer as an output
        self._running = False
        self._timed_out = False
        self._interrupted = False
        self._outcome: CellResult | None = None
        self.late_press = False  # True if the user interrupted before the code began or after it ended

    def run(self, execute: Callable[[], CellResult]) -> None:
        with self._deadline.running():  # stop the clock afterwards, or the deadline would interrupt whatever runs next
            try:
                self._run(execute)
            except KeyboardInterrupt:
                pass
            finally:
                self._running = False

    def _run(self, execute: Callable[[], CellResult]) -> None:
        try:
            self._running = True
            if self.late_press:  # the interrupt came before the start, so run nothing
                self._interrupted = True
                return
            self._outcome = execute()
        finally:
            self._running = False

    def on_sigint(self, proceed: Proceed) -> None:
        by_deadline = self._deadline.sent()
        if not self._running:
            # Patches are being restored; interrupting that would leave the shell half patched.
            self.late_press = self.late_press or not by_deadline
        elif by_deadline:
            self._timed_out = self._timed_out or not self._interrupted
            signal.default_int_handler(signal.SIGINT, None)
        else:
            self._interrupted = True
            self._deadline.soon()
            proceed()

    def ending_with_interrupt(self, function: Callable[..., object]) -> Callable[..., object]:
        """Wrap IPython's `!command` so that an interrupt ends both the command and the cell.

        IPython swallows the interrupt and continues with the next line. An interrupt that arrives while the command
        starts would leave the command running, so new child processes are killed.
        """

        def wrapped(*args: object, **more: object) -> object:
            before = set(_children())
            try:
                result = function(*args, **more)
            except BaseException:
                if not (self._interrupted or self._timed_out):
                    raise
                _end(set(_children()) - before)
                raise KeyboardInterrupt from None  # instead of the UnboundLocalError that IPython fails with
            if self._interrupted or self._timed_out:
                raise KeyboardInterrupt
            return result

        return wrapped

    @contextmanager
    def patient(self, kernel: object) -> Generator[None]:
        """Stop the clock while the code waits for user input.

        If the deadline interrupted an open prompt, the front end would keep a dead input box that blocks later ones.
        """
        owners: list[tuple[object, str]] = [(builtins, "input"), (getpass, "getpass")]
        owners += [(kernel, "raw_input"), (kernel, "getpass")] if kernel is not None else []
        with ExitStack() as stack:
            for owner, name in owners:
                asking = self._asking(getattr(owner, name), "getpass" if name == "getpass" else "input")
                stack.enter_context(patched_attribute(owner, name, asking))
            yield

    def _asking(self, function: Callable[..., object], called: str) -> Callable[..., object]:
        @functools.wraps(function)
        def asking(*args: object, **more: object) -> object:
            with self._deadline.asking(), self._told():
                try:
                    return function(*args, **more)
                except StdinNotImplementedError:
                    raise StdinNotImplementedError(NOBODY_TYPES.format(called=called)) from None

        return asking

    @contextmanager
    def _told(self) -> Generator[None]:
        """Report only the outermost prompt: IPython's `input` calls the kernel's `raw_input`, and both are wrapped."""
        outermost, self._asks, self.has_asked = not self._asks, True, True
        try:
            if outermost:
                self._on_asking(True)
            yield
        finally:
            if outermost:
                self._asks = False
                self._on_asking(False)

    def shown(self, show: Callable[..., object]) -> Callable[..., object]:
        """Wrap IPython's `showtraceback` to drop our own frames from tracebacks of interrupts and refused prompts."""

        def shown(*args: object, **more: object) -> object:
            _, error, trace = sys.exc_info()
            if isinstance(error, KeyboardInterrupt | StdinNotImplementedError):
                _cut_own_end(trace)
            return show(*args, **more)

        return shown

    def status(self) -> Status:
        if self._interrupted:
            return "interrupted"
        if self._timed_out:
            return "timeout"
        return "ok" if self._outcome is not None and self._outcome.success else "error"

    def error(self, outputs: tuple[Output, ...]) -> RaisedError | None:
        """Return the error if the status is "error", else None."""
        if self.status() != "error" or self._outcome is None:
            return None
        return raised_error(self._outcome.error_before_exec or self._outcome.error_in_exec, outputs)


def raised_error(raised: BaseException | None, outputs: tuple[Output, ...]) -> RaisedError:
    """Describe an exception, with the traceback taken from the code's error output if there is one."""
    name = type(raised).__name__
    for output in reversed(outputs):
        if output["output_type"] == "error" and output["ename"] == name:
            lines = cast(list[str], output["traceback"])
            return RaisedError(
                name=name, message=plain_text(str(output["evalue"])), traceback=plain_text("\n".join(lines))
            )
    message = "" if raised is None else exception_message(raised)
    return RaisedError(name=name, message=message, traceback=f"{name}: {message}")


class CodeRunner:
    """Executor of code in the user's kernel, one piece at a time. Main thread only."""

    def __init__(
        self, shell: object, pump: Pump | None, *, on_ran: Callable[[], None] = lambda: None, in_copy: bool = False
    ) -> None:
        """Create a runner for a shell.

        Args:
            shell: IPython's shell.
            pump: The kernel's pump, or None in a terminal.
            on_ran: Called after the code ended, before its names are restored. Must not raise.
            in_copy: True in a forked copy of the kernel, which has no front end.
        """
        # Entered around the code alone, without what the runner does before and after it.
        self.watching: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
        self._on_ran = on_ran
        self._shell = cast(IPythonShell, shell)
        self._kernel = None if in_copy else cast(IPythonKernel | None, getattr(shell, "kernel", None))
        self._pump = pump

    @property
    def shell(self) -> object:
        """IPython's shell, in which the code runs."""
        return self._shell

    def run(
        self,
        code: str,
        *,
        keep: bool,
        timeout: float | None,
        on_output: OnOutput,
        on_asking: OnAsking = unheard,
        on_shown: OnShown = unseen,
    ) -> ExecutionResult:
        """Run code until it ends or `timeout` seconds have passed. Calls `on_shown` if the cell received outputs.

        Without `keep`, top-level names are restored afterwards. A user's interrupt is passed on to the previous
        handler, so that it reaches the agent's run as well.
        """
        outputs = CollectedOutputs()
        names = NamespaceChanges(self._shell.user_ns)
        attempt, shown = ExecutionAttempt(timeout, on_asking), threading.Event()
        began = time.monotonic()
        with sigint_goes_to(attempt.on_sigint) as proceed:
            with (
                self._capture_outputs(outputs, on_output, shown.set),
                self._beside_the_notebook(code, attempt),
                self.watching(),
            ):
                attempt.run(lambda: self._shell.run_cell(code, store_history=False))
            if shown.is_set() or attempt.has_asked:
                on_shown()
            result = ExecutionResult(
                status=attempt.status(),
                outputs=(collected := outputs.collected()),
                error=attempt.error(collected),
                seconds=time.monotonic() - began,
                names_created=names.created(),
                names_changed=names.changed(),
            )
            self._on_ran()
            if not keep:
                names.restore()
        if attempt.late_press:
            with contextlib.suppress(KeyboardInterrupt):  # the result is complete; the interrupt is for the run
                proceed()
        return result

    def _capture_outputs(
        self, outputs: CollectedOutputs, on_output: OnOutput, on_shown: OnShown
    ) -> AbstractContextManager[None]:
        if self._kernel is None:
            return terminal_capture(self._shell, outputs, on_output)
        return kernel_capture(self._kernel, outputs, on_output, on_shown)

    @contextmanager
    def _beside_the_notebook(self, code: str, attempt: ExecutionAttempt) -> Generator[None]:
        shell, hook = self._shell, self._shell.displayhook
        compiler, pager = shell.compile, shell.hooks["show_in_pager"]
        outer_result, outer_flags = hook.exec_result, compiler.flags
        streams = sys.stdout, sys.stderr
        payloads = list(shell.payload_manager.read_payload())
        changes: list[tuple[object, str, object]] = [
            # The display hook would look for the `;` in the last stored cell, which is the outer one.
            (hook, "quiet", lambda: _ends_in_semicolon(hook, code)),
            (hook, "update_user_ns", _ignore_call),
            (hook, "log_output", _ignore_call),
            # IPython 9 stores everything a cell prints in the outer cell's history, without a limit.
            (shell.history_manager, "outputs", _Forgetful()),
            (shell, "ask_exit", refuse_exit),
            (shell, "showtraceback", attempt.shown(shell.showtraceback)),
            (shell, "system", attempt.ending_with_interrupt(shell.system)),
            (shell, "getoutput", attempt.ending_with_interrupt(shell.getoutput)),
        ]
        with contextlib.ExitStack() as stack:
            for owner, name, value in changes:
                stack.enter_context(patched_attribute(owner, name, value))
            stack.enter_context(attempt.patient(self._kernel))
            stack.enter_context(self._nested_await())
            try:
                shell.hooks["show_in_pager"] = _page_as_output
                yield
            finally:
                # `sys.__stdout__` can't be used for the reset: in a kernel, text printed there reaches no cell.
                sys.stdout, sys.stderr = streams
                shell.hooks["show_in_pager"] = pager
                hook.exec_result, compiler.flags = outer_result, outer_flags
                # ipykernel 7.4 fails the outer cell because of an error in a display, even one of this code.
                setattr(shell, "_last_traceback_during_displayhook", False)  # noqa: B010
                # The code must not make the front end insert cells.
                shell.payload_manager.clear_payload()
                for payload in payloads:
                    shell.payload_manager.write_payload(payload, single=False)

    @contextmanager
    def _nested_await(self) -> Generator[None]:
        shell, runner = self._shell, self._shell.loop_runner
        if self._pump is None or runner is not shell.loop_runner_map["asyncio"][0]:
            yield  # no outer cell is running, or the user chose another loop runner
            return
        shell.loop_runner = run_nested
        try:
            with self._pump.serving():
                yield
        finally:
            shell.loop_runner = runner


class _Forgetful(dict[int, list[object]]):
    """Output history that stores nothing."""

    def __missing__(self, number: int) -> list[object]:
        return []


def _page_as_output(data: dict[str, Any] | str, start: int = 0, screen_lines: int = 0) -> None:
    # `obj?` should return its text to the agent rather than open the front end's pager.
    display_page(data, start, screen_lines)


def _ends_in_semicolon(hook: Any, code: str) -> bool:
    try:
        return bool(hook.semicolon_at_end_of_expression(code))
    except (SyntaxError, tokenize.TokenError):  # a magic or a command
        return code.rstrip().endswith(";")


def refuse_exit() -> NoReturn:
    raise SystemExit("The kernel belongs to the user; it cannot be shut down from here.")


def _ignore_call(*_: object) -> None:
    pass


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _end(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def _cut_own_end(trace: TracebackType | None) -> None:
    last = None
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None
