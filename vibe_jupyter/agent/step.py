"""A step of a run: the events that show that something goes on, and what came of it."""

import secrets
import time
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from vibe_jupyter.protocol import Headline, MimeBundle, Preview, ToolFinished, ToolStarted

StepOutcome = Literal["ok", "error", "denied", "interrupted"]


@dataclass(eq=False)
class ToolStep:
    """A call of the model, a call that a model server runs by itself, or what a prompt or an MCP server needs.

    Nothing else makes `ToolStarted` and `ToolFinished`. What never ran has an end without a beginning.
    """

    name: str
    """Of the tool, or what stands in its place."""
    headline: Headline
    preview: Preview | None = None
    host: str = ""
    """The server that does it; empty for a call of ours."""
    id: str = ""
    """Of the call. One is made up where none is given: it answers no call, so the step has no place in the history."""
    _began: float | None = field(default=None, init=False)
    """By `time.monotonic`; None while nothing was done."""

    def __post_init__(self) -> None:
        self.id = self.id or f"step-{secrets.token_hex(8)}"

    def started(self) -> ToolStarted:
        """It begins, or begins again with more known of it; its time counts from here."""
        self._began = time.monotonic()
        return ToolStarted(
            call_id=self.id, name=self.name, headline=self.headline, preview=self.preview, host=self.host
        )

    def finished(
        self,
        outcome: StepOutcome,
        summary: str = "",
        *,
        display: MimeBundle | None = None,
        details: dict[str, JsonValue] | None = None,
        has_run: bool = True,
    ) -> ToolFinished:
        """It is over; `has_run` is false where it began and nothing was done."""
        seconds = time.monotonic() - self._began if self._began is not None and has_run else 0.0
        return ToolFinished(
            call_id=self.id,
            name=self.name,
            headline=self.headline,
            outcome=outcome,
            summary=summary,
            seconds=round(seconds, 3),
            display=display or {},
            details=details or {},
            host=self.host,
        )
