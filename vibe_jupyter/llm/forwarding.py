"""Requests of others, sent on to a model server as they are: nothing of them is understood, or sent twice."""

import asyncio
from http import HTTPStatus
from typing import Final

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.connections import HttpConnections, OpenAnswer
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.request import AnswerLimits, Endpoint, Model

FETCH_SECONDS: Final = 60.0
"""For a whole file."""
END_SECONDS: Final = 5.0
"""For an answer that has said all."""
_CHAT_PATH: Final = "/chat/completions"
_PATHS: Final = {"ollama": "/v1/chat/completions"}
"""Of Chat Completions, by dialect; Ollama speaks them beside an API of its own."""


class Forwarder:
    """Keeps its connections from one request to the next."""

    def __init__(self, *, user_agent: str, limits: AnswerLimits | None = None) -> None:
        self._headers = {"User-Agent": user_agent, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        self._limits = limits or AnswerLimits()
        self._connections = HttpConnections()
        self._endings: set[asyncio.Task[None]] = set()

    async def post(self, model: Model, body: bytes) -> OpenAnswer:
        """The answer to Chat Completions of a body, whatever its status. Close it.

        Raises:
            ModelError: none began.
        """
        name = model.server.dialect
        endpoint = Endpoint.of(model, _PATHS.get(name, _CHAT_PATH), base_ends=DIALECTS[name].base_ends)
        key = {} if endpoint.key is None else {"Authorization": f"Bearer {endpoint.key}"}
        return await self._connections.post(endpoint, body, {**endpoint.headers, **self._headers, **key}, self._limits)

    async def fetch(self, url: str, *, most: int) -> bytes:
        """What is at an address of another server; redirects are not followed.

        Raises:
            ModelError: it is not there, too slow, or too long.
        """
        endpoint = Endpoint.at(url)
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                answer = await self._connections.get(
                    endpoint, {"User-Agent": self._headers["User-Agent"]}, self._limits
                )
                try:
                    if answer.status != HTTPStatus.OK:
                        raise ModelError(
                            f"{endpoint.host} answered {answer.status}.", kind="http", status=answer.status
                        )
                    return await answer.whole(most)
                finally:
                    await answer.close()
        except TimeoutError:
            raise ModelError(f"{endpoint.host} did not send it in {FETCH_SECONDS:g} s.", kind="limit") from None

    def let_end(self, answer: OpenAnswer) -> None:
        """Close an answer that has said all once it has ended, so that its connection serves the next request too.

        Nobody waits for that, and nothing breaks it off in its last step, in which httpcore would lose the connection.
        """
        ending = asyncio.create_task(answer.read_end(within=END_SECONDS))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*self._endings)
        await self._connections.close()
