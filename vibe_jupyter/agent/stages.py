"""How far each call of a run came, and what is still to be said of one that the end of the run cut off."""

from typing import Literal

from vibe_jupyter.agent.calls import unanswered
from vibe_jupyter.agent.prepare import headline_of
from vibe_jupyter.protocol import Event, MessageAdded, ToolCall, ToolFinished, ToolStarted
from vibe_jupyter.tools.base import Toolset


class Stages:
    """Follows the events of one run."""

    def __init__(self) -> None:
        self._stage: dict[str, Literal["started", "finished"]] = {}
        """By the call's id."""

    def note(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, ToolStarted | ToolFinished):
            self._stage[event.call_id] = "started" if isinstance(event, ToolStarted) else "finished"

    def closing(self, call: ToolCall, tools: Toolset) -> list[ToolFinished | MessageAdded]:
        """What ends a call that has no result."""
        stage = self._stage.get(call.id)
        message = MessageAdded(message=unanswered(call, started=stage is not None))
        if stage == "finished":
            return [message]
        ended = ToolFinished(
            call_id=call.id,
            name=call.name,
            headline=headline_of(call, tools),
            outcome="interrupted",
            summary="interrupted",
        )
        return [ended, message]
