"""MCP servers of a project, and the connection to each: started when needed, restarted when it failed."""

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

GATHER: Final = 0.3
"""Seconds that changes are gathered, before the tools are listed."""
GATHER_MOST: Final = 30.0
"""Seconds they are gathered where a server tells of changes all the time."""

RESTARTS: Final = 3
"""Starts after a failure, in a row, without an answered call between them."""
_DELAYS: Final = (0.0, 0.5, 1.0, 2.0)
"""Seconds before the next start, by the failures so far."""
PROVEN: Final = 60.0
"""Seconds after which a server that ran counts as one that worked."""

_AT_FIRST_USE: Final = ("vibe_jupyter.mcp.session", "anyio._backends._asyncio", "certifi", "h11", "jsonschema")
_loading = threading.Lock()


class ServerConnection:
    """One server, from any coroutine of one event loop. Calls may run beside each other."""

    def __init__(self, server: ToolServer, surroundings: ProcessEnvironment, hooks: ServerHooks) -> None:
        self.server = server
        self.state: State = "stopped"
        self.error = ""
        """Why it failed, for a user."""
        self.tools: tuple[RemoteTool, ...] = ()
        """As listed last; a server that failed keeps them."""
        self.left_out: tuple[str, ...] = ()
        """Sentences about listed tools that nothing can be made of."""
        self.instructions = ""
        self.protocol_version = ""
        self.on_change: Callable[[], None] = lambda: None
        """Called on the event loop when `tools` are others than before."""
        self.restarts = Restarts()
        self._log = ServerLog(server)
        self._opening = ServerStart(server, surroundings, hooks, self._log)
        self.note = partial(self._log.add, "vibe")
        """Puts a line of ours into the log."""
        self._link: ServerLink | None = None
        self._starting: asyncio.Task[None] | None = None
        self._joined = 0
        self._watch: asyncio.Task[None] | None = None
        self._heard = -1
        """Messages that had come at the last time-out."""

    @property
    def _is_remote(self) -> bool:
        return isinstance(self.server.at, ServerAddress)

    def begin_run(self) -> None:
        """A run begins: a server elsewhere may be back, and asking it starts nothing."""
        if self._is_remote:
            self.restarts.allow_one()

    def log_lines(self) -> list[str]:
        """What the server wrote beside its answers, the oldest first."""
        return self._log.lines()

    async def start(self) -> None:
        """Have it ready; who comes while it starts waits for the same start. Interrupted by all who wait, it ends.

        Raises:
            ServerError: it cannot be started, or not in its time.
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
        timeout: float,  # noqa: ASYNC109 it rests while a user is asked
    ) -> T:
        """The answer to a request of the SDK's client; the server is started where it does not run.

        Args:
            work: sends it. It may be called a second time where the server forgot the session, and so did nothing.
            timeout: seconds, without those in which the server waits for an answer of ours.

        Raises:
            ServerError: there is no answer, or it says that something failed.
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
        """End it, with all it started; a later request starts it again."""
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
        """Whether a failed request means that the server is gone: it says nothing any more, or it said so."""
        if fault.kind == "slow":
            if link.heard == self._heard:
                await self._drop_link(link, "timed out twice and was stopped")
            self._heard = link.heard
        elif fault.kind in ("gone", "session"):
            await self._drop_link(link, fault.what)
        else:
            self.restarts.worked()

    async def _drop_link(self, link: "ServerLink", why: str = "") -> None:
        """Leave a link; with a reason it has failed."""
        if self._link is link:
            self._link = None
            self.state = "stopped"
            if why:
                self.restarts.failed(after=time.monotonic() - link.opened_at)
                self.state, self.error = "failed", str(server_error(self.server, LinkFault("gone", why), self._log))
        await link.close()

    async def _guard_link(self, link: "ServerLink") -> None:
        """Until the link is over: hear of changes, and of its end."""
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
    """Declared ones cost nothing; those that were started stay until they are closed."""

    def __init__(self, folder: Path, environ: Mapping[str, str], hooks: ServerHooks | None = None) -> None:
        self._surroundings = ProcessEnvironment(folder, environ)
        self._hooks = hooks or RefuseAllHooks()
        self._connections: dict[str, ServerConnection] = {}
        self._leaving: list[ServerConnection] = []
        self._later: set[asyncio.Task[None]] = set()
        self._told: dict[str, str] = {}

    def declare(self, servers: Sequence[ToolServer]) -> None:
        """Have just these. One that did not change runs on; the others are closed at the next start or close."""
        kept = {name: one for name, one in self._connections.items() if one.server in servers}
        self._leaving += [one for name, one in self._connections.items() if name not in kept]
        self._connections = {
            server.name: kept.get(server.name) or ServerConnection(server, self._surroundings, self._hooks)
            for server in servers
        }

    async def start(self, names: Sequence[str]) -> list[str]:
        """Start those that do not run, beside each other; what went wrong, each problem once.

        One that could not be started holds nothing up a second time: it is tried again without being waited for.
        """
        await self._close_leaving()
        wanted = [one for name in names if (one := self._connections.get(name)) and not one.server.disabled]
        for one in wanted:
            one.begin_run()
        await asyncio.gather(*(self._start_server(one) for one in wanted))
        return [problem for one in wanted if (problem := self._news_of(one))]

    def get(self, name: str) -> ServerConnection | None:
        """The connection of that name, running or not."""
        return self._connections.get(name)

    def all(self) -> Sequence[ServerConnection]:
        """Every declared one, in the order of declaration."""
        return tuple(self._connections.values())

    async def restart(self, name: str) -> None:
        """Restart one, whatever state it is in.

        Raises:
            ServerError: it cannot be started, or there is none of that name.
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
        """End them all."""
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
        except ServerError:  # told by its `error`
            return

    def _news_of(self, connection: ServerConnection) -> str:
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


def _live_link(link: "ServerLink | None") -> "ServerLink | None":
    return link if link is not None and link.is_alive else None


class ServerStart:
    """Of one server; remembers what it understood."""

    def __init__(
        self, server: ToolServer, surroundings: ProcessEnvironment, hooks: ServerHooks, log: ServerLog
    ) -> None:
        self._server = server
        self._surroundings = surroundings
        self._hooks = hooks
        self._log = log
        self._era: Literal["auto", "legacy"] = "auto"

    async def open(self) -> "ServerLink":
        """A link whose server listed its tools. One that ends at the newer protocol's first question is asked in the
        older one; one that hangs at it, at its next start.

        Raises:
            LinkFault: it failed, or its time is over.
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
    """Give on each new list, until cancelled; a list may take so many seconds."""
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
    """The failures of one server since it last worked."""

    def __init__(self) -> None:
        self.failures = 0
        self.start_failed = False
        """Whether its last start failed, so that nobody waits for another one."""
        self._last = 0.0

    @property
    def are_used_up(self) -> bool:
        """Whether only the user starts it again."""
        return self.failures > RESTARTS

    @property
    def delay(self) -> float:
        """Seconds from now until it may be started again."""
        return max(0.0, self._last + _DELAYS[min(self.failures, len(_DELAYS) - 1)] - time.monotonic())

    def failed(self, *, after: float) -> None:
        """It failed, `after` seconds of running."""
        self.failures = 1 if after > PROVEN else self.failures + 1
        self.start_failed = after <= 0
        self._last = time.monotonic()

    def allow_one(self) -> None:
        """It may be started once more, which nobody waits for."""
        self.failures = min(self.failures, RESTARTS)

    def worked(self) -> None:
        """It answered a call, or the user wants it restarted."""
        self.failures = 0
        self.start_failed = False


def load_sdk() -> None:
    """Import what speaks the protocol, with what that imports when first used. It takes half a second: not for the
    event loop."""
    with _loading, without_working_folder():
        defer_address_grammar()
        for name in _AT_FIRST_USE:
            importlib.import_module(name)
    capture_sdk_logs()
