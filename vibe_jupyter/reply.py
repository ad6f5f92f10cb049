"""What `vibe_jupyter.ask` gives back."""

from vibe_jupyter.protocol import FinishReason, Usage
from vibe_jupyter.protocol.value import Value


class Reply(Value):
    """How a run ended. `str(reply)` is its text."""

    text: str
    """The model's last words, Markdown; empty when it said none."""
    reason: FinishReason
    cells_changed: tuple[str, ...] = ()
    """Ids of the cells the run changed, in the order of the first change."""
    usage: Usage
    turns: int
    seconds: float
    cost: float | None = None
    """US dollars; None where the prices of the model are not known."""

    def __repr__(self) -> str:
        """Short, since the run itself was just shown."""
        return f"Reply(reason={self.reason!r}, turns={self.turns}, text={len(self.text)} characters)"

    def __str__(self) -> str:
        return self.text
