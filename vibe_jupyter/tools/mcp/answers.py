"""Our answers to a server's requests, as the SDK asks for them.

Imports the SDK: imported itself when the first server starts.
"""

from typing import Any, TypedDict

from mcp.client.session import ClientRequestContext, ElicitationFnT, ListRootsFnT, SamplingFnT
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
)
from pydantic_core import to_json

from vibe_jupyter.tools.mcp.hooks import ServerHooks
from vibe_jupyter.tools.mcp.log import ServerLog
from vibe_jupyter.tools.mcp.pause import Pause
from vibe_jupyter.tools.mcp.server import Server


class Callbacks(TypedDict, total=False):
    """Those of the SDK's Client; what is left out is not offered to the server."""

    elicitation_callback: ElicitationFnT
    sampling_callback: SamplingFnT
    list_roots_callback: ListRootsFnT


class Answers:
    """Of one connection. While one is due, the time of the server's calls rests."""

    def __init__(self, server: Server, hooks: ServerHooks, log: ServerLog) -> None:
        self.pause = Pause()
        self._server = server
        self._hooks = hooks
        self._log = log

    def callbacks(self) -> Callbacks:
        """What the server is told that it may ask."""
        found = Callbacks()
        if "elicitation" in self._hooks.offers:
            found["elicitation_callback"] = self._elicit
        if "sampling" in self._hooks.offers and self._server.sampling:
            found["sampling_callback"] = self._sample
        if "roots" in self._hooks.offers:
            found["list_roots_callback"] = self._roots
        return found

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        """A line for the server's log."""
        text = params.data if isinstance(params.data, str) else _as_json(params.data)
        self._log.add(params.level, text)
        self._hooks.log(self._server.name, params.level, text)

    async def _elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        with self.pause.running():
            return await self._hooks.elicit(self._server.name, params)

    async def _sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        with self.pause.running():
            return await self._hooks.sample(self._server.name, params)

    async def _roots(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        return await self._hooks.roots()


def _as_json(value: Any) -> str:
    return to_json(value, fallback=str).decode()
