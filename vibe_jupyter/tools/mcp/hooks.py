"""What a server may ask of us while it runs."""

from typing import TYPE_CHECKING, Literal, Protocol

from vibe_jupyter.tools.mcp.pause import Pause
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

Offer = Literal["elicitation", "sampling", "roots"]


class ServerHooks(Protocol):
    """Answers to the requests of servers. A call's time does not run while a server waits for an answer of ours."""

    @property
    def offers(self) -> frozenset[Offer]:
        """What servers are told that we can do; sampling only to those it is declared for."""
        ...

    async def elicit(self, server: str, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        """Put a server's question to the person."""
        ...

    async def sample(self, server: str, params: "CreateMessageRequestParams") -> "CreateMessageResult | ErrorData":
        """Let the model write something for a server."""
        ...

    async def roots(self) -> "ListRootsResult | ErrorData":
        """The folders a server may look into."""
        ...

    def log(self, server: str, level: str, text: str) -> None:
        """A server sent a line for its log, which is kept already."""
        ...

    def auth(self, server: Server, pause: Pause) -> "httpx2.Auth | None":
        """What signs the requests to a remote server beside its declared headers.

        Args:
            server: a remote one.
            pause: held by `running()` while a person signs in, so that no time-out runs.
        """
        ...


class RefuseAll:
    """Where nobody answers servers."""

    @property
    def offers(self) -> frozenset[Offer]:
        return frozenset()

    async def elicit(self, server: str, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        return _refusal()

    async def sample(self, server: str, params: "CreateMessageRequestParams") -> "CreateMessageResult | ErrorData":
        return _refusal()

    async def roots(self) -> "ListRootsResult | ErrorData":
        return _refusal()

    def log(self, server: str, level: str, text: str) -> None:
        return None

    def auth(self, server: Server, pause: Pause) -> "httpx2.Auth | None":
        return None


def _refusal() -> "ErrorData":
    from mcp_types import INVALID_REQUEST, ErrorData  # noqa: PLC0415

    return ErrorData(code=INVALID_REQUEST, message="Not offered here")
