"""The tools offered to external clients, and who answers their calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from vibe_jupyter.protocol import ToolMessage, ToolSpec

SERVER: Final = "vibe-jupyter"
"""What the server calls itself; clients put it before the names of the tools."""
INSTANCE_HEADER: Final = "vibe-instance"
"""By which a relay, which connects again for each call, is recognised."""
INSTRUCTIONS: Final = (
    "Tools of a notebook that a user has open, and of its running kernel. Read before you change: a cell can be "
    "changed only as you last read it. What changes or runs something waits until the user allows it on a card in "
    "the notebook, which can take long; a denial comes with their message. Calls are answered one after the other."
)


class ExternalCalls(Protocol):
    """Answers calls."""

    def specs(self) -> "Sequence[ToolSpec]":
        """What may be called."""
        ...

    async def call(
        self, name: str, arguments: str, *, caller: str, tell: Callable[[str], None], instance: str = ""
    ) -> "ToolMessage":
        """Answer one.

        Args:
            name: of the tool.
            arguments: JSON text.
            caller: the name that the client gives itself.
            tell: takes what happens meanwhile, from any thread.
            instance: tells it from others that call themselves so; empty where nothing does.

        Raises:
            CancelledError: the caller was told to stop waiting.
        """
        ...


@dataclass(frozen=True)
class ToolHints:
    """What a client may tell its own person of a tool."""

    title: str
    reads: bool = False
    """Changes nothing."""
    destroys: bool = False
    """May change or remove what is there."""
    runs: bool = False
    """Runs code, which may reach whatever the user's code reaches."""


HINTS: Final[dict[str, ToolHints]] = {
    "read_notebook": ToolHints("Read the notebook", reads=True),
    "inspect": ToolHints("Inspect variables", reads=True),
    "edit_cell": ToolHints("Edit a cell", destroys=True, runs=True),
    "insert_cell": ToolHints("Insert a cell", runs=True),
    "delete_cells": ToolHints("Delete cells", destroys=True),
    "move_cells": ToolHints("Move cells"),
    "run_cells": ToolHints("Run cells", destroys=True, runs=True),
    "run_code": ToolHints("Run code", destroys=True, runs=True),
}
"""The tools that are offered, in the order in which clients list them."""
