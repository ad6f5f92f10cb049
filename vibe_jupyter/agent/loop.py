"""The loop: ask the model, run what it calls, give it the results, until it calls nothing more.

Every way out passes `_finish_run`, so that a run always ends with each call answered once, in call order, and one
`RunFinished` (docs/architecture.md, Invariants).
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

from vibe_jupyter.agent.agent import Agent, HookContext, PreparedPrompt, PromptParts, RunHooks, Subagent
from vibe_jupyter.agent.call_context import CallContext, DuplicateCalls, FailedCalls, Presence, ProgressStreams, shown
from vibe_jupyter.agent.history_keeper import HistoryKeeper
from vibe_jupyter.agent.limits import Budget, DenialLimit
from vibe_jupyter.agent.middleware import MiddlewareChain, StopRun, TurnState, Verdicts
from vibe_jupyter.agent.model_call import LimitExceeded, ModelCall, StreamingAnswer
from vibe_jupyter.agent.run import Run
from vibe_jupyter.agent.run_ending import HookedEnding
from vibe_jupyter.agent.told_results import recorded
from vibe_jupyter.errors import JournalError, ModelError, VibeError
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.permissions.redaction import PLACEHOLDER
from vibe_jupyter.protocol import (
    DURABLE_EVENTS,
    ApprovalRequested,
    AssistantMessage,
    Event,
    FinishReason,
    MessageAdded,
    Notice,
    RunFinished,
    RunStarted,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    TurnStarted,
    UserMessage,
)
from vibe_jupyter.session.conversation import Conversation, open_calls
from vibe_jupyter.tools.contract import TASK, SubagentReport, delegate_to_nobody

if TYPE_CHECKING:
    from vibe_jupyter.agent.delegation import Delegation, NestedRun, Work
    from vibe_jupyter.agent.tool_call import CallStatus

# What answers calls is imported with the first call, so that no first request waits for it.


def start_run(
    agent: Agent,
    conversation: Conversation,
    prompt: str,
    *,
    terms: RunTerms,
    context: str = "",
    run_hooks: RunHooks | None = None,
) -> Run:
    """A run that has not begun; iterate it on the engine loop.

    Args:
        agent: who runs.
        conversation: what was said before; the run adds to it.
        prompt: the user's words, unchanged.
        terms: what holds for this run only.
        context: what changed in the notebook since the last run; goes before the prompt in the same message.
        run_hooks: prepares the prompt; None for nobody.
    """

    async def work(run: Run) -> None:
        loop = AgentLoop(agent, conversation, terms, run)
        await loop.work(_prompt_parts(context), _prompt_parts(prompt), run_hooks)

    return Run(work)


def start_compaction(
    agent: Agent,
    conversation: Conversation,
    instructions: str,
    *,
    terms: RunTerms,
) -> Run:
    """A run that compacts the conversation and does nothing else; iterate it on the engine loop.

    Args:
        agent: whose model writes the summary.
        conversation: what is compacted.
        instructions: the user's own, for the summary.
        terms: what holds for this run only.
    """

    async def work(run: Run) -> None:
        loop = AgentLoop(agent, conversation, terms, run)
        await loop.compact_only(instructions)

    return Run(work)


class AgentLoop:
    """The state of one run while it goes."""

    def __init__(
        self, agent: Agent, conversation: Conversation, terms: RunTerms, run: Run, *, caller: Budget | None = None
    ) -> None:
        """
        Args:
            agent: who runs.
            conversation: what was said before.
            terms: what holds for this run only.
            run: gets the events, and has the decisions.
            caller: the budget of the run for which a sub-agent works; None for a run of its own.
        """
        self._agent = agent
        self._conversation = conversation
        self._run = run
        presence = Presence(terms.presence, emit=self._emit_event, known=None if terms.attended else False)
        self._ending = HookedEnding(agent.name, is_main=caller is None)
        self._progress = ProgressStreams(agent.redactor, run.show)
        self._call_context = CallContext(
            tools=agent.tools,
            permissions=agent.permissions,
            terms=terms,
            equal=DuplicateCalls(),
            failed=FailedCalls(),
            approvals=run.approvals,
            questions=run.questions,
            attended=presence.attended,
            emit=self._emit_event,
            show=self._progress.take,
            redactor=agent.redactor,
            results=conversation.folder,
            cancelled=lambda: run.interrupted,
            delegate=self._delegate if agent.find_subagent is not None else None,
            snapshots=agent.snapshots,
            newly_lost=agent.newly_lost,
            schema_only=agent.schema_only,
            model=f"{agent.model.name}@{agent.model.server.host}",
            waited_in=run.waited_in,
            turn=lambda: self._budget.turns,
            stop=self._ending.stop,
        )
        self._delegation = cache(lambda: _new_delegation(run, terms, self._run_subagent))
        """Made by the first call that delegates."""
        self._call_status = cache(_new_call_status)
        """Made by the first call."""
        self._began = time.monotonic()
        before = run.waited  # by the caller of a sub-agent; 0 for a run of its own
        self._waited = lambda: run.waited - before
        self._budget = Budget(agent.model, agent.middleware, waited=self._waited, caller=caller)
        self._keeper = HistoryKeeper(agent, conversation, call_context=self._call_context, budget=self._budget)
        self._chain = MiddlewareChain(agent.middleware, lambda text: self._notify("warning", text))
        self._stopped: StopRun | None = None
        """What a middleware said before the turn that is next."""
        self._model_call = ModelCall(
            agent, conversation, run=run, call_context=self._call_context, incoming=StreamingAnswer(self._budget)
        )
        self._denials = DenialLimit(lambda: presence.is_alone)

    async def work(self, context: PromptParts, words: PromptParts, run_hooks: RunHooks | None) -> None:
        """Do the whole run."""

        async def take_turns() -> FinishReason:
            if not await self._take_prompt(context, words, run_hooks):
                return "interrupted"
            while (ended := await self._run_turn()) is None:
                pass
            return ended

        prompt = "".join(part.text for part in words if isinstance(part, TextPart))
        await self._work(take_turns, prompt, run_hooks)

    async def compact_only(self, instructions: str) -> None:
        """Compact the conversation, as a run of its own."""

        async def compact() -> FinishReason:
            return "stop" if await self._run.guard(self._keeper.compact(instructions)) else "interrupted"

        await self._work(compact, "")

    async def _work(
        self, steps: Callable[[], Awaitable[FinishReason]], prompt: str, run_hooks: RunHooks | None = None
    ) -> None:
        reason: FinishReason = "interrupted"
        error = ""
        self._agent.redactor.look()  # the first event holds the prompt
        try:
            await self._emit_event(
                RunStarted(
                    run_id=self._run.id,
                    model=self._agent.model.alias,
                    provider=self._agent.model.server.host,
                    agent=self._agent.name,
                    prompt=prompt,
                    schema_only=self._agent.schema_only,
                )
            )
            reason = await steps()
        except VibeError as failure:
            reason, error = "error", str(failure)
        except BaseException as failure:
            reason, error = "error", f"{type(failure).__name__}: {failure}"
            raise
        finally:
            try:
                if run_hooks is not None:
                    await run_hooks.end()
            finally:
                await self._finish_run(reason, error)

    async def _take_prompt(self, context: PromptParts, words: PromptParts, run_hooks: RunHooks | None) -> bool:
        """Add the user's words to the history, with what goes with them; False when an interrupt came meanwhile."""
        prepared = PreparedPrompt()

        async def begin(hooks: RunHooks) -> None:
            nonlocal prepared
            hook_context = HookContext(self._call_context, self._agent.model, self._agent.client, self._budget)
            prepared = await hooks.begin(hook_context)

        goes_on = not self._run.interrupted if run_hooks is None else await self._run.guard(begin(run_hooks))
        words = words if prepared.instead is None else prepared.instead
        if run_hooks is not None:  # they may have run code, or read what is secret
            self._agent.redactor.look()
        around = self._agent.redactor.output(UserMessage(parts=(*context, *prepared.before))).parts
        typed = self._agent.redactor.value(UserMessage(parts=(*words,))).parts
        sent = UserMessage(parts=(*around, *typed))
        if goes_on:
            goes_on, notes = await self._before_turn((sent,))
            sent = sent.model_copy(update={"parts": (*sent.parts[: len(context)], *notes, *sent.parts[len(context) :])})
        added = MessageAdded(message=sent)
        await self._conversation.record(added)
        self._run.emit(added)
        if notice := _redacted(sent.parts[len(sent.parts) - len(words) :], words):
            await self._emit_event(Notice(level="warning", text=notice))
        return goes_on

    async def _before_turn(self, pending: tuple[UserMessage, ...] = ()) -> tuple[bool, PromptParts]:
        """Ask the middleware and keep the history within the window; False when an interrupt came meanwhile.

        Args:
            pending: the prompt that is about to be recorded.

        Returns:
            Also what the middleware has to say to the model.
        """
        state = self._turn_state(pending)
        verdicts = await self._chain.before_turn(state)
        self._stopped = verdicts.stop
        goes_on = True
        if verdicts.compact is not None:
            goes_on = await self._run.guard(self._keeper.compact(verdicts.compact.instructions, pending))
        elif verdicts.stop is None:
            await self._keeper.shorten(state.context, pending)
        return goes_on, await self._notes(verdicts)

    async def _run_turn(self) -> FinishReason | None:
        """One request and its calls; None when the model wants to go on."""
        if self._budget.turns:
            goes_on, notes = await self._before_turn()
            await self._add_notes(notes)
            if not goes_on:
                return "interrupted"
        if self._stopped is not None:
            return await self._stop(self._stopped)
        self._budget.turns += 1
        size = self._keeper.size()
        await self._emit_event(TurnStarted(turn=self._budget.turns, context=size.share if size.is_known else None))
        try:
            if not await self._run.guard(self._ask_model()):
                return "interrupted"
        except LimitExceeded as enough:
            return await self._stop(enough.stop)
        message = self._model_call.latest
        self._call_context.equal.begin(message.calls)
        answered = 0
        for calls in _together(message.calls):
            rest = message.calls[answered:]
            answered += len(calls)
            if not await self._run.guard(self._answer_calls(calls, rest)):
                return "interrupted"
        if self._denials.are_enough:
            return "refused"
        if self._ending.stopped is not None:
            return await self._stop(self._ending.stopped)
        return await self._after_turn(message)

    async def _after_turn(self, message: AssistantMessage) -> FinishReason | None:
        verdicts = await self._chain.after_turn(self._turn_state())
        notes = await self._notes(verdicts)
        await self._add_notes(notes)
        if verdicts.stop is not None:
            return await self._stop(verdicts.stop)
        if verdicts.compact is not None and not await self._run.guard(
            self._keeper.compact(verdicts.compact.instructions)
        ):
            return "interrupted"
        if message.calls or notes:
            return None
        if message.stop_reason == "length":
            return "length"
        return await self._ending.reason(message, self._call_context, self._run.guard)

    async def _ask_model(self) -> None:
        """Ask once, and once more where the conversation was too long for the model and could be compacted."""
        try:
            await self._model_call.ask()
        except ModelError as failure:
            if not await self._keeper.recover(failure):
                raise
            await self._model_call.ask()

    def _turn_state(self, pending: tuple[UserMessage, ...] = ()) -> TurnState:
        return TurnState(
            progress=self._budget.progress,
            context=self._keeper.size(pending),
            history=(*self._conversation.history, *pending),
            agent=self._agent.name,
        )

    async def _notes(self, verdicts: Verdicts) -> PromptParts:
        """Show the user what the middleware has to say; gives what the model is sent."""
        if not verdicts.messages:
            return ()
        for message in verdicts.messages:
            await self._notify("info", message.notice or message.text)
        return _prompt_parts(verdicts.note)

    async def _add_notes(self, notes: PromptParts) -> None:
        if notes:
            await self._emit_event(MessageAdded(message=self._agent.redactor.value(UserMessage(parts=notes))))

    async def _notify(self, level: Literal["info", "warning"], text: str) -> None:
        await self._emit_event(Notice(level=level, text=text))

    async def _stop(self, stop: StopRun) -> FinishReason:
        await self._notify(stop.level, stop.notice)
        return stop.reason

    async def _answer_calls(self, calls: Sequence[ToolCall], rest: Sequence[ToolCall]) -> None:
        """Answer calls at once, if there are several, and record their results in the order of the calls.

        Args:
            calls: those that are answered now.
            rest: these and all that come after them.
        """
        from vibe_jupyter.agent.tool_call import answer_call  # noqa: PLC0415

        if len(calls) == 1:
            if len(rest) > 1:
                from vibe_jupyter.agent.review import review_changes  # noqa: PLC0415

                await review_changes(rest, self._call_context)
            await self._record_answer(calls[0], await answer_call(calls[0], self._call_context))
            return
        tasks = [asyncio.ensure_future(answer_call(call, self._call_context)) for call in calls]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for call, task in zip(calls, tasks, strict=True):
            if task.cancelled():
                raise asyncio.CancelledError
            await self._record_answer(call, task.result())

    async def _record_answer(self, call: ToolCall, answer: tuple[ToolMessage, bool]) -> None:
        message, denied = answer
        self._denials.note(call, denied=denied)
        await self._emit_event(MessageAdded(message=message))

    async def _delegate(self, call_id: str, name: str, task: str) -> SubagentReport:
        if self._agent.find_subagent is None:
            return await delegate_to_nobody(name, task)
        return await self._delegation().delegate(await self._agent.find_subagent(name), call_id, task)

    async def _run_subagent(self, subagent: Subagent, terms: RunTerms, run: "NestedRun", name: str, task: str) -> None:
        from vibe_jupyter.agent.delegation import SUBAGENTS  # noqa: PLC0415

        conversation = await asyncio.to_thread(self._conversation.beside, SUBAGENTS, name)
        try:
            loop = AgentLoop(subagent.agent, conversation, terms, run, caller=self._budget)
            await loop.work((), _prompt_parts(task), None)
        finally:
            await asyncio.to_thread(conversation.journal.close)

    async def _finish_run(self, reason: FinishReason, error: str) -> None:
        """Close what is open; if the journal cannot take it, at least the conversation in memory stays valid."""
        try:
            await self._model_call.keep_partial(in_history=True)
        except JournalError as failure:
            reason, error = "error", str(failure)
        for call in open_calls(self._conversation.history):
            for event in self._call_status().closing(call, self._call_context.tools):
                try:
                    await self._emit_event(event)
                except JournalError as failure:
                    reason, error = "error", str(failure)
                    self._conversation.apply(event)
                    self._run.emit(event)
        finished = RunFinished(
            reason=reason,
            turns=self._budget.turns,
            seconds=round(max(0.0, time.monotonic() - self._began - self._waited()), 3),
            waited=round(self._waited(), 3),
            usage=self._budget.total,
            cost=self._budget.cost,
            error=error,
            changed=self._agent.snapshots.changes if self._agent.snapshots is not None else (),
        )
        try:
            await self._emit_event(finished)
        except JournalError:
            self._conversation.apply(finished)
            self._run.emit(finished)

    async def _emit_event(self, event: Event) -> None:
        """Write a durable event to disk before anyone acts on it, then show it."""
        if isinstance(event, ToolStarted | ToolFinished):
            self._call_status().note(event)
        if isinstance(event, ApprovalRequested):
            self._progress.drop(event.call.id)
        kept = self._agent.redactor.event(event)
        if isinstance(kept, DURABLE_EVENTS):
            await self._conversation.record(recorded(kept) if self._agent.schema_only else kept)
        self._run.emit(shown(event, kept))
        for text in self._agent.redactor.news():
            await self._emit_event(Notice(level="warning", text=text))


