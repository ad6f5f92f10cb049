"""Tools offered to external clients, and the interface that handles their calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from vibe_jupyter.protocol import ToolMessage, ToolSpec

SERVER: Final = "vibe-jupyter"  # server name; clients use it as a prefix of tool names
INSTANCE_HEADER: Final = "vibe-instance"  # identifies a relay, which opens a new connection for each call
INSTRUCTIONS: Final = (
    "Tools of a notebook that a user has open, and of its running kernel. Read before you change: a cell can be "
    "changed only as you last read it. What changes or runs something waits until the user allows it on a card in "
    "the notebook, which can take long; a denial comes with their message. Calls are answered one after the other."
)


class ExternalCalls(Protocol):
    """Handler of tool calls from external clients."""

    def specs(self) -> "Sequence[ToolSpec]":
        """Return the tools that may be called."""
        ...

    async def call(
        self, name: str, arguments: str, *, caller: str, tell: Callable[[str], None], instance: str = ""
    ) -> "ToolMessage":
        """Handle a call.

        Args:
            name: the tool's name.
            arguments: JSON text.
            caller: the client's self-reported name.
            tell: receives progress text, from any thread.
            instance: distinguishes clients with the same name; "" if unknown.

        Raises:
            CancelledError: the caller stopped waiting.
        """
        ...


@dataclass(frozen=True)
class ToolHints:
    """Behavior hints that a client may show its user."""

    title: str
    reads: bool = False  # changes nothing
    destroys: bool = False  # may change or remove existing content
    runs: bool = False  # runs code, which has the same access as the user's code


# The offered tools, in the order in which clients list them.
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
