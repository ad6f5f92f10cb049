"""Which tools of MCP servers came or went, said once in the run that is open, or else in the next one."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from vibe_jupyter.agent.desk import Desk
from vibe_jupyter.errors import JournalError
from vibe_jupyter.protocol import Notice
from vibe_jupyter.tools.mcp.remote_tool import RemoteTool
from vibe_jupyter.tools.mcp.server import Server

NAMED: Final = 10
"""Tools named in one sentence."""


class Listed(Protocol):
    """The part of a connection that is looked at."""

    server: Server
    tools: tuple[RemoteTool, ...]


class ToolNews:
    """Engine loop only."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Server, frozenset[str]]] = {}
        """By the server's name: as it was declared, and its tools."""
        self._desk: Desk | None = None
        """Of the run that is open."""
        self._telling: set[asyncio.Task[None]] = set()

    def begin(self, desk: Desk) -> None:
        """A run begins."""
        self._desk = desk

    def end(self) -> None:
        """It is over."""
        self._desk = None

    def heard(self, connection: Listed) -> None:
        """A server's tools are others than before; may be called at any time."""
        if self._desk is None:
            return
        task = asyncio.ensure_future(self._tell(connection))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def look(self, connections: Sequence[Listed]) -> None:
        """Say what changed since the last look; a server that is seen for the first time is no news.

        Raises:
            JournalError: never in practice, since a notice is not kept.
        """
        for connection in connections:
            await self._tell_changes(connection)

    async def _tell(self, connection: Listed) -> None:
        try:
            await self._tell_changes(connection)
        except JournalError:
            return

    async def _tell_changes(self, connection: Listed) -> None:
        names = frozenset(tool.name for tool in connection.tools)
        server = connection.server
        declared, before = self._known.get(server.name, (server, names))
        if self._desk is None:
            return
        self._known[server.name] = (server, names)
        if declared != server or before == names:
            return
        came, went = sorted(names - before), sorted(before - names)
        words = [f"new tools: {_list(came)}" if came else "", f"no longer there: {_list(went)}" if went else ""]
        said = "; ".join(filter(None, words))
        await self._desk.emit(Notice(level="info", text=f"The MCP server {server.name} has {said}."))


def _list(names: Iterable[str]) -> str:
    all_names = list(names)
    more = f" and {len(all_names) - NAMED} more" if len(all_names) > NAMED else ""
    return ", ".join(f"`{name}`" for name in all_names[:NAMED]) + more
