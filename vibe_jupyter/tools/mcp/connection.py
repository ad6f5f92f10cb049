"""The connection to one server: started when it is needed, and again when it failed."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from vibe_jupyter.errors import ServerError
from vibe_jupyter.tools.mcp.failure import Fault, failure
from vibe_jupyter.tools.mcp.following import follow
from vibe_jupyter.tools.mcp.hooks import ServerHooks
from vibe_jupyter.tools.mcp.log import ServerLog
from vibe_jupyter.tools.mcp.opening import Opening
from vibe_jupyter.tools.mcp.remote_tool import RemoteTool
from vibe_jupyter.tools.mcp.restarts import RESTARTS, Restarts
from vibe_jupyter.tools.mcp.server import Server
from vibe_jupyter.tools.mcp.surroundings import Surroundings

if TYPE_CHECKING:
    from mcp import Client

    from vibe_jupyter.tools.mcp.link import Link

T = TypeVar("T")

State = Literal["stopped", "starting", "ready", "failed"]


class Connection:
    """One server, from any coroutine of one event loop. Calls may run beside each other."""

    def __init__(self, server: Server, surroundings: Surroundings, hooks: ServerHooks) -> None:
        self.server = server
        self.state: State = "stopped"
        self.error = ""
        """Why it failed, for a person."""
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
        self._opening = Opening(server, surroundings, hooks, self._log)
        self.note = partial(self._log.add, "vibe")
        """Puts a line of ours into the log."""
        self._link: Link | None = None
        self._starting: asyncio.Task[None] | None = None
        self._joined = 0
        self._watch: asyncio.Task[None] | None = None
        self._heard = -1
        """Messages that had come at the last time-out."""

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
        if _alive(self._link):
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start(), name=f"mcp start {self.server.name}")
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
            raise failure(self.server, Fault("start", "was stopped while it started"), self._log)
        if problem := starting.exception():
            raise problem

    async def request(
        self,
        work: "Callable[[Client], Awaitable[T]]",
        *,
        timeout: float,  # noqa: ASYNC109 it rests while a person is asked
    ) -> T:
        """The answer to a request of the SDK's client; the server is started where it does not run.

        Args:
            work: sends it. It may be called a second time where the server forgot the session, and so did nothing.
            timeout: seconds, without those in which the server waits for an answer of ours.

        Raises:
            ServerError: there is no answer, or it says that something failed.
        """
        link = await self._started()
        try:
            try:
                answer = await link.run(work, timeout)
            except Fault as fault:
                if fault.kind != "session":
                    raise
                await self._drop(link)
                link = await self._started()
                answer = await link.run(work, timeout)
        except Fault as fault:
            await self._judge(link, fault)
            raise failure(self.server, fault, self._log) from fault
        self.restarts.worked()
        return answer

    async def close(self) -> None:
        """End it, with all it started; a later request starts it again."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._link is not None:
            await self._drop(self._link)
        self.state = "stopped"

    # ---- private ----

    async def _started(self) -> "Link":
        for _ in range(2):  # it may end again before we are woken
            await self.start()
            if link := _alive(self._link):
                return link
        raise ServerError(self.error, server=self.server.name)

    async def _start(self) -> None:
        try:
            if self.restarts.are_used_up:
                raise Fault("given up", f"failed, also after {RESTARTS} new starts, and is not started again by itself")
            self.state, self.error = "starting", ""
            await asyncio.sleep(self.restarts.delay)
            self._log.begin()
            link = await self._opening.open()
        except Fault as fault:
            if fault.kind != "given up":
                self.restarts.failed(after=0)
            problem = failure(self.server, fault, self._log)
            self.state, self.error = "failed", str(problem)
            raise problem from fault
        except asyncio.CancelledError:
            self.state = "stopped"
            raise
        self._link, self.state, self._heard = link, "ready", -1
        self.restarts.start_failed = False
        self.instructions, self.protocol_version = link.instructions, link.protocol_version
        self._watch = asyncio.create_task(self._guard(link), name=f"mcp watch {self.server.name}")
        self._take(link, link.tools)

    async def _judge(self, link: "Link", fault: Fault) -> None:
        """Whether a failed request means that the server is gone: it says nothing any more, or it said so."""
        if fault.kind == "slow":
            if link.heard == self._heard:
                await self._drop(link, "did not answer twice, and was ended")
            self._heard = link.heard
        elif fault.kind in ("gone", "session"):
            await self._drop(link, fault.what)
        else:
            self.restarts.worked()

    async def _drop(self, link: "Link", why: str = "") -> None:
        """Leave a link; with a reason it has failed."""
        if self._link is link:
            self._link = None
            self.state = "stopped"
            if why:
                self.restarts.failed(after=time.monotonic() - link.opened_at)
                self.state, self.error = "failed", str(failure(self.server, Fault("gone", why), self._log))
        await link.close()

    async def _guard(self, link: "Link") -> None:
        """Until the link is over: hear of changes, and of its end."""
        following = asyncio.create_task(follow(link, self._take, log=self._log, seconds=self.server.tool_timeout))
        try:
            why = await link.ended()
        finally:
            following.cancel()
        await self._drop(link, f"ended: {why or 'it closed the connection'}")

    def _take(self, link: "Link", tools: tuple[RemoteTool, ...]) -> None:
        self.left_out = link.left_out
        if tools != self.tools:
            self.tools = tools
            self.on_change()


def _alive(link: "Link | None") -> "Link | None":
    return link if link is not None and link.is_alive else None
