"""Front-end protocol (events in, commands out), settings of the saved output, and throttling."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import Command, DecidedBy, Event, MimeBundle

T = TypeVar("T")

Handled = Callable[[], Mapping[str, Any] | None]  # the Jupyter message that this thread is handling, or None

Metadata = Mapping[str, Any]  # output metadata, as saved in the notebook

REST = 4  # pause after each piece of work, as a multiple of the time it took


class Send(Protocol):
    """The `send` function of a run. Takes a command from any thread and returns immediately."""

    def __call__(self, command: Command, /, *, by: DecidedBy = "code") -> None: ...


class CallOnMainThread(Protocol):
    """Runs a function on the main thread and returns its result or raises its exception."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


class FrontEnd(Protocol):
    """Displays one run and reports the user's decisions."""

    def open(self, send: Send) -> None:
        """Display an empty view. Main thread."""
        ...

    async def on_event(self, event: Event) -> None:
        """Handle the next event of the run. Engine thread; never blocks on the user."""
        ...

    async def attended(self) -> bool:
        """Return whether a user can answer questions. May take seconds. Engine thread."""
        ...

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Replace the view with the static output, with this metadata, and return its bundle.

        Main thread, after the last event.
        """
        ...


class Throttle:
    """Runs work that is prepared on the engine loop on the main thread, at most once per gap."""

    def __init__(self, call_main: CallOnMainThread, prepare: Callable[[], Callable[[], None]], *, gap: float) -> None:
        self._call_main = call_main
        self._prepare = prepare
        self._gap = gap  # seconds
        self._wanted = False
        self._free_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Schedule the work. Repeated requests before it runs are merged. On the loop."""
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._do_prepared_work())

    async def now(self) -> None:
        """Run the work immediately. On the loop.

        Raises:
            NotebookError: The user interrupted, or the cell has finished.
        """
        self._wanted = False
        await self._call_main(self._prepare())

    async def stop(self) -> None:
        """Cancel pending work. A function that already runs on the main thread finishes there. On the loop."""
        self._wanted = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _do_prepared_work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._wanted:
            if (rest := self._free_at - loop.time()) > 0:
                await asyncio.sleep(rest)
            self._wanted = False
            began = loop.time()
            try:
                await self._call_main(self._prepare())
            except NotebookError:
                return  # interrupted or finished: `close` displays the rest
            took = loop.time() - began
            self._free_at = loop.time() + max(self._gap, REST * took)


# Whole transcript; answer and one line of steps; one line saying that a run took place.
Form = Literal["full", "summary", "none"]


class RunRetention(NamedTuple):
    """Settings of the saved output. The live view always shows everything."""

    form: Form = "full"
    # Whether to save durations, tokens, price and retries. Without them a repeated run saves the same bytes.
    times: bool = True


EVERYTHING: Final = RunRetention()
