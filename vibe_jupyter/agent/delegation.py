"""Sub-agents: nested runs with their own history that use the caller's approvals and budget.

The conversation of a sub-agent is journaled next to the caller's. The caller's view shows its steps and cards; the
caller's history gets only its answer.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from vibe_jupyter.agent.agent import Subagent
from vibe_jupyter.agent.run import Run
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Event,
    FinishReason,
    Headline,
    MessageAdded,
    Notice,
    RunFinished,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from vibe_jupyter.tools.contract import SubagentReport

SUBAGENTS: Final = "subagents"  # directory next to the caller's journal
AT_ONCE: Final = 4  # concurrent sub-agents of one run; further ones wait
_NOT_IN_NAMES: Final = lazy_pattern(r"[^\w-]+")


class NestedRun(Run):
    """The run of a sub-agent. Decisions reach it through the caller's run, and an interrupt of the caller ends it."""

    def __init__(self, caller: Run, call_id: str, agent: str) -> None:
        async def no_work(_run: Run) -> None: ...

        super().__init__(no_work)
        self.approvals = caller.approvals
        self.questions = caller.questions
        self.waits = caller.waits
        self.texts: list[str] = []  # text of each answer of the sub-agent
        self.finished: RunFinished | None = None
        self._caller = caller
        self._call_id = call_id
        self._agent = agent

    @property
    def interrupted(self) -> bool:
        """True if the caller was interrupted."""
        return self._caller.interrupted

    @interrupted.setter
    def interrupted(self, value: bool) -> None:
        """Ignore the value: only the caller can be interrupted."""

    def emit(self, event: Event) -> None:
        """Collect the answer, and forward events for the user to the caller's run."""
        match event:
            case MessageAdded(message=AssistantMessage() as message):
                self.texts.append(message.text)
            case RunFinished():
                self.finished = event
            case ToolStarted() | ToolFinished():
                headline = self._labelled(event.headline)
                self._caller.emit(
                    event.model_copy(update={"call_id": self._nested(event.call_id), "headline": headline})
                )
            case ApprovalRequested():
                self._caller.emit(self._nested_card(event))
            case ApprovalResolved():
                self._caller.emit(event.model_copy(update={"call_id": self._nested(event.call_id)}))
            case Notice():
                self._caller.emit(event.model_copy(update={"text": f"{self._agent}: {event.text}"}))
            case _:
                pass

    def show(self, progress: ToolProgress) -> None:
        """Forward progress of a tool to the caller's run. Thread-safe."""
        self._caller.show(progress.model_copy(update={"call_id": self._nested(progress.call_id)}))

    def waited_in(self, call_id: str) -> float:
        """Return the seconds that a call of the sub-agent waited for the user."""
        return self._caller.waited_in(self._nested(call_id))

    async def guard(self, step: Coroutine[Any, Any, None]) -> bool:
        """Run a step that is cancelled with the caller's step. Returns False after a cancellation or interrupt."""
        task = asyncio.ensure_future(step)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # Not re-raised, so that the sub-agent's run can still record its end.
            task.cancel()
            await asyncio.wait([task])
            return False
        if task.cancelled():
            return False
        task.result()
        return not self.interrupted

    def _nested_card(self, card: ApprovalRequested) -> ApprovalRequested:
        call = card.call.model_copy(update={"id": self._nested(card.call.id)})
        changed: dict[str, object] = {"call": call, "headline": self._labelled(card.headline)}
        if card.kept is not None:
            changed["kept"] = self._nested_card(card.kept)
        return card.model_copy(update=changed)

    def _labelled(self, headline: Headline) -> Headline:
        note = f"{headline.note} · {self._agent}" if headline.note else f"({self._agent})"
        return headline.model_copy(update={"note": note})

    def _nested(self, call_id: str) -> str:
        """Prefix a call id with the caller's, because two sub-agents may use the same ids."""
        return f"{self._call_id}/{call_id}"


_LIMITS: Final[Mapping[FinishReason, str]] = {
    "turn_limit": "turns",
    "price_limit": "the price",
    "token_limit": "tokens",
    "time_limit": "time",
}
# Runs a sub-agent to its end. Takes the sub-agent, the terms, the run, the name of its journal, and the task.
Work = Callable[[Subagent, RunTerms, NestedRun, str, str], Awaitable[None]]


class Delegation:
    """Sub-agents of one run. Engine loop only."""

    def __init__(self, run: Run, terms: RunTerms, work: Work) -> None:
        self._run = run
        self._terms = terms
        self._work = work
        self._free = asyncio.Semaphore(AT_ONCE)

    async def delegate(self, subagent: Subagent, call_id: str, task: str) -> SubagentReport:
        """Run a task in a sub-agent. Failures of its run are part of the report."""
        terms = self._terms._replace(levels=subagent.levels, only_reads=subagent.only_reads)
        nested = NestedRun(self._run, call_id, subagent.agent.name)
        name = f"{_NOT_IN_NAMES.sub('_', call_id)[:64]}-{secrets.token_hex(4)}"
        async with self._free:
            await self._work(subagent, terms, nested, name, task)
        return _report(nested)


def _report(nested: NestedRun) -> SubagentReport:
    ended = nested.finished
    return SubagentReport(
        response="\n\n".join(filter(None, nested.texts)),
        turns_used=ended.turns if ended is not None else 0,
        completed=ended is not None and ended.reason == "stop",
        cost=ended.cost if ended is not None else None,
        error=ended.error if ended is not None else "",
        limit=_LIMITS.get(ended.reason, "") if ended is not None else "",
    )
