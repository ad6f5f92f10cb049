"""Fit the history of a conversation into the context window: measure it, shorten it, compact it.

Each rewrite is one durable event (`HistoryRewritten`) between the start and end of a step that the user sees. The old
history remains in use until that event is on disk.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from vibe_jupyter.agent.agent import Agent, system_prompt
from vibe_jupyter.agent.call_context import CallContext, StepOutcome, ToolStep
from vibe_jupyter.agent.compaction import (
    FITS,
    SUMMARY_LIMIT,
    SUMMARY_SHARE,
    carry_over,
    compacted_history,
    kept_transcript,
    latest_messages,
    summary_request,
)
from vibe_jupyter.agent.context_size import CHARACTERS_PER_TOKEN, ContextMeter, ContextSize, count_messages
from vibe_jupyter.agent.limits import Budget
from vibe_jupyter.errors import ModelError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.llm.request import ModelReply, ModelRequestTerms
from vibe_jupyter.protocol import (
    AssistantMessage,
    Headline,
    HistoryEdit,
    HistoryRewritten,
    Message,
    MimeBundle,
    SystemMessage,
)
from vibe_jupyter.session.conversation import Conversation, check_history

COMPACT_STEP: Final = "compact"  # shown in the place of a tool name
SHORTEN_STEP: Final = "shorten"  # likewise
LEAST_WINDOW: Final = 4_096  # tokens; the rejection of a smaller request doesn't reveal the context window


class HistoryKeeper:
    """Size control for the history of one run. Engine loop only."""

    def __init__(
        self,
        agent: Agent,
        conversation: Conversation,
        *,
        call_context: CallContext,
        budget: Budget,
    ) -> None:
        self._agent = agent
        self._conversation = conversation
        self._call_context = call_context
        self._budget = budget
        self._terms = agent.compaction
        self._meter = ContextMeter(conversation, agent.model, agent.instructions)
        self._tried_at = 0  # tokens at the latest attempt to shorten

    def size(self, pending: Sequence[Message] = ()) -> ContextSize:
        """Return the size of the next request, including messages that are about to be added."""
        return self._meter.size(self._agent.tools.specs, pending)

    async def shorten(self, size: ContextSize, pending: Sequence[Message] = ()) -> None:
        """Replace old results and images with one-line stubs, if the context window is filling up and it frees enough.

        Args:
            size: size of the next request.
            pending: messages that are about to be added.
        """
        if not size.may_be_shortened:
            return
        from vibe_jupyter.agent.shortening import WORTH, plan_shortening  # noqa: PLC0415 - short conversations fit

        if size.tokens - self._tried_at < WORTH * size.window:
            return
        self._tried_at = size.tokens
        history = self._conversation.history
        plan = plan_shortening(
            history,
            self._call_context.results,
            pending=len(pending),
            sees_images=self._agent.model.sees_images,
        )
        if plan.freed < WORTH * size.window:
            return
        note = " and ".join(
            f"{count} {word}{'s' * (count != 1)}"
            for count, word in ((plan.results, "old result"), (plan.pictures, "old picture"))
            if count
        )
        headline = Headline(verb="Shortened", doing="Shortening", asking="Shorten", target="", note=note)
        step = ToolStep(SHORTEN_STEP, headline)
        await self._call_context.emit(step.started())
        after = size.tokens - plan.freed
        event = HistoryRewritten(
            kind="shortened",
            length=len(history),
            edits=plan.edits,
            tokens_before=size.tokens,
            tokens_after=after,
        )
        await self._call_context.emit(event)
        await self._call_context.emit(step.finished("ok", _change_text(size.tokens, after)))

    async def compact(self, instructions: str = "", pending: Sequence[Message] = ()) -> None:
        """Replace the history with a summary.

        Args:
            instructions: the user's own instructions for the summary.
            pending: messages that are about to be added.

        Raises:
            ModelError: the model server failed. The history is unchanged.
        """
        history = self._conversation.history
        if not history:
            return
        size = self.size(pending)
        headline = Headline(verb="Compacted", doing="Compacting", asking="Compact", target="", note="the conversation")
        step = ToolStep(COMPACT_STEP, headline)
        await self._call_context.emit(step.started())
        outcome: StepOutcome = "interrupted"
        summary = said = ""
        try:
            summary = await self._summary(history, size, instructions)
            said = _change_text(size.tokens, await self._put_summary(summary, history, size))
            outcome = "ok"
        except ModelError as failure:
            outcome, said = "error", str(failure)
            raise
        finally:
            shown: MimeBundle = {"text/markdown": summary} if summary else {}
            await self._call_context.emit(step.finished(outcome, said, display=shown))

    async def recover(self, failure: ModelError) -> bool:
        """Compact the history after a context-length error. Returns whether to retry the request."""
        size = self.size()
        if failure.kind != "overflow" or not self._terms.on_overflow or not self._conversation.history:
            return False
        if self._agent.model.context_window is None and size.tokens >= LEAST_WINDOW:
            self._conversation.overflowed_at = size.tokens
        await self.compact()
        return self.size().tokens < size.tokens

    async def _put_summary(self, summary: str, history: tuple[Message, ...], size: ContextSize) -> int:
        """Replace the history, and return the estimated tokens of a request after that."""
        room = int(SUMMARY_SHARE * size.window)
        tail = latest_messages(history, room=room)
        carried = carry_over(
            history, self._conversation.carried, self._agent.tools, window=size.window, left_out=len(tail)
        )
        new = compacted_history(
            head_and_tail(summary, min(SUMMARY_LIMIT, room * CHARACTERS_PER_TOKEN)),
            carried,
            tail,
            whole=kept_transcript(history, self._call_context.results),
            report=await self._terms.report(),
        )
        check_history(new)
        kept = size.tokens - count_messages(history, sees_images=self._agent.model.sees_images)
        after = max(0, kept) + count_messages(new, sees_images=self._agent.model.sees_images)
        edit = HistoryEdit(at=0, length=len(history), by=new)
        event = HistoryRewritten(
            kind="compacted",
            length=len(history),
            edits=(edit,),
            tokens_before=size.tokens,
            tokens_after=after,
            carried=carried,
        )
        await self._call_context.emit(event)
        self._tried_at = 0
        return after

    async def _summary(self, history: tuple[Message, ...], size: ContextSize, instructions: str) -> str:
        """Return the model's summary, or '' if it writes nothing or calls a tool instead."""
        model = self._terms.model or self._agent.model
        prompt = self._terms.prompt() if self._terms.prompt is not None else system_prompt("compact")
        prompt += f"\n\nThe user adds: {instructions}" if instructions else ""
        prompt = self._agent.redactor(prompt)
        system = SystemMessage(text=self._agent.instructions)
        room = int(FITS * min(size.window, model.context_window or size.window))
        fits = size.tokens <= room
        # After a context-length error, retry once with a transcript that takes at most half the room.
        for most in (room, room // 2):
            messages, is_whole = summary_request(history, system, prompt, room=most, may_be_whole=fits)
            tools = tuple(self._agent.tools.specs()) if is_whole else ()
            request = ModelRequestTerms(
                model=model, messages=messages, tools=tools, stream=self._agent.stream, tool_choice="none"
            )
            try:
                if summary := await self._answer(request):
                    return summary
                break
            except ModelError as failure:
                if failure.kind == "empty":
                    break
                if failure.kind != "overflow":
                    raise
                fits = False
        if self._terms.must_succeed:
            raise ModelError(
                "The model wrote no summary of the conversation. Try again, or set "
                "raise_on_compaction_failure = false to go on without one.",
                kind="empty",
            )
        return ""

    async def _answer(self, request: ModelRequestTerms) -> str:
        answer: AssistantMessage | None = None
        async with aclosing(self._agent.client.answer(request)) as items:
            async for item in items:
                if isinstance(item, ModelReply):
                    answer = item.message
        if answer is None:
            return ""
        self._budget.add(answer.usage)
        return answer.text.strip()


def _change_text(before: int, after: int) -> str:
    return f"{before:,} → {after:,} tokens"
