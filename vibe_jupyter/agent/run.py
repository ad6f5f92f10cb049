"""A run of the agent: its event stream, its commands, and the requests that wait for the user."""

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

Work = Callable[["Run"], Awaitable[None]]  # Body of a run. Emits events through the run, the last one a `RunFinished`.

ID_BITS = 128  # random bits of the id that a decision refers to, which must not be guessable

# Who ended a wait without an answer: an interrupt, or the server that had asked
ClosedBy = Literal["interrupt", "server"]

C = TypeVar("C")


class Run:
    """A single run. It starts with the first event that is requested, and has ended when the iteration has.

    Closing the iterator early interrupts the run and waits for its end, so that it can't write anything later.
    """

    def __init__(self, work: Work) -> None:
        self.id = secrets.token_hex(8)
        self.approvals = PendingRequests[Approve | Reject]()
        self.questions = PendingRequests[Answer]()
        self.interrupted = False  # True once an interrupt was requested
        self.waits = WaitClock()  # time spent waiting for the user
        self._work = work
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()  # None marks the end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._step: asyncio.Task[None] | None = None

    @property
    def waited(self) -> float:
        """Seconds spent waiting for the user."""
        return self.waits.seconds

    def waited_in(self, call_id: str) -> float:
        """Return the seconds that one call waited for the user."""
        return self.waits.seconds_of(call_id)

    def send(self, command: Command, *, by: DecidedBy = "code") -> None:
        """Send a command. Thread-safe; returns at once.

        Args:
            command: the command, such as a decision.
            by: ``person`` only from a front end that saw the click or the typed text arrive. The journal records it.
        """
        if isinstance(command, Interrupt):
            self.interrupted = True
        if self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._take_command, command, by)

    def emit(self, event: Event) -> None:
        """Emit an event. Engine loop only."""
        self.waits.take(event)
        self._events.put_nowait(event)

    def show(self, progress: ToolProgress) -> None:
        """Emit progress of a tool. Thread-safe."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.emit, progress)

    async def guard(self, step: Coroutine[Any, Any, None]) -> bool:
        """Run a step that an interrupt cancels. Returns False if one arrived."""
        task = self._step = asyncio.ensure_future(step)
        if self.interrupted:
            task.cancel()
        try:
            await asyncio.wait([task])
        finally:
            self._step = None
            task.cancel()  # in case this wait itself was cancelled; no effect on a finished task
        if task.cancelled():
            return False
        task.result()
        return not self.interrupted

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        """Yield all events, the last of which is `RunFinished`."""
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
    """A pending question or approval."""

    def __init__(self, id: str, answer: "asyncio.Future[C]") -> None:
        self.id = id
        self.answer = answer
        self.by: DecidedBy | ClosedBy = "code"  # source of the answer; meaningless before it arrived


class PendingRequests(Generic[C]):
    """Registry that matches each answer to the request it was shown for. Only the first answer counts."""

    def __init__(self) -> None:
        self._waiting: dict[str, PendingRequest[C]] = {}

    def open(self) -> PendingRequest[C]:
        """Create a request with a unique id and a future for its answer. Engine loop only."""
        waiting: PendingRequest[C] = PendingRequest(
            secrets.token_hex(ID_BITS // 8), asyncio.get_running_loop().create_future()
        )
        self._waiting[waiting.id] = waiting
        return waiting

    def deliver(self, waiting_id: str, answer: C, *, by: DecidedBy | ClosedBy) -> None:
        """Answer a request. Has no effect if the request is unknown or already answered."""
        waiting = self._take_out(waiting_id)
        if waiting is not None and not waiting.answer.done():
            waiting.by = by
            waiting.answer.set_result(answer)

    def close(self, waiting: PendingRequest[C]) -> None:
        """Remove a request that is no longer waited for."""
        self._take_out(waiting.id)

    def _take_out(self, waiting_id: str) -> PendingRequest[C] | None:
        return self._waiting.pop(waiting_id, None)
