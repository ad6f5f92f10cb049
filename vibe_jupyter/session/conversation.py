"""The conversation of one kernel: what the journal recorded, folded into what the model sees."""

import asyncio

from vibe_jupyter.protocol import DurableEvent, Message, MessageAdded, RunFinished, Usage
from vibe_jupyter.session.journal import Journal


class Conversation:
    """Appends to the journal first and to the history second, so that memory never knows more than the disk."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._history: list[Message] = []
        self.usage = Usage()
        """Tokens of all finished runs."""
        self.server_sessions: dict[str, str] = {}
        """What model servers call their part of this conversation, by their address."""

    @property
    def history(self) -> tuple[Message, ...]:
        """What the model is sent, without the system prompt. Only ever grows."""
        return tuple(self._history)

    async def record(self, event: DurableEvent) -> None:
        """Write an event to disk, then take it into account.

        Raises:
            JournalError: it could not be written; the history is unchanged.
        """
        writing = asyncio.ensure_future(self.journal.append(event))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # What the journal has begun to write, it writes: memory follows it also when nobody waits any more.
            await asyncio.wait([writing])
            if not writing.cancelled() and writing.exception() is None:
                self.apply(event)
            raise
        self.apply(event)

    def apply(self, event: DurableEvent) -> None:
        """Take an event into account that could not be written: only to keep the history valid on the way out."""
        match event:
            case MessageAdded(message=message, in_history=True):
                self._history.append(message)
            case RunFinished(usage=usage):
                self.usage = self.usage + usage
            case _:
                pass
