"""Connections to a project's MCP servers: started on demand and restarted after failures."""

import asyncio
import importlib
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from vibe_jupyter.config.tool_servers import ServerAddress, ToolServer
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.declared import problem_with
from vibe_jupyter.mcp.hooks import RefuseAllHooks, ServerHooks
from vibe_jupyter.mcp.log import LinkFault, ServerLog, capture_sdk_logs, server_error
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.safe_imports import defer_address_grammar, without_working_folder
from vibe_jupyter.tools.child_environment import ProcessEnvironment

if TYPE_CHECKING:
    from mcp import Client

    from vibe_jupyter.mcp.session import ServerLink

T = TypeVar("T")

State = Literal["stopped", "starting", "ready", "failed"]

GATHER: Final = 0.3  # seconds to collect change notifications before listing the tools again
GATHER_MOST: Final = 30.0  # upper bound for a server that sends change notifications continuously

RESTARTS: Final = 3  # consecutive restarts after failures without a successful call in between
_DELAYS: Final = (0.0, 0.5, 1.0, 2.0)  # seconds before the next start, indexed by the number of failures
PROVEN: Final = 60.0  # seconds of running after which a start counts as successful

# Imported lazily with the SDK. Loading them up front keeps imports off the event loop.
_AT_FIRST_USE: Final = ("vibe_jupyter.mcp.session", "anyio._backends._asyncio", "certifi", "h11", "jsonschema")
_loading = threading.Lock()


