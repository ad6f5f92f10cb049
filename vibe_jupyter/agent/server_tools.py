"""What the model server does by itself while it answers: shown as steps, and asked about on our cards (seed 003).

A call of the server is none of ours: it has no place in the history, our rules for tools do not hold for it, and a yes
for the session is a yes to that server in that session of its own.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from vibe_jupyter.agent.desk import Desk
from vibe_jupyter.agent.server_consent import LAST_WORD, ServerConsent
from vibe_jupyter.agent.server_files import FileShelf
from vibe_jupyter.agent.server_steps import Told, asked, ran_there, told
from vibe_jupyter.errors import JournalError
from vibe_jupyter.llm.agentic import ServerApproval, ServerCall, ServerFile
from vibe_jupyter.protocol import ToolFinished, ToolStarted

NO_END: Final = "the server did not say how it ended"
CUT_OFF: Final = "cut off; it may have run there"


@dataclass
class ServerStep:
    """One call of the server, as far as it went."""

    round: int
    kind: str
    told: Told
    name: str = ""
    """The server's name for the tool; empty where only an approval told of the call so far."""
    id: str = field(default_factory=lambda: f"server-{secrets.token_hex(8)}")
    state: Literal["waiting", "running", "denied"] = "running"
    was_asked: bool = False
    began: float = field(default_factory=time.monotonic)


class ServerTools:
    """Folds what one server does in one run. Engine loop only."""

    def __init__(self, desk: Desk, shelf: FileShelf) -> None:
        self.acted = False
        """Whether it did anything since `begin`: its answer is then not asked for a second time."""
        self._desk = desk
        self._shelf = shelf
        self._host = shelf.model.server.host
        self._consent = ServerConsent(desk, shelf.client, shelf.model)
        self._open: list[ServerStep] = []
        self._waits: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """Approvals that are asked for: the server's id and who asks, by the id of the step."""
        self._fetches: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()
        self._files: set[str] = set()
        """Ids of files that were shown."""

    def begin(self) -> None:
        """An answer is asked for."""
        self.acted = False

    async def take(self, event: ServerCall | ServerApproval | ServerFile) -> None:
        """Show one thing, or ask; what takes long goes on beside the answer.

        Raises:
            JournalError: it could not be recorded.
        """
        self.acted = True
        match event:
            case ServerCall(phase="calling"):
                await self._begin(event)
            case ServerCall():
                await self._finish(event)
            case ServerApproval():
                step = self._step_of(event.round, event.kind, lambda one: not one.was_asked)
                step = step or self._new(ServerStep(event.round, event.kind, asked(event, self._host)))
                step.state, step.was_asked = "waiting", True
                self._waits[step.id] = (event.id, asyncio.create_task(self._ask(event, step)))
                await asyncio.sleep(0)  # it begins now, so that it can be ended in its own way at any time
            case ServerFile():
                if event.id not in self._files:
                    self._files.update({event.id} - {""})
                    self._fetches.add(asyncio.create_task(self._keep(event)))

    async def end(self) -> None:
        """The answer is complete: nothing waits any more, and all files are there.

        Raises:
            JournalError: something could not be recorded.
        """
        await self._settle("server")
        await asyncio.gather(*self._fetches)
        self._fetches.clear()
        for step in self._open:
            if step.state == "running":
                known = bool(step.name)
                await self._finished(step, "interrupted" if known else "ok", NO_END)
        self._open.clear()

    async def stop(self) -> None:
        """The answer was cut off or interrupted: say no to what waits, and forget the rest."""
        fetches, self._fetches = self._fetches, set()
        for task in fetches:
            task.cancel()
        steps, self._open = self._open, []
        with suppress(JournalError):  # the end of the run meets the same journal, and says so
            await self._settle("interrupt")
            for step in steps:
                if step.state == "running":
                    await self._finished(step, "interrupted", CUT_OFF)
        await asyncio.gather(*fetches, return_exceptions=True)

    async def _begin(self, event: ServerCall) -> None:
        step = self._step_of(event.round, event.kind, lambda one: not one.name)
        if step is None:
            step = self._new(ServerStep(event.round, event.kind, told(event, self._host), event.name))
            await self._started(step)
        elif step.state == "running":
            step.name, step.told = event.name, told(event, self._host)
            await self._started(step)
        else:
            step.name = event.name

    async def _finish(self, event: ServerCall) -> None:
        step = self._step_of(event.round, event.kind, lambda one: one.name == event.name)
        step = step or self._step_of(event.round, event.kind, lambda one: not one.name)
        if step is None:
            step = self._new(ServerStep(event.round, event.kind, told(event, self._host), event.name))
            if event.kind == "record":
                step.began = time.monotonic()
            await self._started(step)
        if step.state == "waiting":  # it went on without an answer: time was up there
            await self._settle("server", step)
        self._open.remove(step)
        step.told = told(event, self._host, step.told)
        if step.state == "denied":
            await self._finished(step, "denied", "")
        else:
            await self._finished(step, step.told.outcome, step.told.summary)

    async def _ask(self, approval: ServerApproval, step: ServerStep) -> None:
        """Ask, and then say what came of it. A task of its own, which ends well however it ends."""
        said, why = await self._consent.ask(approval, step.id, asked(approval, self._host))
        if said == "allowed":
            step.state = "running"
            step.began = time.monotonic()
            step.told = ran_there(step.told, self._host)
            await self._started(step)
            why = await self._consent.deliver(approval)
            if not why:
                return
        step.state = "denied"
        await self._finished(step, "interrupted" if said == "interrupted" else "denied", why)

    async def _settle(self, by: Literal["server", "interrupt"], only: ServerStep | None = None) -> None:
        """Close the cards that wait."""
        ids = list(self._waits) if only is None else [only.id]
        waits = [self._waits.pop(one) for one in ids if one in self._waits]
        tasks = [task for _, task in waits]
        for approval_id, task in waits:
            if approval_id in self._consent.undecided:
                self._consent.closed_by = by
                task.cancel()
        if by == "interrupt" and tasks:
            _, late = await asyncio.wait(tasks, timeout=2 * LAST_WORD)
            for task in late:
                task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _keep(self, file: ServerFile) -> None:
        async with self._in_order:
            made = await self._shelf.take(file)
        await self._desk.emit(made)

    def _new(self, step: ServerStep) -> ServerStep:
        self._open.append(step)
        return step

    def _step_of(self, in_round: int, kind: str, fits: Callable[[ServerStep], bool]) -> ServerStep | None:
        """The oldest open step that an event may be about."""
        return next((one for one in self._open if (one.round, one.kind) == (in_round, kind) and fits(one)), None)

    async def _started(self, step: ServerStep) -> None:
        about = step.told
        await self._desk.emit(
            ToolStarted(
                call_id=step.id, name=_name(step), headline=about.headline, preview=about.preview, host=self._host
            )
        )

    async def _finished(
        self, step: ServerStep, outcome: Literal["ok", "error", "denied", "interrupted"], summary: str
    ) -> None:
        await self._desk.emit(
            ToolFinished(
                call_id=step.id,
                name=_name(step),
                headline=step.told.headline,
                outcome=outcome,
                summary=summary,
                seconds=round(time.monotonic() - step.began, 3),
                display=step.told.display,
                host=self._host,
            )
        )


def _name(step: ServerStep) -> str:
    return step.name or step.kind or "server_tool"
