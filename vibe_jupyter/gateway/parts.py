"""What all routes of the gateway share."""

from dataclasses import dataclass, field
from typing import Protocol

from vibe_jupyter.gateway.agents import AgentParts
from vibe_jupyter.gateway.approvals import PendingApprovals, SessionGrants
from vibe_jupyter.gateway.store import Store
from vibe_jupyter.llm.forwarding import Forwarder


class LiveAnswer(Protocol):
    """An answer that is under way."""

    def end(self) -> None:
        """Break it off: the gateway is stopped."""
        ...


@dataclass(frozen=True)
class GatewayParts:
    """Of one gateway."""

    agents: AgentParts
    forwarder: Forwarder
    store: Store
    owner: str
    """Mark of the token; keys in the store begin with it."""
    keep_alive: float
    """Seconds of silence after which a stream says that it is there."""
    approvals: PendingApprovals
    grants: SessionGrants
    live: set[LiveAnswer] = field(default_factory=set[LiveAnswer])
    """Those that are under way."""
