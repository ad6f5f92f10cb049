"""The agent loop: send a request, run the tool calls in the answer, send their results, until there are no more calls.

Every exit goes through `_finish_run`, so that a run always ends with exactly one result per call, in call order, and
one `RunFinished` (docs/architecture.md, Invariants).
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from vibe_jupyter.agent.agent import Agent, HookContext, PreparedPrompt, PromptParts, RunHooks, Subagent
from vibe_jupyter.agent.call_context import CallContext, DuplicateCalls, FailedCalls, Presence, ProgressStreams, shown
from vibe_jupyter.agent.context_size import ContextSize
from vibe_jupyter.agent.history_keeper import HistoryKeeper
from vibe_jupyter.agent.limits import Budget, DenialLimit, LimitExceeded
from vibe_jupyter.agent.middleware import MiddlewareChain, StopRun, TurnState, Verdicts
from vibe_jupyter.agent.model_call import ModelCall, StreamingAnswer
from vibe_jupyter.agent.run import Run
from vibe_jupyter.agent.run_ending import HookedEnding
from vibe_jupyter.agent.told_results import recorded
from vibe_jupyter.errors import JournalError, ModelError, VibeError
from vibe_jupyter.files.truncation import section
from vibe_jupyter.llm.request import ModelReply
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.permissions.redaction import PLACEHOLDER
from vibe_jupyter.protocol import (
    DURABLE_EVENTS,
    NOTE,
    ApprovalRequested,
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
    from vibe_jupyter.agent.unfinished_replies import UnfinishedReplies

# Modules for answering calls are imported with the first call, so that they don't delay the first request.


def start_run(
    agent: Agent,
    conversation: Conversation,
    prompt: str,
    *,
    terms: RunTerms,
    context: str = "",
    run_hooks: RunHooks | None = None,
) -> Run:
    """Create a run that has not started. Iterate over it on the engine loop.

    Args:
        agent: agent to run.
        conversation: previous conversation, to which the run adds.
        prompt: text of the user, unchanged.
        terms: conditions of this run only.
        context: changes in the notebook since the previous run, placed before the prompt in the same message.
        run_hooks: hooks that prepare the prompt, or None.
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
    """Create a run that only compacts the conversation. Iterate over it on the engine loop.

    Args:
        agent: agent whose model writes the summary.
        conversation: conversation to compact.
        instructions: the user's own instructions for the summary.
        terms: conditions of this run only.
    """

    async def work(run: Run) -> None:
        loop = AgentLoop(agent, conversation, terms, run)
        await loop.compact_only(instructions)

    return Run(work)


