"""A request to the model: streaming its answer, and adding it to the history.

A single chunk is shown in the same iteration of the event loop. If a fast server or a busy machine queues several
chunks, they are redacted together, which costs little more than one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Final

from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.call_context import CallContext
from vibe_jupyter.agent.context_size import CHARACTERS_PER_TOKEN, LEAST_SHARE, ContextSize, usage_or_estimate
from vibe_jupyter.agent.limits import Budget, LimitExceeded
from vibe_jupyter.agent.run import Run
from vibe_jupyter.errors import ModelError, ModelErrorKind
from vibe_jupyter.files.truncation import section
from vibe_jupyter.llm.hosted_events import (
    CountsSoFar,
    HeldBack,
    HostedCall,
    HostedCallRequest,
    HostedFile,
    HostedSession,
    Piece,
)
from vibe_jupyter.llm.request import AnswerLimits, ModelReply, ModelRequestTerms, RetryScheduled
from vibe_jupyter.permissions.redaction import RedactedStream, Redactor
from vibe_jupyter.protocol import (
    NOTE,
    AssistantMessage,
    MessageAdded,
    Notice,
    ReasoningDelta,
    RequestSent,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallDelta,
    Usage,
    UserMessage,
)
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.session.conversation import Conversation

if TYPE_CHECKING:
    from vibe_jupyter.agent.answer_watch import AnswerWatch
    from vibe_jupyter.agent.hosted_tools import HostedTools

ESTIMATE_STEP: Final = 4_000  # characters of an answer between two estimates of its tokens
# Failures after which a request is retried, with the notice for the user each time
ASKED_AGAIN: Final[Mapping[ModelErrorKind, tuple[str, ...]]] = {
    "truncated": ("Connection lost; retrying.",),
    "bad_json": ("The answer was not valid JSON; retrying once.",),
    "provider": ("The server failed while it answered; retrying.", "The server failed again; retrying once more."),
    "empty": (
        "The model answered with nothing; asking again.",
        "The model answered with nothing again; asking once more, with a hint.",
    ),
}
NUDGED_AFTER: Final = 2  # consecutive empty answers
# Sent with the last retry after empty answers. Not recorded.
NUDGE: Final = (
    "Your last answer was empty: it held neither text nor a tool call outside of your thoughts. Go on with the task: "
    "call a tool, or say in plain text what you found."
)


class StreamingAnswer:
    """Text and usage of the answer that is streaming in. Engine loop only."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._text: list[str] = []
        self._used = Usage()  # latest counts from the server; most send none before the end
        self._characters = 0  # of the answer so far, including reasoning and calls
        self._held = 0  # further characters that were received but not shown yet
        self._estimated = 0  # characters at the latest estimate

    def add_text(self, piece: str) -> None:
        """Add a chunk of the visible text.

        Raises:
            LimitExceeded: see `count`.
        """
        self._text.append(piece)
        self.add_unshown(piece)

    def add_unshown(self, piece: str) -> None:
        """Add a chunk of reasoning or of a call. If the server sends no counts, the usage is estimated.

        Raises:
            LimitExceeded: see `count`.
        """
        self._characters += len(piece)
        self._held = max(0, self._held - len(piece))
        self._estimate()

    def hold(self, characters: int) -> None:
        """Set the number of characters that were received but are not shown yet.

        Raises:
            LimitExceeded: see `count`.
        """
        self._held = characters
        self._estimate()

    def _estimate(self) -> None:
        came = self._characters + self._held
        if came - self._estimated < ESTIMATE_STEP:
            return
        tokens = came // CHARACTERS_PER_TOKEN
        if self._used.completion_tokens < LEAST_SHARE * tokens:
            self._estimated = came
            used = self._used.model_copy(update={"completion_tokens": tokens})
            if (stop := self._budget.stop_aside(used)) is not None:
                raise LimitExceeded(stop)

    def count(self, used: Usage) -> None:
        """Set the usage of the answer so far, as reported by the server.

        Raises:
            LimitExceeded: the run reached one of its limits.
        """
        self._used = used
        if (stop := self._budget.stop_aside(used)) is not None:
            raise LimitExceeded(stop)

    def complete(self, used: Usage) -> None:
        """Count an answer that is complete."""
        self._budget.add(used)
        self._clear_pieces()

    def broken_off(self) -> str:
        """Count the usage of an incomplete answer, and return its text."""
        self._budget.add(self._used)
        text = "".join(self._text)
        self._clear_pieces()
        return text

    def _clear_pieces(self) -> None:
        self._text.clear()
        self._used = Usage()
        self._characters = self._held = self._estimated = 0


