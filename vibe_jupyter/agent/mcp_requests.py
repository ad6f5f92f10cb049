"""Answers what MCP servers ask while a run is open: questions to the person, words of the model, the folders.

Between runs, and outside of a server's own calls, the answer is no.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_jupyter.agent.companion import Seat
from vibe_jupyter.agent.mcp_sign_in import SignIns
from vibe_jupyter.agent.sampling import Sampling
from vibe_jupyter.agent.tool_news import ToolNews
from vibe_jupyter.errors import JournalError, ModelError, ToolError
from vibe_jupyter.protocol import AssistantMessage
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.mcp.elicitation import elicit
from vibe_jupyter.tools.mcp.hooks import Offer
from vibe_jupyter.tools.mcp.open_calls import OpenCalls
from vibe_jupyter.tools.mcp.pause import Pause
from vibe_jupyter.tools.mcp.secret_store import InMemory, SecretStore
from vibe_jupyter.tools.mcp.server import Server

if TYPE_CHECKING:
    import httpx2
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        ListRootsResult,
    )

QUESTIONS: Final = 20
"""Times that a server may ask the person within one call."""
OUTSIDE: Final = "asked outside of a call; declined"
_REJECTED: Final = -1
"""The code by which the protocol says that a person refused."""


class McpRequests:
    """The hooks of all servers of a kernel; knows the run that is open. Engine loop only."""

    offers: frozenset[Offer] = frozenset({"elicitation", "sampling", "roots"})

    def __init__(self, folder: Path, store: SecretStore | None = None) -> None:
        """Belong to a project.

        Args:
            folder: what servers are told is the place to work in.
            store: keeps what a sign-in gave; None for in memory.
        """
        self.calls = OpenCalls()
        self.sign_ins = SignIns(store or InMemory(), self.calls)
        self.news = ToolNews()
        self.note: Callable[[str, str], None] = _nowhere
        """Puts a line into the log of a server, by its name."""
        self._folder = folder
        self._sampling: Sampling | None = None
        """None between runs."""
        self._asked: Counter[tuple[str, str]] = Counter()
        """By server and call."""
        self._one_card = asyncio.Lock()
        """A call has one place for a card."""

    def take(self, seat: Seat) -> None:
        """A run begins."""
        self._sampling = Sampling(seat)
        self._asked.clear()
        self.news.begin(seat.desk)
        self.sign_ins.begin(seat.desk)

    async def leave(self) -> None:
        """The run is over."""
        self._sampling = None
        self.news.end()
        await self.sign_ins.end()

    async def elicit(self, server: str, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        """Ask the person on a card that names the server; what nobody answers is declined."""
        from mcp_types import ElicitResult  # noqa: PLC0415 - it is loaded: a server of ours speaks

        async def ask(context: ToolContext) -> "tuple[ElicitResult, str]":
            self._asked[server, context.call_id] += 1
            if self._asked[server, context.call_id] > QUESTIONS:
                return ElicitResult(action="decline"), f"declined: asked more than {QUESTIONS} times in one call"
            async with self._one_card:
                return await elicit(server, params, context.ask)

        said = ElicitResult(action="decline"), OUTSIDE
        if self.calls.has(server):
            said = ElicitResult(action="cancel"), "the call was over before it was answered"
            with suppress(JournalError):  # the run meets the same journal, and says so
                said = await self.calls.ask_for(server, ask) or said
        self.note(server, f"question to the person: {said[1]}")
        return said[0]

    async def sample(self, server: str, params: "CreateMessageRequestParams") -> "CreateMessageResult | ErrorData":
        """Let the run's model answer, when the person says so on a card."""
        from mcp_types import ErrorData  # noqa: PLC0415 - it is loaded: a server of ours speaks

        sampling = self._sampling
        try:
            if sampling is None:
                raise ToolError(OUTSIDE)
            answer = await self.calls.ask_for(server, lambda _: sampling.answer(server, params))
            if answer is None:
                raise ToolError(OUTSIDE)
        except (ToolError, ModelError, JournalError) as error:
            self.note(server, f"request to the model: {error}")
            return ErrorData(code=_REJECTED, message=str(error))
        self.note(server, f"request to the model: answered, {len(answer.text):,} characters")
        return _message(answer)

    async def roots(self) -> "ListRootsResult | ErrorData":
        """The project folder, and nothing else."""
        from mcp_types import ListRootsResult, Root  # noqa: PLC0415 - it is loaded: a server of ours speaks
        from pydantic import FileUrl  # noqa: PLC0415

        return ListRootsResult(roots=[Root(uri=FileUrl(self._folder.as_uri()), name=self._folder.name or None)])

    def log(self, server: str, level: str, text: str) -> None:
        """Kept by the connection already."""

    def auth(self, server: Server, pause: Pause) -> "httpx2.Auth | None":
        """What signs the requests to a remote server."""
        return self.sign_ins.auth(server, pause)


def _message(answer: AssistantMessage) -> "CreateMessageResult":
    from mcp_types import CreateMessageResult, TextContent  # noqa: PLC0415 - it is loaded: a server of ours speaks

    return CreateMessageResult(
        role="assistant",
        content=TextContent(text=answer.text),
        model=answer.model or "model",
        stop_reason="maxTokens" if answer.stop_reason == "length" else "endTurn",
    )


def _nowhere(server: str, line: str) -> None:
    return None
