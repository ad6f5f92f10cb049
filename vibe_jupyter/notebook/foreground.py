"""The kernel's main thread as a lane that the engine borrows, while a cell serves."""

import asyncio
import concurrent.futures
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.pump import Pump
from vibe_jupyter.notebook.sigint import Proceed, sigint_goes_to

T = TypeVar("T")

INTERRUPT_GRACE: Final = 2.0
"""Seconds a run has after an interrupt to answer its open calls."""
SECOND_GRACE: Final = 0.3
"""Seconds it has from a second interrupt on; people press twice, and most runs end faster than that."""
START_GRACE: Final = 2.0
"""Seconds that work may wait for a cell to begin serving: a run is started just before."""
_WAIT: Final = 0.020
"""Seconds between two looks for work; a shell message ends the wait at once."""
_OVER: Final = "The cell that would do this is over. Start a new run."


class Interrupted(NotebookError):
    """The person interrupted what ran on the main thread."""


class Foreground:
    """Runs functions of the engine on the main thread, and clicks in between."""

    def __init__(self, pump: Pump | None) -> None:
        self._pump = pump
        self._lock = threading.Lock()
        self._items: deque[_Item[Any]] = deque()
        self._arrived = threading.Event()
        self._serving = False
        self._presses = 0
        self._in_item = False

    @property
    def interrupted(self) -> bool:
        """Whether the person interrupted the cell that serves; any thread may ask."""
        return self._presses > 0

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the main thread and wait for it.

        Raises:
            Interrupted: the person interrupted it, or the run before it began.
            NotebookError: no cell serves any more, or the function asked to end the process.
        """
        item = _Item(function)
        with self._lock:
            self._items.append(item)
            early = not self._serving
        self._arrived.set()
        if early:
            asyncio.get_running_loop().call_later(START_GRACE, self._expire, item)
        return await asyncio.wrap_future(item.done)

    def serve(self, until: "concurrent.futures.Future[Any]", *, interrupt: Callable[[], None]) -> bool:
        """Serve until the future is done; True if the person interrupted.

        After an interrupt `interrupt` is called once, and the future has `INTERRUPT_GRACE` to end; a second one
        shortens that to `SECOND_GRACE`. The caller looks at the future: it may still be running.

        Raises:
            NotebookError: a cell serves already, or this is not the main thread.
        """
        self._begin()
        try:
            with sigint_goes_to(self._on_sigint):
                self._loop(until, interrupt)
            return self.interrupted
        finally:
            self._end()

    def _begin(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise NotebookError("A run must start in a cell of the main shell, not in a subshell or another thread.")
        with self._lock:
            if self._serving:
                raise NotebookError("A run is open in this kernel already: one cannot start inside another.")
            self._serving = True
        self._presses = 0
        if self._pump is not None:
            self._pump.hold()

    def _end(self) -> None:
        with self._lock:
            self._serving = False
            left, self._items = self._items, deque()
        for item in left:
            item.fail(NotebookError(_OVER))

    def _expire(self, item: "_Item[Any]") -> None:
        with self._lock:
            if self._serving or item not in self._items:
                return
            self._items.remove(item)
        item.fail(NotebookError(_OVER))

    def _loop(self, until: "concurrent.futures.Future[Any]", interrupt: Callable[[], None]) -> None:
        until.add_done_callback(lambda _: self._arrived.set())
        deadline: float | None = None
        while not until.done():
            self._step()
            if deadline is None and self.interrupted:
                deadline = time.monotonic() + INTERRUPT_GRACE
                self._drop_waiting()
                interrupt()
            if deadline is not None and self._presses > 1:
                deadline = min(deadline, time.monotonic() + SECOND_GRACE)
            if deadline is not None and time.monotonic() > deadline:
                return

    def _step(self) -> None:
        try:
            item = self._next()
            if item is not None:
                self._run(item)
            elif self._pump is None:
                self._arrived.wait(_WAIT)
                self._arrived.clear()
            else:
                self._pump.wait(_WAIT)
        except KeyboardInterrupt:
            pass  # from a handler of a click; `_on_sigint` has counted it

    def _next(self) -> "_Item[Any] | None":
        with self._lock:
            return self._items.popleft() if self._items else None

    def _run(self, item: "_Item[Any]") -> None:
        if not item.done.set_running_or_notify_cancel():
            return
        try:
            try:
                self._in_item = True
                value = item.function()
            finally:
                self._in_item = False
        except KeyboardInterrupt:
            item.fail(Interrupted("Interrupted."))
        except (StopIteration, asyncio.CancelledError, GeneratorExit, SystemExit) as error:
            # Each of these means something of its own to the event loop that waits for the answer.
            item.fail(NotebookError(f"It ended with {type(error).__name__}, which goes no further than this."))
        except BaseException as error:  # noqa: BLE001 (it goes back to whoever called)
            item.fail(error)
        else:
            item.done.set_result(value)

    def _drop_waiting(self) -> None:
        with self._lock:
            dropped, self._items = self._items, deque()
        for item in dropped:
            item.fail(Interrupted("Interrupted before it began."))

    def _on_sigint(self, _proceed: Proceed) -> None:
        self._presses += 1
        # Elsewhere the flag is enough, and an exception could lose a message or an answer.
        in_click = self._pump is not None and self._pump.in_handler
        if self._in_item or in_click:
            signal.default_int_handler(signal.SIGINT, None)


class _Item(Generic[T]):
    """One function and the future of its result."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()

    def fail(self, error: BaseException) -> None:
        """Answer with an error, unless the caller waits no longer."""
        if self.done.running() or self.done.set_running_or_notify_cancel():
            self.done.set_exception(error)