def _together(calls: Sequence[ToolCall]) -> Iterator[Sequence[ToolCall]]:
    """Calls of one answer, each alone, but for those of sub-agents in a row."""
    for is_task, group in itertools.groupby(calls, lambda call: call.name == TASK):
        if is_task:
            yield tuple(group)
        else:
            yield from ((call,) for call in group)


def _redacted(sent: PromptParts, words: PromptParts) -> str:
    """What to say of secrets in the user's own prompt; empty where there are none."""
    texts = [
        (new.text, old.text)
        for new, old in zip(sent, words, strict=True)
        if isinstance(new, TextPart) and isinstance(old, TextPart)
    ]
    stand = [found[0] for new, old in texts for found in PLACEHOLDER.finditer(new) if found[0] not in old]
    if not stand:
        return ""
    kind = stand[0].removeprefix("[redacted: ").rpartition(",")[0]
    return (
        f"Your prompt contains what looks like a secret; the model got {', '.join(dict.fromkeys(stand))} in its place. "
        f'If it is none, make an exception in your config.toml: [privacy] allow = ["{kind}"].'
    )


def _new_delegation(run: Run, terms: RunTerms, work: "Work") -> "Delegation":
    from vibe_jupyter.agent.delegation import Delegation  # noqa: PLC0415

    return Delegation(run, terms, work)


def _new_call_status() -> "CallStatus":
    from vibe_jupyter.agent.tool_call import CallStatus  # noqa: PLC0415

    return CallStatus()


def _prompt_parts(text: str) -> PromptParts:
    return (TextPart.model_construct(text=text),) if text else ()
