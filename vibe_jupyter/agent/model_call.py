"""One call of the model: its answer as it streams in, and its way into the history.

A piece alone is shown in the same turn of the event loop. Where a fast server or a busy machine makes many pieces
wait, they are judged together, which costs little more than one.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.call_context import CallContext
from vibe_jupyter.agent.context_size import CHARACTERS_PER_TOKEN
from vibe_jupyter.agent.limits import Budget
from vibe_jupyter.agent.middleware import StopRun
from vibe_jupyter.agent.run import Run
from vibe_jupyter.errors import ModelError, ModelErrorKind
from vibe_jupyter.llm.hosted_events import CountsSoFar, HostedCall, HostedCallRequest, HostedFile, HostedSession, Piece
from vibe_jupyter.llm.request import ModelRequestTerms, RetryScheduled
from vibe_jupyter.permissions.redaction import RedactedStream, Redactor
from vibe_jupyter.protocol import (
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
)
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.session.conversation import Conversation

if TYPE_CHECKING:
    from vibe_jupyter.agent.hosted_tools import HostedTools

ESTIMATE_STEP: Final = 4_000
"""Characters of an answer after which its tokens are estimated again."""
RE_ASKS: Final = 1
"""How often a turn whose answer was damaged on its way is asked again."""
ASKED_AGAIN: Final[Mapping[ModelErrorKind, str]] = {
    "truncated": "Connection lost; retrying.",
    "bad_json": "The answer was not valid JSON; retrying once.",
}
"""The damages after which it is, and what you are shown."""


class StreamingAnswer:
    """One answer at a time. Engine loop only."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._text: list[str] = []
        self._used = Usage()
        """By the server's latest word; most servers say nothing before the end."""
        self._characters = 0
        """Of the answer so far, thoughts and calls included."""
        self._estimated = 0
        """Characters at the latest estimate."""

    def add_text(self, piece: str) -> None:
        """A piece of what the user reads.

        Raises:
            LimitExceeded: as `count`.
        """
        self._text.append(piece)
        self.add_unshown(piece)

    def add_unshown(self, piece: str) -> None:
        """A piece of a thought or a call. Where the server does not count, the answer is estimated.

        Raises:
            LimitExceeded: as `count`.
        """
        self._characters += len(piece)
        if self._characters - self._estimated >= ESTIMATE_STEP and self._used == Usage():
            self._estimated = self._characters
            used = Usage(completion_tokens=self._characters // CHARACTERS_PER_TOKEN)
            if (stop := self._budget.stop_aside(used)) is not None:
                raise LimitExceeded(stop)

    @property
    def seconds_left(self) -> float | None:
        """Until the time of the run is up; None where it has no limit."""
        return self._budget.seconds_left

    def check_limits(self) -> None:
        """Look whether the run may go on.

        Raises:
            LimitExceeded: it may not.
        """
        if (stop := self._budget.stop_aside(self._used)) is not None:
            raise LimitExceeded(stop)

    def count(self, used: Usage) -> None:
        """The server says what the answer has used so far.

        Raises:
            LimitExceeded: it is as much as the run may use.
        """
        self._used = used
        if (stop := self._budget.stop_aside(used)) is not None:
            raise LimitExceeded(stop)

    def complete(self, used: Usage | None) -> None:
        """It came to its end; None where the server sent no counts then."""
        self._budget.add(used)
        self._clear_pieces()

    def broken_off(self) -> str:
        """It did not; what it used is counted all the same. Returns what it said."""
        self._budget.add(self._used)
        text = "".join(self._text)
        self._clear_pieces()
        return text

    def _clear_pieces(self) -> None:
        self._text.clear()
        self._used = Usage()
        self._characters = self._estimated = 0


class ModelCall:
    """The requests of one run."""

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
        self.latest = AssistantMessage.model_construct(parts=(), stop_reason="other")
        """The last whole answer as the model gave it: its calls run so, though the history keeps them redacted."""
        self._text = AnswerText(agent.redactor, lambda text: run.emit(TextDelta(text)))
        self._system = SystemMessage.model_construct(text=agent.instructions)
        self._hosted: HostedTools | None = None
        """None until the server does something by itself."""
        self._server_acted = False
        """Whether it did so in the latest answer: that is then not asked for a second time."""

    async def ask(self) -> None:
        """Get one complete answer into the history; an answer that was damaged is asked for once more.

        Raises:
            ModelError: there is none.
            LimitExceeded: a limit was passed while it came.
        """
        if self._incoming.seconds_left is None:
            await self._ask()
            return
        asking = asyncio.ensure_future(self._ask())
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=self._incoming.seconds_left)
                if not asking.done():
                    self._incoming.check_limits()  # the user may have been waited for meanwhile
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])
        asking.result()

    async def _ask(self) -> None:
        for attempt in range(RE_ASKS + 1):
            try:
                message = await self._stream_answer()
            except ModelError as failure:
                await self.keep_partial(in_history=False)
                # Nothing is asked again after an effect: it would happen twice.
                notice = ASKED_AGAIN.get(failure.kind)
                if notice is None or attempt == RE_ASKS or self._server_acted:
                    raise
                await self._call_context.emit(Notice(level="warning", text=notice))
                continue
            self._incoming.complete(message.usage)
            self.latest = message
            self._text.end()
            await self._call_context.emit(MessageAdded(message=message))
            return

    async def keep_partial(self, *, in_history: bool) -> None:
        """Keep the text of an answer that did not come to its end, marked."""
        text = self._incoming.broken_off()
        self._text.end()
        if text.strip():
            message = AssistantMessage(
                parts=(TextPart(text=text),), stop_reason="interrupted", model=self._agent.model.name
            )
            await self._call_context.emit(MessageAdded(message=message, in_history=in_history))

    async def _stream_answer(self) -> AssistantMessage:
        request = ModelRequestTerms(
            model=self._agent.model,
            messages=(self._system, *self._conversation.history),
            tools=tuple(self._agent.tools.specs()),
            stream=self._agent.stream,
            server_session=self._conversation.server_sessions.get(self._agent.model.server.api_base, ""),
            on_sent=lambda: self._run.emit(RequestSent()),
        )
        self._server_acted = False
        async with aclosing(self._agent.client.answer(request)) as items:
            try:
                async for item in items:
                    if isinstance(item, AssistantMessage):
                        if self._hosted is not None:
                            await self._hosted.end()
                        return item
                    await self._take_piece(item)
            finally:
                if self._hosted is not None:
                    await self._hosted.stop()
        raise ModelError("The model server sent no answer. Try again.", kind="empty")

    async def _take_piece(self, item: Piece | RetryScheduled) -> None:
        if not isinstance(item, TextDelta | CountsSoFar):
            self._text.end()
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
            case CountsSoFar():
                self._incoming.count(item.usage)
            case RetryScheduled():
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


class LimitExceeded(Exception):
    """The answer that is coming in has used up what the run may use."""

    def __init__(self, stop: StopRun) -> None:
        super().__init__(stop.notice)
        self.stop = stop


class AnswerText:
    """One text after another. Engine loop only."""

    def __init__(self, redactor: Redactor, show: Callable[[str], None]) -> None:
        self._stream = RedactedStream(redactor)
        self._show = show
        self._pieces: list[str] = []
        """What came in this turn of the event loop."""

    def add(self, piece: str) -> None:
        """Show what may be shown once this piece has come, before the event loop waits for anything."""
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._pieces.append(piece)

    def end(self) -> None:
        """Show what was held back: nothing more comes of this text, or something else comes between."""
        self._pass_on()
        if text := self._stream.end():
            self._show(text)

    def _pass_on(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces and (text := self._stream.feed("".join(pieces))):
            self._show(text)