class ModelCall:
    """Requests of one run."""

    def __init__(
        self,
        agent: Agent,
        conversation: Conversation,
        *,
        run: Run,
        call_context: CallContext,
        incoming: StreamingAnswer,
    ) -> None:
        self._agent = agent
        self._conversation = conversation
        self._run = run
        self._call_context = call_context
        self._incoming = incoming
        # Latest complete answer as sent by the model. Its calls run with these arguments, although the history is
        # redacted.
        self.latest = ModelReply(AssistantMessage.model_construct(parts=(), stop_reason="other"), "final")
        self._text = AnswerText(agent.redactor, lambda text: run.emit(TextDelta(text)))
        self._system = SystemMessage.model_construct(text=agent.instructions)
        self._hosted: HostedTools | None = None  # None until the server runs a tool itself
        self._server_acted = False  # True if it did so in the latest answer, which is then not retried

    @cached_property
    def _watch(self) -> "AnswerWatch":
        from vibe_jupyter.agent.answer_watch import AnswerWatch  # noqa: PLC0415 - once a request is on its way

        return AnswerWatch(self._run.emit)

    async def ask(self, size: ContextSize) -> None:
        """Add one complete answer to the history. Damaged, failed and empty ones are retried (`ASKED_AGAIN`).

        Args:
            size: size of the request.

        Raises:
            ModelError: there is no complete answer.
            LimitExceeded: a limit was exceeded while it streamed in.
        """
        failures: Counter[ModelErrorKind] = Counter()
        while True:
            try:
                reply = await self._stream_answer(NUDGE if failures["empty"] >= NUDGED_AFTER else "")
            except ModelError as failure:
                await self.keep_partial(in_history=False)
                # After a side effect on the server there is no retry: the effect would happen twice.
                notices = () if self._server_acted or not failure.passing else ASKED_AGAIN.get(failure.kind, ())
                if failures[failure.kind] >= len(notices):
                    raise
                notice = notices[failures[failure.kind]]
                failures[failure.kind] += 1
                await self._call_context.emit(Notice(level="warning", text=notice))
                continue
            used = usage_or_estimate(reply.message.usage, size, reply.message)
            self._incoming.complete(used)
            self.latest = reply
            self._text.end()
            # Includes the estimate, so that the usage of the run is known even if the kernel dies.
            await self._call_context.emit(MessageAdded(message=reply.message.model_copy(update={"usage": used})))
            return

    async def keep_partial(self, *, in_history: bool) -> None:
        """Record the text of an incomplete answer, marked as interrupted."""
        text = self._incoming.broken_off()
        self._text.end()
        if text.strip():
            message = AssistantMessage(
                parts=(TextPart(text=text),), stop_reason="interrupted", model=self._agent.model.name
            )
            await self._call_context.emit(MessageAdded(message=message, in_history=in_history))

    async def _stream_answer(self, nudge: str = "") -> ModelReply:
        tools = tuple(self._agent.tools.specs())

        def on_sent(limits: AnswerLimits) -> None:
            self._run.emit(RequestSent())
            self._watch.sent(limits)

        def on_begun(limits: AnswerLimits) -> None:
            self._watch.headers_came(limits)

        request = ModelRequestTerms(
            model=self._agent.model,
            messages=(self._system, *self._conversation.history, *_nudges(nudge)),
            tools=tools,
            stream=self._agent.stream,
            server_session=self._conversation.server_sessions.get(self._agent.model.server.api_base, ""),
            on_sent=on_sent,
            on_begun=on_begun,
        )
        self._server_acted = False
        async with aclosing(self._agent.client.answer(request)) as items:
            try:
                async for item in items:
                    if isinstance(item, ModelReply):
                        if self._hosted is not None:
                            await self._hosted.end()
                        return item
                    await self._take_piece(item)
            finally:
                self._watch.stop()
                if self._hosted is not None:
                    await self._hosted.stop()
        raise ModelError("The model server sent no answer. Try again.", kind="empty")

    async def _take_piece(self, item: Piece | RetryScheduled) -> None:
        if not isinstance(item, TextDelta | CountsSoFar | HeldBack):
            self._text.end()
        self._watch.piece_came()
        match item:
            case TextDelta():
                self._text.add(item.text)
                self._incoming.add_text(item.text)
            case ReasoningDelta():
                self._incoming.add_unshown(item.text)
                self._run.emit(item)
            case ToolCallDelta():
                self._incoming.add_unshown(item.arguments)
                self._run.emit(item)
            case HeldBack():
                self._incoming.hold(item.characters)
            case CountsSoFar():
                self._incoming.count(item.usage)
            case RetryScheduled():
                self._watch.stop()
                self._run.emit(Notice(level="info", text=item.sentence, wait=item.counted))
            case HostedSession():
                self._conversation.server_sessions[self._agent.model.server.api_base] = item.id
            case HostedCall() | HostedCallRequest() | HostedFile():
                self._server_acted = True
                await self._hosted_tools().take(item)

    def _hosted_tools(self) -> "HostedTools":
        if self._hosted is None:
            with without_working_folder():
                from vibe_jupyter.agent.hosted_tools import HostedFiles, HostedTools  # noqa: PLC0415 - few servers

            folder = self._conversation.folder
            self._hosted = HostedTools(self._call_context, HostedFiles(self._agent.client, self._agent.model, folder))
        return self._hosted


def _nudges(text: str) -> tuple[UserMessage, ...]:
    return (UserMessage(parts=(TextPart(text=section(NOTE, text)),)),) if text else ()


class AnswerText:
    """Redacted text output of one answer after another. Engine loop only."""

    def __init__(self, redactor: Redactor, show: Callable[[str], None]) -> None:
        self._stream = RedactedStream(redactor)
        self._show = show
        self._pieces: list[str] = []  # chunks received in this iteration of the event loop

    def add(self, piece: str) -> None:
        """Add a chunk, and show what can be shown before the event loop next waits for anything."""
        if not self._pieces:
            # Runs in the next iteration, after all chunks that are available now, and before any wait for I/O.
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._pieces.append(piece)

    def end(self) -> None:
        """Show the buffered rest, because the text is complete or something else follows."""
        self._pass_on()
        if text := self._stream.end():
            self._show(text)

    def _pass_on(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces and (text := self._stream.feed("".join(pieces))):
            self._show(text)
