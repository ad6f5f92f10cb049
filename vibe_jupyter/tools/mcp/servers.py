"""The servers of one project."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from vibe_jupyter.errors import ServerError
from vibe_jupyter.tools.mcp.connection import Connection
from vibe_jupyter.tools.mcp.hooks import RefuseAll, ServerHooks
from vibe_jupyter.tools.mcp.server import Server
from vibe_jupyter.tools.mcp.surroundings import Surroundings


class Servers:
    """Declared ones cost nothing; those that were started stay until they are closed."""

    def __init__(self, folder: Path, environ: Mapping[str, str], hooks: ServerHooks | None = None) -> None:
        self._surroundings = Surroundings(folder, environ)
        self._hooks = hooks or RefuseAll()
        self._connections: dict[str, Connection] = {}
        self._leaving: list[Connection] = []
        self._later: set[asyncio.Task[None]] = set()
        self._told: dict[str, str] = {}

    def declare(self, servers: Sequence[Server]) -> None:
        """Have just these. One that did not change runs on; the others are closed at the next start or close."""
        kept = {name: one for name, one in self._connections.items() if one.server in servers}
        self._leaving += [one for name, one in self._connections.items() if name not in kept]
        self._connections = {
            server.name: kept.get(server.name) or Connection(server, self._surroundings, self._hooks)
            for server in servers
        }

    async def start(self, names: Sequence[str]) -> list[str]:
        """Start those that do not run, beside each other; what went wrong, each problem once.

        One that could not be started holds nothing up a second time: it is tried again without being waited for.
        """
        await self._close_leaving()
        wanted = [one for name in names if (one := self._connections.get(name)) and not one.server.disabled]
        await asyncio.gather(*(self._start(one) for one in wanted))
        return [problem for one in wanted if (problem := self._news_of(one))]

    def get(self, name: str) -> Connection | None:
        """The connection of that name, running or not."""
        return self._connections.get(name)

    def all(self) -> Sequence[Connection]:
        """Every declared one, in the order of declaration."""
        return tuple(self._connections.values())

    async def restart(self, name: str) -> None:
        """Start one anew, whatever became of it.

        Raises:
            ServerError: it cannot be started, or there is none of that name.
        """
        found = self._connections.get(name)
        if found is None:
            known = ", ".join(self._connections) or "none"
            raise ServerError(f"There is no MCP server {name}. Declared: {known}.", server=name)
        await found.close()
        found.restarts.worked()
        await found.start()

    async def close(self) -> None:
        """End them all."""
        for task in self._later:
            task.cancel()
        self._leaving += self._connections.values()
        await self._close_leaving()

    async def _start(self, connection: Connection) -> None:
        is_waited_for = not connection.restarts.start_failed
        attempt = asyncio.create_task(self._attempt(connection))
        self._later.add(attempt)
        attempt.add_done_callback(self._later.discard)
        if is_waited_for:
            try:
                await asyncio.wait({attempt})
            finally:
                attempt.cancel()

    async def _attempt(self, connection: Connection) -> None:
        try:
            await connection.start()
        except ServerError:  # told by its `error`
            return

    def _news_of(self, connection: Connection) -> str:
        """Why it failed, where that was not told yet; its last words may differ from start to start."""
        name, sentence = connection.server.name, connection.error.partition("\n")[0]
        if connection.state == "ready":
            self._told.pop(name, None)
        if connection.state != "failed" or self._told.get(name) == sentence:
            return ""
        self._told[name] = sentence
        return connection.error

    async def _close_leaving(self) -> None:
        leaving, self._leaving = self._leaving, []
        await asyncio.gather(*(one.close() for one in leaving))
