"""Sub-agents: a run inside a run, with a history of its own, the caller's approvals and the caller's budget.

What a sub-agent says and does is journaled beside the caller's conversation. The caller's view gets its steps and its
cards; the caller's history gets its answer alone.
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

SUBAGENTS: Final = "subagents"
"""Folder beside the caller's journal."""
AT_ONCE: Final = 4
"""Sub-agents of one run that work at the same time; further ones wait."""
_NOT_IN_NAMES: Final = lazy_pattern(r"[^\w-]+")


class NestedRun(Run):
    """The run of a sub-agent. Decisions reach it through the caller's run; an interrupt of that one ends it."""

    def __init__(self, caller: Run, call_id: str, agent: str) -> None:
        async def no_work(_run: Run) -> None: ...

        super().__init__(no_work)
        self.approvals = caller.approvals
        self.questions = caller.questions
        self.waits = caller.waits
        self.texts: list[str] = []
        """What the sub-agent said, answer by answer."""
        self.finished: RunFinished | None = None
        self._caller = caller
        self._call_id = call_id
        self._agent = agent

    @property
    def interrupted(self) -> bool:
        """Whether someone asked for the end of the caller."""
        return self._caller.interrupted

    @interrupted.setter
    def interrupted(self, value: bool) -> None:
        """The caller alone is interrupted."""

    def emit(self, event: Event) -> None:
        """Keep what the answer is made of; pass on what the user sees."""
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
        """Hand out progress of a tool; callable from any thread."""
        self._caller.show(progress.model_copy(update={"call_id": self._nested(progress.call_id)}))

    def waited_in(self, call_id: str) -> float:
        """Return the seconds in which one call of the sub-agent waited for the user."""
        return self._caller.waited_in(self._nested(call_id))

    async def guard(self, step: Coroutine[Any, Any, None]) -> bool:
        """Do a step; False when the caller's own step was ended, and this one with it."""
        task = asyncio.ensure_future(step)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
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
        """Two sub-agents may use the same ids."""
        return f"{self._call_id}/{call_id}"


_LIMITS: Final[Mapping[FinishReason, str]] = {
    "turn_limit": "turns",
    "price_limit": "the price",
    "token_limit": "tokens",
    "time_limit": "time",
}
Work = Callable[[Subagent, RunTerms, NestedRun, str, str], Awaitable[None]]
"""Takes a sub-agent's run to its end: who works, what holds, the run, the name of its journal, and the task."""


class Delegation:
    """The sub-agents of one run. Engine loop only."""

    def __init__(self, run: Run, terms: RunTerms, work: Work) -> None:
        self._run = run
        self._terms = terms
        self._work = work
        self._free = asyncio.Semaphore(AT_ONCE)

    async def delegate(self, subagent: Subagent, call_id: str, task: str) -> SubagentReport:
        """Have it do the task; what goes wrong in its run is in the report."""
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
