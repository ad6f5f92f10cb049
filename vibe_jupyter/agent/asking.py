"""Getting one complete answer of the model into the history, whatever happens on the way."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.answer_text import AnswerText
from vibe_jupyter.agent.desk import Desk
from vibe_jupyter.agent.incoming import Incoming
from vibe_jupyter.agent.run import Run
from vibe_jupyter.agent.server_files import FileShelf
from vibe_jupyter.agent.server_tools import ServerTools
from vibe_jupyter.errors import ModelError, ModelErrorKind
from vibe_jupyter.llm.agentic import CountsSoFar, Piece, ServerApproval, ServerCall, ServerFile, ServerSession
from vibe_jupyter.llm.request import Request, RetryScheduled
from vibe_jupyter.protocol import (
    AssistantMessage,
    MessageAdded,
    Notice,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallDelta,
)
from vibe_jupyter.session.conversation import Conversation

RE_ASKS: Final = 1
"""How often a turn whose answer was damaged on its way is asked again (security C39)."""
ASKED_AGAIN: Final[Mapping[ModelErrorKind, str]] = {
    "truncated": "The answer was cut off; asking once more.",
    "bad_json": "The answer was no valid JSON; asking once more.",
}
"""The damages after which it is, and what you are shown."""


class Asking:
    """The requests of one run."""

    def __init__(self, agent: Agent, conversation: Conversation, *, run: Run, desk: Desk, incoming: Incoming) -> None:
        self._agent = agent
        self._conversation = conversation
        self._run = run
        self._desk = desk
        self._incoming = incoming
        self.latest = AssistantMessage(parts=(), stop_reason="other")
        """The last whole answer as the model gave it: its calls run so, though the history keeps them redacted."""
        self._text = AnswerText(agent.redactor, lambda text: run.emit(TextDelta(text)))
        self._system = SystemMessage(text=agent.instructions)
        self._server = ServerTools(desk, FileShelf(agent.client, agent.model, conversation.journal.path.parent))

    async def ask(self) -> None:
        """Get one complete answer into the history; an answer that was damaged is asked for once more.

        Raises:
            ModelError: there is none.
            EnoughError: a limit was passed while it came.
        """
        for attempt in range(RE_ASKS + 1):
            try:
                message = await self._stream_answer()
            except ModelError as failure:
                await self.keep_partial(in_history=False)
                # Nothing is asked again after an effect (security C39).
                notice = ASKED_AGAIN.get(failure.kind)
                if notice is None or attempt == RE_ASKS or self._server.acted:
                    raise
                await self._desk.emit(Notice(level="warning", text=notice))
                continue
            self._incoming.complete(message.usage)
            self.latest = message
            self._text.end()
            await self._desk.emit(MessageAdded(message=message))
            return

    async def keep_partial(self, *, in_history: bool) -> None:
        """Keep the text of an answer that did not come to its end, marked."""
        text = self._incoming.broken_off()
        self._text.end()
        if text.strip():
            message = AssistantMessage(
                parts=(TextPart(text=text),), stop_reason="interrupted", model=self._agent.model.name
            )
            await self._desk.emit(MessageAdded(message=message, in_history=in_history))

    async def _stream_answer(self) -> AssistantMessage:
        request = Request(
            model=self._agent.model,
            messages=(self._system, *self._conversation.history),
            tools=tuple(self._agent.tools.specs()),
            stream=self._agent.stream,
            server_session=self._conversation.server_sessions.get(self._agent.model.server.api_base, ""),
        )
        self._server.begin()
        async with aclosing(self._agent.client.answer(request)) as items:
            try:
                async for item in items:
                    if isinstance(item, AssistantMessage):
                        await self._server.end()
                        return item
                    await self._take(item)
            finally:
                await self._server.stop()
        raise ModelError("The model server sent no answer. Run the cell again.", kind="empty")

    async def _take(self, item: Piece | RetryScheduled) -> None:
        if not isinstance(item, TextDelta | CountsSoFar):
            self._text.end()
        match item:
            case TextDelta():
                self._incoming.add_text(item.text)
                self._text.add(item.text)
            case ReasoningDelta() | ToolCallDelta():
                self._run.emit(item)
            case CountsSoFar():
                self._incoming.count(item.usage)
            case RetryScheduled():
                self._run.emit(Notice(level="info", text=item.sentence, wait=item.counted))
            case ServerSession():
                self._conversation.server_sessions[self._agent.model.server.api_base] = item.id
            case ServerCall() | ServerApproval() | ServerFile():
                await self._server.take(item)
