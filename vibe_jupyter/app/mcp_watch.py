"""Tools that changed since their server was accepted: disabled at once, and told in the run."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal

from vibe_jupyter.agent.desk import Desk
from vibe_jupyter.errors import VibeError
from vibe_jupyter.policy.tool_pins import ToolPins
from vibe_jupyter.protocol import Notice
from vibe_jupyter.tools.mcp.servers import Servers
from vibe_jupyter.tools.mcp.toolset import MCPTools
from vibe_jupyter.ui.text import one_line, readable

_NAMED: Final = 10
"""Tools named in one sentence."""
_NAME_LENGTH: Final = 80
"""Characters of each name."""


class McpWatch:
    """Compares what servers list with what was pinned. Engine loop only."""

    def __init__(self, servers: Servers, pins: ToolPins, tools: MCPTools) -> None:
        self._servers = servers
        self._pins = pins
        self._tools = tools
        self._desk: Desk | None = None
        """Of the run that is open."""
        self._told: set[tuple[str, str]] = set()
        """Server and sentence."""
        self._looking: set[asyncio.Task[None]] = set()

    async def begin(self, desk: Desk) -> None:
        """A run begins, and the servers are started.

        Raises:
            ConfigError: pins cannot be read or written.
        """
        self._desk = desk
        for connection in self._servers.all():
            connection.on_change = self._both(connection.on_change, connection.server.name)
            await self._look(connection.server.name, tell_new=True)
        for problem in self._tools.directory.news():
            await desk.emit(Notice(level="warning", text=problem))

    def end(self) -> None:
        """It is over."""
        self._desk = None

    def forget(self, server: str) -> None:
        """The person has seen what there was to tell of a server."""
        self._told = {(name, words) for name, words in self._told if name != server}

    def _both(self, before: Callable[[], None], server: str) -> Callable[[], None]:
        """What others do when a server's tools are others than before, and then a look of our own."""

        def changed() -> None:
            before()
            self._heard(server)

        return changed

    def _heard(self, server: str) -> None:
        task = asyncio.ensure_future(self._look_again(server))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_again(self, server: str) -> None:
        try:
            await self._look(server, tell_new=False)  # `ToolNews` names what came while we look
        except VibeError:  # the next run meets it, and says so
            return

    async def _look(self, server: str, *, tell_new: bool) -> None:
        connection = self._servers.get(server)
        if connection is None or not connection.tools:
            return
        settled = await asyncio.to_thread(self._pins.settle, server, connection.tools)
        if settled.new and tell_new:
            await self._tell(server, "info", f"has new tools since you accepted it: {_list(settled.new)}. Each asks.")
        if settled.changed:
            await self._tell(
                server,
                "warning",
                f"now says something else of {_list(settled.changed)} than when you accepted it, so that is not "
                f"offered. %vibe mcp accept {server} shows the change.",
            )

    async def _tell(self, server: str, level: Literal["info", "warning"], words: str) -> None:
        if self._desk is not None and (server, words) not in self._told:
            self._told.add((server, words))
            await self._desk.emit(Notice(level=level, text=f"The MCP server {server} {words}"))


def _list(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return ", ".join(readable(one_line(name, _NAME_LENGTH)) for name in known[:_NAMED]) + more