class ServerConnection:
    """Connection to one server. Usable from any coroutine of one event loop; calls may run concurrently."""

    def __init__(self, server: ToolServer, surroundings: ProcessEnvironment, hooks: ServerHooks) -> None:
        self.server = server
        self.state: State = "stopped"
        self.error = ""  # reason of the failure, for the user
        self.tools: tuple[RemoteTool, ...] = ()  # as last listed; kept after a failure
        self.left_out: tuple[str, ...] = ()  # sentences about listed tools that can't be used
        self.instructions = ""
        self.protocol_version = ""
        self.on_change: Callable[[], None] = lambda: None  # called on the event loop when `tools` changed
        self.restarts = Restarts()
        self._log = ServerLog(server)
        self._opening = ServerStart(server, surroundings, hooks, self._log)
        self.note = partial(self._log.add, "vibe")  # adds one of our own lines to the log
        self._link: ServerLink | None = None
        self._starting: asyncio.Task[None] | None = None
        self._joined = 0
        self._watch: asyncio.Task[None] | None = None
        self._heard = -1  # number of messages received at the last timeout

    @property
    def _is_remote(self) -> bool:
        return isinstance(self.server.at, ServerAddress)

    def begin_run(self) -> None:
        """Allow one more attempt at the start of a run.

        A remote server may be reachable again, and asking it starts no process.
        """
        if self._is_remote:
            self.restarts.allow_one()

    def log_lines(self) -> list[str]:
        """Return the server's log, oldest line first."""
        return self._log.lines()

    async def start(self) -> None:
        """Start the server. Concurrent callers share one attempt, which is cancelled when all of them are.

        Raises:
            ServerError: the server could not be started, or not in time.
        """
        if self._starting is not None and self._starting.cancelling():  # interrupted a moment ago
            await asyncio.wait({self._starting})
        if _live_link(self._link):
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start_link(), name=f"mcp start {self.server.name}")
        starting = self._starting
        self._joined += 1
        try:
            await asyncio.wait({starting})
        finally:
            self._joined -= 1
            if not self._joined and not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
        if starting.cancelled():
            raise server_error(self.server, LinkFault("start", "was stopped while it started"), self._log)
        if problem := starting.exception():
            raise problem

    async def request(
        self,
        work: "Callable[[Client], Awaitable[T]]",
        *,
        timeout: float,  # noqa: ASYNC109 suspended while a user is asked
    ) -> T:
        """Send a request through the SDK's client, starting the server if necessary.

        Args:
            work: sends the request. Called a second time if the server had lost the session and so did nothing.
            timeout: seconds, not counting the time in which the server waits for a response of ours.

        Raises:
            ServerError: there was no response, or it is an error.
        """
        link = await self._started_link()
        try:
            try:
                answer = await link.run(work, timeout)
            except LinkFault as fault:
                if fault.kind != "session":
                    raise
                await self._drop_link(link)
                link = await self._started_link()
                answer = await link.run(work, timeout)
        except LinkFault as fault:
            await self._judge_fault(link, fault)
            raise server_error(self.server, fault, self._log) from fault
        self.restarts.worked()
        return answer

    async def close(self) -> None:
        """Stop the server and its child processes. A later request starts it again."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._link is not None:
            await self._drop_link(self._link)
        self.state = "stopped"

    async def _started_link(self) -> "ServerLink":
        for _ in range(2):  # it may end again before we are woken
            await self.start()
            if link := _live_link(self._link):
                return link
        raise ServerError(self.error, server=self.server.name)

    async def _start_link(self) -> None:
        try:
            if self.restarts.are_used_up:
                later = "is asked again with the next prompt" if self._is_remote else "is not started again by itself"
                raise LinkFault("given up", f"failed, even after {RESTARTS} new starts, and {later}")
            self.state, self.error = "starting", ""
            await asyncio.sleep(self.restarts.delay)
            self._log.begin()
            link = await self._opening.open()
        except LinkFault as fault:
            if fault.kind != "given up":
                self.restarts.failed(after=0)
            problem = server_error(self.server, fault, self._log)
            self.state, self.error = "failed", str(problem)
            raise problem from fault
        except asyncio.CancelledError:
            self.state = "stopped"
            raise
        self._link, self.state, self._heard = link, "ready", -1
        self.restarts.start_failed = False
        self.instructions, self.protocol_version = link.instructions, link.protocol_version
        self._watch = asyncio.create_task(self._guard_link(link), name=f"mcp watch {self.server.name}")
        self._take_tools(link, link.tools)

    async def _judge_fault(self, link: "ServerLink", fault: LinkFault) -> None:
        """Drop the link if the server is gone.

        It is if it reported so, or if two requests in a row timed out and, for a local one, it sent nothing in between.
        """
        if fault.kind == "slow":
            if link.heard == self._heard:
                await self._drop_link(link, "timed out twice and was stopped")
            self._heard = link.heard
        elif fault.kind in ("gone", "session"):
            await self._drop_link(link, fault.what)
        else:
            self.restarts.worked()

    async def _drop_link(self, link: "ServerLink", why: str = "") -> None:
        """Close a link. With a reason, the connection counts as failed."""
        if self._link is link:
            self._link = None
            self.state = "stopped"
            if why:
                self.restarts.failed(after=time.monotonic() - link.opened_at)
                self.state, self.error = "failed", str(server_error(self.server, LinkFault("gone", why), self._log))
        await link.close()

    async def _guard_link(self, link: "ServerLink") -> None:
        """Handle change notifications until the link ends, then drop it."""
        following = asyncio.create_task(
            follow_changes(link, self._take_tools, log=self._log, seconds=self.server.tool_timeout)
        )
        try:
            why = await link.ended()
        finally:
            following.cancel()
        await self._drop_link(link, f"ended: {why or 'it closed the connection'}")

    def _take_tools(self, link: "ServerLink", tools: tuple[RemoteTool, ...]) -> None:
        self.left_out = link.left_out
        if tools != self.tools:
            self.tools = tools
            self.on_change()


class ServerPool:
    """The declared servers. Declaring one costs nothing; a started one runs until it is closed."""

    def __init__(self, folder: Path, environ: Mapping[str, str], hooks: ServerHooks | None = None) -> None:
        self._surroundings = ProcessEnvironment(folder, environ)
        self._hooks = hooks or RefuseAllHooks()
        self._connections: dict[str, ServerConnection] = {}
        self._leaving: list[ServerConnection] = []
        self._later: set[asyncio.Task[None]] = set()
        self._told: dict[str, str] = {}

    def declare(self, servers: Sequence[ToolServer]) -> None:
        """Replace the set of declared servers.

        Unchanged servers keep running; removed ones are closed at the next start or close.
        """
        kept = {name: one for name, one in self._connections.items() if one.server in servers}
        self._leaving += [one for name, one in self._connections.items() if name not in kept]
        self._connections = {
            server.name: kept.get(server.name) or ServerConnection(server, self._surroundings, self._hooks)
            for server in servers
        }

    async def start(self, names: Sequence[str]) -> list[str]:
        """Start the servers that aren't running, concurrently. Returns new problems, each reported once.

        A server whose last start failed is retried in the background and doesn't delay the caller again.
        """
        await self._close_leaving()
        wanted = [one for name in names if (one := self._connections.get(name)) and not one.server.disabled]
        for one in wanted:
            one.begin_run()
        await asyncio.gather(*(self._start_server(one) for one in wanted))
        return [problem for one in wanted if (problem := self._news_of(one))]

    def get(self, name: str) -> ServerConnection | None:
        """Return the connection with this name, running or not."""
        return self._connections.get(name)

    def all(self) -> Sequence[ServerConnection]:
        """Return all connections in declaration order."""
        return tuple(self._connections.values())

    async def restart(self, name: str) -> None:
        """Restart a server, whatever its state.

        Raises:
            ServerError: it could not be started, or no server has that name.
        """
        found = self._connections.get(name)
        if found is None:
            known = ", ".join(self._connections) or "none"
            raise ServerError(f"There is no MCP server {name}. Declared: {known}.", server=name)
        await found.close()
        found.restarts.worked()
        try:
            await found.start()
        finally:
            found.restarts.start_failed = False  # the next run waits for it: it may show the page for signing in

    async def close(self) -> None:
        """Stop all servers."""
        for task in self._later:
            task.cancel()
        self._leaving += self._connections.values()
        await self._close_leaving()

    async def _start_server(self, connection: ServerConnection) -> None:
        is_waited_for = not connection.restarts.start_failed
        attempt = asyncio.create_task(self._attempt_start(connection))
        self._later.add(attempt)
        attempt.add_done_callback(self._later.discard)
        if is_waited_for:
            try:
                await asyncio.wait({attempt})
            finally:
                attempt.cancel()

    async def _attempt_start(self, connection: ServerConnection) -> None:
        try:
            await connection.start()
        except ServerError:  # reported through its `error`
            return

    def _news_of(self, connection: ServerConnection) -> str:
        """Return the failure to report, or "".

        Only first lines are compared, since the last log lines may differ from start to start.
        """
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


def _live_link(link: "ServerLink | None") -> "ServerLink | None":
    return link if link is not None and link.is_alive else None


class ServerStart:
    """Opens links to one server and remembers which protocol version it speaks."""

    def __init__(
        self, server: ToolServer, surroundings: ProcessEnvironment, hooks: ServerHooks, log: ServerLog
    ) -> None:
        self._server = server
        self._surroundings = surroundings
        self._hooks = hooks
        self._log = log
        self._era: Literal["auto", "legacy"] = "auto"

    async def open(self) -> "ServerLink":
        """Open a link and list the server's tools.

        A server that exits on the newer protocol's first request is asked in the older protocol at once; one that hangs
        on it, at its next start.

        Raises:
            LinkFault: the server failed or exceeded its start-up time.
        """
        if isinstance(self._server.at, ServerAddress) and (problem := problem_with(self._server.at.url)):
            raise LinkFault("start", problem)
        await asyncio.to_thread(load_sdk)
        until = time.monotonic() + self._server.startup_timeout
        link = self._new_link()
        try:
            await link.open(self._server.startup_timeout)
        except LinkFault as fault:
            if fault.kind == "slow start":
                self._era = "legacy" if self._era == "auto" else "auto"
            if not link.trouble or self._era == "legacy":
                raise
            return await self._open_in_older_one(until)
        return link

    async def _open_in_older_one(self, until: float) -> "ServerLink":
        self._era = "legacy"
        self._log.begin()
        link = self._new_link()
        try:
            await link.open(until - time.monotonic())
        except LinkFault:
            self._era = "auto"
            raise
        return link

    def _new_link(self) -> "ServerLink":
        from vibe_jupyter.mcp.session import make_link  # noqa: PLC0415

        return make_link(self._server, self._surroundings, self._hooks, log=self._log, mode=self._era)


async def follow_changes(
    link: "ServerLink", take: "Callable[[ServerLink, tuple[RemoteTool, ...]], None]", *, log: ServerLog, seconds: float
) -> None:
    """Pass on each new tool list until cancelled.

    `seconds` is the timeout of one listing. The gap doubles while changes keep arriving.
    """
    gap = GATHER
    while True:
        quiet_since = time.monotonic()
        await link.changed.wait()
        gap = GATHER if time.monotonic() - quiet_since > gap else min(2 * gap, GATHER_MOST)
        await asyncio.sleep(gap)
        link.changed.clear()
        try:
            take(link, await link.list_again(seconds))
        except LinkFault as fault:
            log.add("tools/list", fault.what)


class Restarts:
    """Failures of one server since it last worked."""

    def __init__(self) -> None:
        self.failures = 0
        self.start_failed = False  # the last start failed, so the next one runs in the background
        self._last = 0.0

    @property
    def are_used_up(self) -> bool:
        """True if only the user can start the server again."""
        return self.failures > RESTARTS

    @property
    def delay(self) -> float:
        """Seconds until the next start is allowed."""
        return max(0.0, self._last + _DELAYS[min(self.failures, len(_DELAYS) - 1)] - time.monotonic())

    def failed(self, *, after: float) -> None:
        """Record a failure that happened `after` seconds of running."""
        self.failures = 1 if after > PROVEN else self.failures + 1
        self.start_failed = after <= 0
        self._last = time.monotonic()

    def allow_one(self) -> None:
        """Allow one more start, which runs in the background."""
        self.failures = min(self.failures, RESTARTS)

    def worked(self) -> None:
        """Reset the failures: a call succeeded, or the user asked for a restart."""
        self.failures = 0
        self.start_failed = False


def load_sdk() -> None:
    """Import the SDK and what it imports on first use. Takes half a second, so don't call it on the event loop."""
    with _loading, without_working_folder():
        defer_address_grammar()
        for name in _AT_FIRST_USE:
            importlib.import_module(name)
    capture_sdk_logs()
