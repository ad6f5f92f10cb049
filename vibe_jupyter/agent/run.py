"""One run of the agent: events come out of it, commands go in, and what waits for the user is kept here."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Generic, Literal, TypeVar

from vibe_jupyter.agent.wait_clock import WaitClock
from vibe_jupyter.protocol import (
    Answer,
    Approve,
    Command,
    DecidedBy,
    Event,
    Interrupt,
    Reject,
    RunFinished,
    ToolProgress,
)

Work = Callable[["Run"], Awaitable[None]]
"""What a run does: emits events through the run, the last one a `RunFinished`."""

ID_BITS = 128
"""Random bits of an id that a decision names, so that nobody can guess one."""

ClosedBy = Literal["interrupt", "server"]
"""Who ended the waiting for an answer, where none came: an interrupt, or the server that had asked."""

C = TypeVar("C")


class Run:
    """Iterate it to make it go: it starts with the first event asked for and has ended when the iteration has.

    Closing the iteration early interrupts the run and waits for its end, so nothing of it writes later.
    """

    def __init__(self, work: Work) -> None:
        self.id = secrets.token_hex(8)
        self.approvals = PendingRequests[Approve | Reject]()
        self.questions = PendingRequests[Answer]()
        self.interrupted = False
        """Whether someone asked for the end."""
        self.waits = WaitClock()
        """Time in which the user was waited for."""
        self._work = work
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        """None where the work has ended."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._step: asyncio.Task[None] | None = None

    @property
    def waited(self) -> float:
        """Seconds in which the user was waited for."""
        return self.waits.seconds

    def waited_in(self, call_id: str) -> float:
        """Return the seconds in which one call waited for the user."""
        return self.waits.seconds_of(call_id)

    def send(self, command: Command, *, by: DecidedBy = "code") -> None:
        """Hand over a decision; callable from any thread, returns at once.

        Args:
            command: the decision.
            by: ``person`` only from a front end that saw the click or the typed text arrive. The journal records it.
        """
        if isinstance(command, Interrupt):
            self.interrupted = True
        if self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._take_command, command, by)

    def emit(self, event: Event) -> None:
        """Hand out an event. Engine loop only."""
        self.waits.take(event)
        self._events.put_nowait(event)

    def show(self, progress: ToolProgress) -> None:
        """Hand out progress of a tool; callable from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.emit, progress)

    async def guard(self, step: Coroutine[Any, Any, None]) -> bool:
        """Do a step that an interrupt may end; False when it did."""
        task = self._step = asyncio.ensure_future(step)
        if self.interrupted:
            task.cancel()
        try:
            await asyncio.wait([task])
        finally:
            self._step = None
            task.cancel()  # only when this wait itself was cancelled; a task that is done does not notice
        if task.cancelled():
            return False
        task.result()
        return not self.interrupted

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        """Yield every event; the last one is `RunFinished`."""
        self._loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(self._work(self))
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                yield event
                if isinstance(event, RunFinished):
                    await task
                    return
            task.result()
            raise RuntimeError("The run ended without RunFinished.")
        finally:
            if not task.done():
                self.send(Interrupt())
                await asyncio.wait([task])

    def _take_command(self, command: Command, by: DecidedBy) -> None:
        match command:
            case Approve() | Reject():
                self.approvals.deliver(command.approval_id, command, by=by)
            case Answer():
                self.questions.deliver(command.question_id, command, by=by)
            case Interrupt():
                if self._step is not None:
                    self._step.cancel()


class PendingRequest(Generic[C]):
    """One thing that nobody has answered yet."""

    def __init__(self, id: str, answer: "asyncio.Future[C]") -> None:
        self.id = id
        self.answer = answer
        self.by: DecidedBy | ClosedBy = "code"
        """Where the answer came from; means nothing before it came."""


class PendingRequests(Generic[C]):
    """Matches each answer to the one thing it was shown for; the first answer wins, later ones are ignored."""

    def __init__(self) -> None:
        self._waiting: dict[str, PendingRequest[C]] = {}

    def open(self) -> PendingRequest[C]:
        """Make an id that was never used and a future for its answer. Engine loop only."""
        waiting: PendingRequest[C] = PendingRequest(
            secrets.token_hex(ID_BITS // 8), asyncio.get_running_loop().create_future()
        )
        self._waiting[waiting.id] = waiting
        return waiting

    def deliver(self, waiting_id: str, answer: C, *, by: DecidedBy | ClosedBy) -> None:
        """Take an answer from the front end; one to something unknown or answered does nothing."""
        waiting = self._take_out(waiting_id)
        if waiting is not None and not waiting.answer.done():
            waiting.by = by
            waiting.answer.set_result(answer)

    def close(self, waiting: PendingRequest[C]) -> None:
        """Nobody waits for it any more."""
        self._take_out(waiting.id)

    def _take_out(self, waiting_id: str) -> PendingRequest[C] | None:
        return self._waiting.pop(waiting_id, None)
