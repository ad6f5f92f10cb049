"""How a run ended, in short."""

from vibe_jupyter.protocol import AssistantMessage, Event, MessageAdded, RunFinished
from vibe_jupyter.reply import Reply


class Ending:
    """What a reply needs of the events of a run."""

    def __init__(self) -> None:
        self._text = ""
        self._finished: RunFinished | None = None

    def take(self, event: Event) -> None:
        """Look at one event."""
        match event:
            case MessageAdded(message=AssistantMessage() as message):
                self._text = message.text
            case RunFinished():
                self._finished = event
            case _:
                pass

    def reply(self) -> Reply:
        """The run, in short. Only after its last event."""
        assert self._finished is not None
        end = self._finished
        return Reply(
            text=self._text, reason=end.reason, usage=end.usage, turns=end.turns, seconds=end.seconds, cost=end.cost
        )
