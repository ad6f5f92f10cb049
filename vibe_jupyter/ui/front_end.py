"""The contract of a front end (events go in, commands come out), what stays of a run, and work done now and then."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import Command, DecidedBy, Event, MimeBundle

T = TypeVar("T")

Handled = Callable[[], Mapping[str, Any] | None]
"""The Jupyter message that this thread handles now; None where it handles none."""

Metadata = Mapping[str, Any]
"""Of an output, as the notebook keeps it."""

REST = 4
"""Times as long as the work itself took is waited until it is done again."""


class Send(Protocol):
    """A run's `send`: takes a command from any thread and returns at once."""

    def __call__(self, command: Command, /, *, by: DecidedBy = "code") -> None: ...


class CallOnMainThread(Protocol):
    """Runs a function on the main thread and gives back what it returns or raises."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


class FrontEnd(Protocol):
    """Shows one run and says what the user decides."""

    def open(self, send: Send) -> None:
        """Show an empty view. Main thread."""
        ...

    async def on_event(self, event: Event) -> None:
        """Take the next event of the run. Engine thread; never waits for the user."""
        ...

    async def attended(self) -> bool:
        """Whether anyone can answer a question; may take seconds to find out. Engine thread."""
        ...

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Stop showing, leave the kept form in the output, with this metadata, and return it. Main thread, after the
        last event."""
        ...


class Throttle:
    """Prepares a piece of work on the engine loop and does it on the main thread, never twice within the gap."""

    def __init__(self, call_main: CallOnMainThread, prepare: Callable[[], Callable[[], None]], *, gap: float) -> None:
        self._call_main = call_main
        self._prepare = prepare
        self._gap = gap
        """Seconds."""
        self._wanted = False
        self._free_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Ask for it; many askings before its turn are one. On the loop."""
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._do_prepared_work())

    async def now(self) -> None:
        """Do it at once. On the loop.

        Raises:
            NotebookError: the user interrupted, or the cell is over.
        """
        self._wanted = False
        await self._call_main(self._prepare())

    async def stop(self) -> None:
        """Do nothing more; what is being done is waited for. On the loop."""
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
                return  # interrupted, or the cell is over: closing shows the rest
            took = loop.time() - began
            self._free_at = loop.time() + max(self._gap, REST * took)


Form = Literal["full", "summary", "none"]
"""All that was said and done; the answer and one line of steps; one line that a run was here."""


class RunRetention(NamedTuple):
    """What the kept form holds. The live view always shows everything."""

    form: Form = "full"
    times: bool = True
    """Whether seconds, tokens, price and retries stay. Without them the same run leaves the same bytes."""


EVERYTHING: Final = RunRetention()
