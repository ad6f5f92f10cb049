"""A run without a model: external clients make the calls, which run one at a time, and receive the results.

Everything else is as in any run: the same rules, approval card and journal, and one result for each call.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from vibe_jupyter.agent.call_context import (
    CallContext,
    DuplicateCalls,
    FailedCalls,
    Presence,
    ProgressStreams,
    error_message,
    shown,
)
from vibe_jupyter.agent.run import Run
from vibe_jupyter.agent.told_results import recorded
from vibe_jupyter.agent.tool_call import CallStatus, answer_call, unanswered_call
from vibe_jupyter.errors import JournalError
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import (
    DURABLE_EVENTS,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Event,
    MessageAdded,
    Notice,
    RunFinished,
    RunStarted,
    ToolCall,
    ToolMessage,
    ToolProgress,
    ToolSpec,
    Usage,
)
from vibe_jupyter.session.conversation import Conversation, open_calls
from vibe_jupyter.tools.contract import Toolset

MAX_WAITING: Final = 32  # pending calls, including the running one
MAX_CALLS: Final = 1_000  # calls of one run; the view holds them all in memory
SETTLE: Final = 0.5  # seconds for an interrupted call to return its partial result
AGENT: Final = "outside"  # used in place of an agent profile

CLOSED: Final = "Not run: the notebook's tools are no longer served. Ask the user to run %vibe mcp serve in a cell."
CROWDED: Final = f"Not run: {MAX_WAITING} calls wait already. Send them one after the other."
ENOUGH: Final = (
    "Not run: so many calls were made since the notebook was served that its view holds no more. Ask the user to run "
    "%vibe mcp serve stop, and %vibe mcp serve in another cell."
)
WAITS: Final = "Waiting for the user to allow it, in the notebook."
ALLOWED: Final = "Allowed."

ReportProgress = Callable[[str], None]  # receives progress text of a call; callable from any thread


@dataclass(frozen=True)
class ExternalGate:
    """Dependencies shared by the calls of all external clients."""

    tools: Toolset
    permissions: Permissions
    terms: Callable[[], Awaitable[RunTerms]]  # returns the terms of the next call
    redactor: Redactor = field(default_factory=Redactor)
    schema_only: bool = False  # True if no value of the user's data may be sent
    # Called with the client's identity before each call, since reads by one client don't count for another
    enter: Callable[[str], None] = lambda _agent: None


class ExternalRun:
    """Run that lasts until `Interrupt`. Use on the engine's loop, except for `interrupt_call`."""

    def __init__(self, gate: ExternalGate, conversation: Conversation, *, place: str) -> None:
        self.run = Run(self._wait_for_end)
        self._gate = gate
        self._conversation = conversation
        self._place = place  # server address, for the user
        self._order = asyncio.Lock()
        self._tasks: set[asyncio.Task[ToolMessage]] = set()
        self._current: asyncio.Task[ToolMessage] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call_status = CallStatus()
        self._count = 0

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools that may be called."""
        return self._gate.tools.specs()

    async def call(
        self, name: str, arguments: str, *, caller: str, tell: ReportProgress, instance: str = ""
    ) -> ToolMessage:
        """Handle one call after the earlier ones.

        Args:
            name: the tool's name.
            arguments: JSON text.
            caller: the client's self-reported name.
            tell: receives progress text.
            instance: distinguishes clients with the same name.

        Raises:
            CancelledError: the client stopped waiting. The call is interrupted.
        """
        self._count += 1
        call = ToolCall(id=f"outside-{self._count}", name=name, arguments=arguments)
        if self._loop is None or self.run.interrupted:
            return error_message(call, CLOSED)
        if self._count > MAX_CALLS:
            return error_message(call, ENOUGH)
        if len(self._tasks) >= MAX_WAITING:
            return error_message(call, CROWDED)
        task = asyncio.create_task(self._in_order(call, caller, tell, instance))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    def interrupt_call(self) -> None:
        """Interrupt the running call, like the user's ■.

        A result it returns within `SETTLE` seconds counts. Thread-safe.
        """
        task, loop = self._current, self._loop
        if task is not None and loop is not None:
            loop.call_soon_threadsafe(loop.call_later, SETTLE, task.cancel)

    async def _wait_for_end(self, run: Run) -> None:
        began = time.monotonic()
        self._loop = asyncio.get_running_loop()
        error = ""
        try:
            await self._emit_event(
                RunStarted(
                    run_id=run.id,
                    model="external clients",
                    provider=self._place,
                    agent=AGENT,
                    schema_only=self._gate.schema_only,
                )
            )
            await run.guard(_for_ever())
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            for call in open_calls(self._conversation.history):
                await self._emit_event(MessageAdded(message=unanswered_call(call, started=True)))
        except JournalError as failure:
            error = str(failure)
        finally:
            self._loop = None
        reason = "error" if error else "interrupted"
        seconds = round(time.monotonic() - began, 3)
        await self._last_event(RunFinished(reason=reason, turns=0, seconds=seconds, usage=Usage(), error=error))

    async def _in_order(self, call: ToolCall, caller: str, tell: ReportProgress, instance: str) -> ToolMessage:
        try:
            async with self._order:
                self._current = asyncio.current_task()
                self._gate.enter(f"{caller}\n{instance}")
                try:
                    return await self._answer_external(call, caller, tell)
                finally:
                    self._current = None
        except asyncio.CancelledError:
            return unanswered_call(call, started=False)
        except JournalError as failure:
            return error_message(call, str(failure))

    async def _answer_external(self, call: ToolCall, caller: str, tell: ReportProgress) -> ToolMessage:
        self._gate.redactor.look()
        await self._emit_event(
            MessageAdded(message=AssistantMessage(parts=(call,), stop_reason="tool_calls", model=caller))
        )
        try:
            result, _ = await answer_call(call, self._call_context(await self._gate.terms(), caller, tell))
            closing: list[Event] = [MessageAdded(message=result)]
        except asyncio.CancelledError:
            closing = [*self._call_status.closing(call, self._gate.tools)]
        for event in closing:
            await self._emit_event(event)
        last = closing[-1]
        assert isinstance(last, MessageAdded)
        assert isinstance(last.message, ToolMessage)
        return self._gate.redactor.output(last.message)

    def _call_context(self, terms: RunTerms, caller: str, tell: ReportProgress) -> CallContext:
        task = asyncio.current_task()
        assert task is not None

        async def emit(event: Event) -> None:
            match event:
                case ApprovalRequested():
                    event = event.model_copy(
                        update={"reason": f"{event.reason} · requested by an external client, “{caller}”"}
                    )
                    tell(f"{WAITS}\n")
                case ApprovalResolved(allowed=True):
                    tell(f"{ALLOWED}\n")
                case _:
                    pass
            await self._emit_event(event)

        def show(progress: ToolProgress) -> None:
            # With `waits` set, the text isn't output of the code
            if progress.waits is None and not self._gate.schema_only:
                tell(progress.text)
            self.run.show(progress)

        return CallContext(
            tools=self._gate.tools,
            permissions=self._gate.permissions,
            terms=terms,
            equal=DuplicateCalls(),
            failed=FailedCalls(),
            approvals=self.run.approvals,
            questions=self.run.questions,
            attended=Presence(None, known=terms.attended, emit=emit).attended,
            emit=emit,
            show=ProgressStreams(self._gate.redactor, show).take,
            redactor=self._gate.redactor,
            schema_only=self._gate.schema_only,
            model=f"external client {caller}",
            results=None,  # external clients have no read_file of ours
            cancelled=lambda: task.cancelling() > 0 or self.run.interrupted,
        )

    async def _emit_event(self, event: Event) -> None:
        """Write a durable event to disk before anyone acts on it, then show it."""
        self._call_status.note(event)
        kept = self._gate.redactor.event(event)
        if isinstance(kept, DURABLE_EVENTS):
            await self._conversation.record(recorded(kept) if self._gate.schema_only else kept)
        self.run.emit(shown(event, kept))
        for text in self._gate.redactor.news():
            await self._emit_event(Notice(level="warning", text=text))

    async def _last_event(self, finished: RunFinished) -> None:
        try:
            await self._emit_event(finished)
        except JournalError:
            self.run.emit(finished)


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
