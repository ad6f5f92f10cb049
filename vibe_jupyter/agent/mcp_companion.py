"""MCP servers along a run: they start before its first request, and what the prompt names on them is fetched."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from vibe_jupyter.agent.aside import Aside
from vibe_jupyter.agent.companion import Parts, Prepared, Seat
from vibe_jupyter.agent.mcp_requests import McpRequests
from vibe_jupyter.errors import ConfigError, ServerError
from vibe_jupyter.protocol import Headline, Notice, TextPart
from vibe_jupyter.tools.mcp.connection import Connection
from vibe_jupyter.tools.mcp.contents import Named, resource_result
from vibe_jupyter.tools.mcp.offerings import Offerings
from vibe_jupyter.tools.mcp.prompt_call import PromptCall, fetch
from vibe_jupyter.tools.spill import spilled

RESOURCES: Final = 5
"""Resources fetched for one prompt."""
RESOURCE_LIMIT: Final = 20_000
"""Characters of one resource that go with the prompt; the rest is kept in a file."""
READ_TIMEOUT: Final = 60.0
"""Seconds that a server may take for one."""


class Kept(Protocol):
    """The servers of a kernel, as far as a run needs them."""

    async def start(self, names: Sequence[str]) -> list[str]:
        """Have some of them run; the problems."""
        ...

    def get(self, name: str) -> Connection | None:
        """One of them; None where none is declared by that name."""
        ...


@dataclass(frozen=True)
class Wanted:
    """What the person's prompt asks of servers."""

    resources: Sequence[tuple[str, str]] = ()
    """Server and address, as named by ``@server:address``."""
    prompt: PromptCall | None = None
    """``/server:prompt``; None where it begins with none."""


class McpCompanion:
    """Of one run."""

    def __init__(
        self, servers: Kept, requests: McpRequests, names: Sequence[str], *, wanted: Wanted, sees_images: bool
    ) -> None:
        """Nothing begins yet.

        Args:
            servers: where they are kept.
            requests: answers what they ask.
            names: those that may run, in the order of their declaration.
            wanted: what the prompt asks of them.
            sees_images: whether the model is given pictures.
        """
        self._servers = servers
        self._requests = requests
        self._names = names
        self._wanted = wanted
        self._sees_images = sees_images

    async def begin(self, seat: Seat) -> Prepared:
        """Start the servers, all beside each other, and fetch what the prompt names.

        Raises:
            ConfigError: there is no such prompt, or its arguments are not right.
            ServerError: the server of the prompt does not answer.
            JournalError: it could not be recorded.
        """
        self._requests.take(seat)
        self._requests.note = self._note
        await self._start(seat)
        before: Parts = ()
        for server, uri in dict.fromkeys(self._wanted.resources):
            before = (*before, *await self._resource(seat, server, uri))
        if self._wanted.prompt is None:
            return Prepared(before=before)
        return Prepared(before=before, instead=await self._prompt(seat, self._wanted.prompt))

    async def end(self) -> None:
        """The servers run on; nothing they ask is answered any more."""
        await self._requests.leave()

    def _note(self, server: str, text: str) -> None:
        connection = self._servers.get(server)
        if connection is not None:
            connection.note(text)

    async def _start(self, seat: Seat) -> None:
        connections = [one for name in self._names if (one := self._servers.get(name)) is not None]
        waiting = [one.server.name for one in connections if one.state == "stopped"]
        if waiting:
            servers = "the MCP server" if len(waiting) == 1 else "the MCP servers"
            await seat.desk.emit(Notice(level="info", text=f"Starting {servers} {', '.join(waiting)}…"))
        try:
            problems = await self._servers.start(self._names)
        except asyncio.CancelledError:
            await self._requests.sign_ins.stop()
            raise
        for problem in problems:
            await seat.desk.emit(Notice(level="warning", text=problem))
        for one in connections:
            one.on_change = _bound(self._requests.news.heard, one)
        await self._requests.news.look([one for one in connections if one.state == "ready"])

    async def _resource(self, seat: Seat, server: str, uri: str) -> Parts:
        if list(dict.fromkeys(self._wanted.resources)).index((server, uri)) >= RESOURCES:
            return (TextPart(text=f"@{server}:{uri} was not read: {RESOURCES} resources go with one prompt."),)
        headline = Headline(verb="Read", doing="Reading", asking="Read", target=f"{server}:{uri}")
        step = Aside(seat.desk, "read_resource", headline, host=server)
        await step.begin()
        try:
            connection = self._connection(server)
            answer = await connection.request(lambda client: client.read_resource(uri), timeout=READ_TIMEOUT)
        except (ServerError, ConfigError) as error:
            await step.end("error", str(error))
            return (TextPart(text=f"@{server}:{uri} could not be read: {str(error).splitlines()[0]}"),)
        except asyncio.CancelledError:
            await step.end("interrupted", "")
            raise
        result = resource_result(answer.contents, Named(server, uri), sees_images=self._sees_images)
        await step.end("ok", result.summary, result.display)
        return (await asyncio.to_thread(spilled, result, seat.desk.results, RESOURCE_LIMIT)).parts

    async def _prompt(self, seat: Seat, call: PromptCall) -> Parts:
        target = f"/{call.server}:{call.name}"
        headline = Headline(verb="Took the prompt", doing="Taking the prompt", asking="Take the prompt", target=target)
        step = Aside(seat.desk, "get_prompt", headline, host=call.server)
        await step.begin()
        try:
            connection = self._connection(call.server)
            parts = await fetch(call, connection, Offerings(connection), sees_images=self._sees_images)
        except (ServerError, ConfigError) as error:
            await step.end("error", str(error).splitlines()[0])
            raise
        except asyncio.CancelledError:
            await step.end("interrupted", "")
            raise
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        await step.end("ok", f"{len(text):,} characters", {"text/plain": text})
        return tuple(parts)

    def _connection(self, server: str) -> Connection:
        found = self._servers.get(server) if server in self._names else None
        if found is None:
            names = ", ".join(self._names) or "none"
            raise ConfigError(f"There is no MCP server {server!r} to ask. Those that may run: {names}. See %vibe mcp.")
        return found


def _bound(heard: Callable[[Connection], None], connection: Connection) -> Callable[[], None]:
    return lambda: heard(connection)
