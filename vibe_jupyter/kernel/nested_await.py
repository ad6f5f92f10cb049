"""Top-level `await` while the kernel's event loop is running.

The loop is busy with the outer cell and can't be started again, but it can be stepped from inside with `_run_once`.
The reasons are in docs/decisions/001-nested-await.md.
"""

import asyncio
import importlib
import time
import warnings
from asyncio import tasks
from collections import deque
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.interrupts import Proceed, sigint_goes_to
from vibe_jupyter.kernel.ipython_types import patched_attribute

T = TypeVar("T")

DRAIN: Final = 2.0  # seconds an interrupted coroutine has to finish


class _Loop(Protocol):
    """Private attributes of `asyncio.BaseEventLoop` that the driver uses."""

    _ready: "deque[Any]"

    def _run_once(self) -> None: ...


def run_nested(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion on the main thread, reusing the running loop if there is one.

    Raises:
        KeyboardInterrupt: The user or a deadline interrupted. The coroutine was cancelled, or abandoned after `DRAIN`
            seconds. If it handles its cancellation, as IPython's does, its result is returned instead.
        NotebookError: Neither we nor nest-asyncio can step this loop.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    if can_be_turned(loop):
        return _Drive(loop, coroutine).run()
    return _with_nest_asyncio(loop, coroutine)


def can_be_turned(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether the loop and asyncio have the private functions that the driver needs."""
    return (
        callable(getattr(loop, "_run_once", None))
        and isinstance(getattr(loop, "_ready", None), deque)
        and callable(getattr(tasks, "_enter_task", None))
        and callable(getattr(tasks, "_leave_task", None))
    )


class _Drive(Generic[T]):
    """Driver of one coroutine that steps the running loop from inside one of the loop's callbacks."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._turn = cast(_Loop, loop)._run_once  # pyright: ignore[reportPrivateUsage]
        self._ready = cast(_Loop, loop)._ready  # pyright: ignore[reportPrivateUsage]
        self._task = loop.create_task(coroutine)
        self._interrupted = False

    def run(self) -> T:
        with self._inside_the_outer_task(), self._keeping_the_shut_out(), sigint_goes_to(self._on_sigint):
            try:
                self._turn_until(None)
            except BaseException:
                self._end_task()
                raise
            finally:
                self._note_end()
        if self._interrupted and (self._task.cancelled() or not self._task.done()):
            raise KeyboardInterrupt
        return self._task.result()  # also if the coroutine handled its interrupt

    @contextmanager
    def _inside_the_outer_task(self) -> Generator[None]:
        outer = asyncio.current_task(self._loop)
        # The outer `_run_once` fixed the number of callbacks to run when it began: the queue must not end up shorter.
        promised = len(self._ready)
        if outer is not None:
            _leave_task(self._loop, outer)
        try:
            yield
        finally:
            if outer is not None:
                _enter_task(self._loop, outer)
            for _ in range(promised - len(self._ready)):
                self._loop.call_soon(_wake_loop)

    @contextmanager
    def _keeping_the_shut_out(self) -> Generator[None]:
        """Defer callbacks that can't start now instead of losing them.

        The outer cell has entered its context, and ipykernel 7 runs all shell messages in one shared context. A message
        received before the pump was installed would fail with "cannot enter context" and be lost.
        """
        report = self._loop.call_exception_handler
        kept: list[object] = []

        def keep_or_report(failure: dict[str, Any]) -> None:
            if "handle" in failure and _never_began(failure.get("exception")):
                kept.append(failure["handle"])
            else:
                report(failure)

        # Not `set_exception_handler`: Python 3.12+ calls that handler in the very context that can't be entered.
        with patched_attribute(self._loop, "call_exception_handler", keep_or_report):
            try:
                yield
            finally:
                self._ready.extend(kept)

    def _turn_until(self, deadline: float | None) -> None:
        while not self._task.done():
            if deadline is None and self._interrupted:
                deadline = time.monotonic() + DRAIN
                self._loop.call_later(DRAIN, _wake_loop)  # wakes the loop for its last step
            if deadline is not None and time.monotonic() >= deadline:
                return
            self._turn()

    def _on_sigint(self, proceed: Proceed) -> None:
        again, self._interrupted = self._interrupted, True
        try:
            proceed()
        except KeyboardInterrupt:
            # Raised inside the loop's own code, the exception would lose a callback, so the task is cancelled instead.
            # Code that doesn't await can only be reached by the exception.
            if again or asyncio.current_task(self._loop) is not None:
                raise
        self._loop.call_soon_threadsafe(self._task.cancel)

    def _end_task(self) -> None:
        """Cancel the task and run it to its end; left pending, it would finish in the next cell."""
        self._task.cancel()
        self._interrupted = True
        self._turn_until(None)

    def _note_end(self) -> None:
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # else asyncio reports it as never retrieved, in a later cell


def _never_began(error: object) -> bool:
    """Return whether a callback failed only because of its context: no frame of its own is in the traceback."""
    return (
        isinstance(error, RuntimeError)
        and "cannot enter context" in str(error)
        and error.__traceback__ is not None
        and error.__traceback__.tb_next is None
    )


def _with_nest_asyncio(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine with nest-asyncio, for asyncio-like loops without the private names that the driver needs.

    The pump maintains the order of queued cells.
    """
    try:
        nest_asyncio = importlib.import_module("nest_asyncio")
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            nest_asyncio.apply(loop)
    except (ImportError, ValueError) as error:
        coroutine.close()
        raise NotebookError(
            f"Top-level await cannot run inside a %%vibe cell on this event loop ({type(loop).__module__}). "
            "Run the code in a cell of its own."
        ) from error
    return loop.run_until_complete(coroutine)


def _leave_task(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]") -> None:
    tasks._leave_task(loop, task)  # pyright: ignore[reportPrivateUsage]


def _enter_task(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]") -> None:
    tasks._enter_task(loop, task)  # pyright: ignore[reportPrivateUsage]


def _wake_loop() -> None:
    pass
