"""A step that is no call of the model: what a run reads on a server before it begins, shown and kept like others."""

import secrets
import time
from typing import Literal

from vibe_jupyter.agent.desk import Desk
from vibe_jupyter.protocol import Headline, MimeBundle, ToolFinished, ToolStarted


class Aside:
    """One step. Its id answers no call, so it has no place in the history."""

    def __init__(self, desk: Desk, name: str, headline: Headline, *, host: str) -> None:
        self.id = f"{name}-{secrets.token_hex(8)}"
        self._desk = desk
        self._name = name
        self._headline = headline
        self._host = host
        self._began = time.monotonic()

    async def begin(self) -> None:
        """Show that it goes on.

        Raises:
            JournalError: it could not be recorded.
        """
        await self._desk.emit(ToolStarted(call_id=self.id, name=self._name, headline=self._headline, host=self._host))

    async def end(
        self, outcome: Literal["ok", "error", "interrupted"], summary: str, display: MimeBundle | None = None
    ) -> None:
        """Show what came of it.

        Raises:
            JournalError: it could not be recorded.
        """
        await self._desk.emit(
            ToolFinished(
                call_id=self.id,
                name=self._name,
                headline=self._headline,
                outcome=outcome,
                summary=summary,
                seconds=round(time.monotonic() - self._began, 3),
                display=display or {},
                host=self._host,
            )
        )
