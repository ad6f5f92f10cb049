"""The desk where calls wait for a person."""

import asyncio
import hashlib
import secrets
from dataclasses import dataclass

from vibe_jupyter.protocol import Approve, Preview, Reject, ToolCall

APPROVAL_ID_BITS = 128
"""Random bits of an approval id (security C14, C32)."""


@dataclass(frozen=True)
class Waiting:
    """One approval that nobody has answered yet."""

    approval_id: str
    answer: "asyncio.Future[Approve | Reject]"


class ApprovalDesk:
    """Matches each decision to the one call it was shown for; the first decision wins, later ones are ignored."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}

    def open(self) -> Waiting:
        """Make an id that was never used and a future for its decision. Engine loop only."""
        waiting = Waiting(secrets.token_hex(APPROVAL_ID_BITS // 8), asyncio.get_running_loop().create_future())
        self._waiting[waiting.approval_id] = waiting
        return waiting

    def deliver(self, command: Approve | Reject) -> None:
        """Take a decision from the front end; one for an unknown or decided approval does nothing."""
        waiting = self._waiting.pop(command.approval_id, None)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(command)

    def close(self, waiting: Waiting) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(waiting.approval_id, None)


def digest(call: ToolCall, preview: Preview) -> str:
    """SHA-256 over the tool, its arguments and exactly what is shown (security C14)."""
    shown = preview.model_dump_json()
    return hashlib.sha256("\0".join((call.name, call.arguments, shown)).encode("utf-8", "replace")).hexdigest()
