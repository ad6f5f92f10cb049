"""Requests of others, sent on to a model server as they are: nothing of them is understood, or sent twice."""

from typing import Final

from vibe_jupyter.llm.connections import HttpConnections, OpenAnswer
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.request import AnswerLimits, Endpoint, Model

_CHAT_PATH: Final = "/chat/completions"
_PATHS: Final = {"ollama": "/v1/chat/completions"}
"""Of Chat Completions, by dialect; Ollama speaks them beside an API of its own."""


class Forwarder:
    """Keeps its connections from one request to the next."""

    def __init__(self, *, user_agent: str, limits: AnswerLimits | None = None) -> None:
        self._headers = {"User-Agent": user_agent, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        self._limits = limits or AnswerLimits()
        self._connections = HttpConnections()

    async def post(self, model: Model, body: bytes) -> OpenAnswer:
        """The answer to Chat Completions of a body, whatever its status. Close it.

        Raises:
            ModelError: none began.
        """
        name = model.server.dialect
        endpoint = Endpoint.of(model, _PATHS.get(name, _CHAT_PATH), base_ends=DIALECTS[name].base_ends)
        key = {} if endpoint.key is None else {"Authorization": f"Bearer {endpoint.key}"}
        return await self._connections.post(endpoint, body, {**endpoint.headers, **self._headers, **key}, self._limits)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()