class AgentLoop:
    """State of a run in progress."""

    def __init__(
        self, agent: Agent, conversation: Conversation, terms: RunTerms, run: Run, *, caller: Budget | None = None
    ) -> None:
        """
        Args:
            agent: agent to run.
            conversation: previous conversation.
            terms: conditions of this run only.
            run: receives the events, and provides the decisions.
            caller: for a sub-agent, the budget of the calling run; else None.
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
            cancelled=lambda: run.interrupted or self._budget.is_time_up,
            is_time_up=lambda: self._budget.is_time_up,
            delegate=self._delegate if agent.find_subagent is not None else None,
            snapshots=agent.snapshots,
            newly_lost=agent.newly_lost,
            schema_only=agent.schema_only,
            model=f"{agent.model.name}@{agent.model.server.host}",
            waited_in=run.waited_in,
            turn=lambda: self._budget.turns,
            stop=self._ending.stop,
        )
        # Created by the first call that delegates
        self._delegation = cache(lambda: _new_delegation(run, terms, self._run_subagent))
        self._call_status = cache(_new_call_status)  # created by the first call
        self._began = time.monotonic()
        before = run.waited  # time that the caller of a sub-agent has already waited; 0 for a main run
        self._waited = lambda: run.waited - before
        self._budget = Budget(agent.model, agent.middleware, waited=self._waited, caller=caller)
        self._keeper = HistoryKeeper(agent, conversation, call_context=self._call_context, budget=self._budget)
        self._chain = MiddlewareChain(
            agent.middleware, lambda text: self._emit_event(Notice(level="warning", text=text))
        )
        self._stopped: StopRun | None = None  # set if a middleware ends the run before the next turn
        self._model_call = ModelCall(
            agent, conversation, run=run, call_context=self._call_context, incoming=StreamingAnswer(self._budget)
        )
        self._unfinished = cache(lambda: _new_unfinished(f"{agent.model.name} on {agent.model.server.host}"))
        self._denials = DenialLimit(lambda: presence.is_alone)
        self._took: dict[str, float] = {}  # seconds of each call of the latest answer, by call id

    async def work(self, context: PromptParts, words: PromptParts, run_hooks: RunHooks | None) -> None:
        """Run a prompt to its end."""

        async def take_turns() -> FinishReason:
            if not await self._take_prompt(context, words, run_hooks):
                return "interrupted"
            while (ended := await self._run_turn()) is None:
                pass
            return ended

        prompt = "".join(part.text for part in words if isinstance(part, TextPart))
        await self._work(take_turns, prompt, run_hooks)

    async def compact_only(self, instructions: str) -> None:
        """Compact the conversation in a run without a prompt."""

        async def compact() -> FinishReason:
            return "stop" if await self._run.guard(self._keeper.compact(instructions)) else "interrupted"

        await self._work(compact, "")

    async def _work(
        self, steps: Callable[[], Awaitable[FinishReason]], prompt: str, run_hooks: RunHooks | None = None
    ) -> None:
        reason: FinishReason = "interrupted"
        error = ""
        self._agent.redactor.look()  # the first event contains the prompt
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
        """Add the prompt and its context to the history. Returns False if an interrupt arrived meanwhile."""
        prepared = PreparedPrompt()

        async def begin(hooks: RunHooks) -> None:
            nonlocal prepared
            hook_context = HookContext(self._call_context, self._agent.model, self._agent.client, self._budget)
            prepared = await hooks.begin(hook_context)

        goes_on = not self._run.interrupted if run_hooks is None else await self._run.guard(begin(run_hooks))
        words = words if prepared.instead is None else prepared.instead
        if run_hooks is not None:  # hooks may have run code or read secrets
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
        """Run the middleware, and keep the history within the context window.

        Args:
            pending: prompt that is about to be recorded.

        Returns:
            Whether to continue (False after an interrupt), and the middleware's messages for the model.
        """
        state = self._turn_state(pending)
        verdicts = await self._chain.before_turn(state)
        self._stopped = verdicts.stop
        goes_on = True
        if verdicts.compact is not None:
            compaction = self._keeper.compact(verdicts.compact.instructions, pending)
            try:
                goes_on = await self._run.guard(self._budget.within_time(compaction))
            except LimitExceeded as enough:
                self._stopped = enough.stop
        elif verdicts.stop is None:
            await self._keeper.shorten(state.context, pending)
        return goes_on, await self._notes(verdicts)

    async def _run_turn(self) -> FinishReason | None:
        """Make one request and answer its calls. Returns None if the run continues."""
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
            is_whole = await self._run.guard(self._ask_model(size)) and await self._answer_turn()
            if not is_whole:
                return "interrupted"
            if self._denials.are_enough:
                return "refused"
            if self._ending.stopped is not None:
                return await self._stop(self._ending.stopped)
            return await self._after_turn(self._model_call.latest)
        except LimitExceeded as enough:
            return await self._stop(enough.stop)

    async def _answer_turn(self) -> bool:
        """Answer the calls of the latest answer. Returns False if an interrupt arrived meanwhile.

        Raises:
            LimitExceeded: the run is out of time, and the active call has ended.
        """
        made = self._model_call.latest.message.calls
        self._call_context.equal.begin(made)
        self._took.clear()
        answered = 0
        for calls in _together(made):
            rest = made[answered:]
            answered += len(calls)
            if not await self._run.guard(self._budget.within_time(self._answer_calls(calls, rest))):
                return False
        return True

    async def _after_turn(self, reply: ModelReply) -> FinishReason | None:
        verdicts = await self._chain.after_turn(self._turn_state())
        notes = await self._notes(verdicts)
        await self._add_notes(notes)
        if verdicts.stop is not None:
            return await self._stop(verdicts.stop)
        if verdicts.compact is not None and not await self._run.guard(
            self._budget.within_time(self._keeper.compact(verdicts.compact.instructions))
        ):
            return "interrupted"
        more = self._unfinished().take(reply)
        if more is not None and more.note:
            await self._emit_event(Notice(level="warning", text=more.notice))
            await self._add_notes(_prompt_parts(section(NOTE, more.note)))
        if more is not None or notes:
            return None
        if reply.message.stop_reason == "length":
            return "length"
        return await self._ending.reason(reply.message, self._call_context, self._run.guard)

    async def _ask_model(self, size: ContextSize) -> None:
        """Make a request. After a context-length error, compact the conversation and retry once."""
        try:
            await self._budget.within_time(self._model_call.ask(size))
        except ModelError as failure:
            if not await self._budget.within_time(self._keeper.recover(failure)):
                raise
            await self._budget.within_time(self._model_call.ask(self._keeper.size()))

    def _turn_state(self, pending: tuple[UserMessage, ...] = ()) -> TurnState:
        return TurnState(
            progress=self._budget.progress,
            context=self._keeper.size(pending),
            history=(*self._conversation.history, *pending),
            agent=self._agent.name,
            seconds=self._took,
        )

    async def _notes(self, verdicts: Verdicts) -> PromptParts:
        """Show the middleware's messages to the user, and return those for the model."""
        if not verdicts.messages:
            return ()
        for message in verdicts.messages:
            await self._emit_event(Notice(level="info", text=message.notice or message.text))
        return _prompt_parts(verdicts.note)

    async def _add_notes(self, notes: PromptParts) -> None:
        if notes:
            await self._emit_event(MessageAdded(message=self._agent.redactor.value(UserMessage(parts=notes))))

    async def _stop(self, stop: StopRun) -> FinishReason:
        await self._emit_event(Notice(level=stop.level, text=stop.notice))
        return stop.reason

    async def _answer_calls(self, calls: Sequence[ToolCall], rest: Sequence[ToolCall]) -> None:
        """Answer calls, concurrently if there are several, and record their results in call order.

        Args:
            calls: calls to answer now.
            rest: these and all later calls of the answer.
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
        """Close open calls and emit `RunFinished`.

        If the journal fails, at least the conversation in memory stays valid.
        """
        try:
            await self._model_call.keep_partial(in_history=True)
        except JournalError as failure:
            reason, error = "error", str(failure)
        for call in open_calls(self._conversation.history):
            for event in self._call_status().closing(
                call, self._call_context.tools, is_time_up=self._budget.is_time_up
            ):
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
        if isinstance(event, ToolFinished):
            self._took[event.call_id] = event.seconds
        if isinstance(event, ApprovalRequested):
            self._progress.drop(event.call.id)
        kept = self._agent.redactor.event(event)
        if isinstance(kept, DURABLE_EVENTS):
            await self._conversation.record(recorded(kept) if self._agent.schema_only else kept)
        self._run.emit(shown(event, kept))
        for text in self._agent.redactor.news():
            await self._emit_event(Notice(level="warning", text=text))


def _together(calls: Sequence[ToolCall]) -> Iterator[Sequence[ToolCall]]:
    """Group the calls of one answer: consecutive sub-agents together, every other call alone."""
    for is_task, group in itertools.groupby(calls, lambda call: call.name == TASK):
        if is_task:
            yield tuple(group)
        else:
            yield from ((call,) for call in group)


def _redacted(sent: PromptParts, words: PromptParts) -> str:
    """Return a notice about secrets in the user's own prompt, or '' if there are none."""
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


def _new_unfinished(model: str) -> "UnfinishedReplies":
    from vibe_jupyter.agent.unfinished_replies import UnfinishedReplies  # noqa: PLC0415

    return UnfinishedReplies(model)


def _new_call_status() -> "CallStatus":
    from vibe_jupyter.agent.tool_call import CallStatus  # noqa: PLC0415

    return CallStatus()


def _prompt_parts(text: str) -> PromptParts:
    return (TextPart.model_construct(text=text),) if text else ()
