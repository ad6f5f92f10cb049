"""How a server is started: where it may be, and in which form of the protocol it is asked."""

import asyncio
import time
from typing import TYPE_CHECKING, Literal

from vibe_jupyter.tools.mcp.addresses import problem_with
from vibe_jupyter.tools.mcp.failure import Fault
from vibe_jupyter.tools.mcp.hooks import ServerHooks
from vibe_jupyter.tools.mcp.loading import load
from vibe_jupyter.tools.mcp.log import ServerLog
from vibe_jupyter.tools.mcp.server import Address, Server
from vibe_jupyter.tools.mcp.surroundings import Surroundings

if TYPE_CHECKING:
    from vibe_jupyter.tools.mcp.link import Link


class Opening:
    """Of one server; remembers what it understood."""

    def __init__(self, server: Server, surroundings: Surroundings, hooks: ServerHooks, log: ServerLog) -> None:
        self._server = server
        self._surroundings = surroundings
        self._hooks = hooks
        self._log = log
        self._era: Literal["auto", "legacy"] = "auto"

    async def open(self) -> "Link":
        """A link whose server listed its tools. One that ends at the newer protocol's first question is asked in the
        older one; one that hangs at it, at its next start.

        Raises:
            Fault: it failed, or its time is over.
        """
        if isinstance(self._server.at, Address) and (problem := problem_with(self._server.at.url)):
            raise Fault("start", problem)
        await asyncio.to_thread(load)
        until = time.monotonic() + self._server.startup_timeout
        link = self._new_link()
        try:
            await link.open(self._server.startup_timeout)
        except Fault as fault:
            if fault.kind == "slow start":
                self._era = "legacy" if self._era == "auto" else "auto"
            if not link.trouble or self._era == "legacy":
                raise
            return await self._open_in_older_one(until)
        return link

    async def _open_in_older_one(self, until: float) -> "Link":
        self._era = "legacy"
        self._log.begin()
        link = self._new_link()
        try:
            await link.open(until - time.monotonic())
        except Fault:
            self._era = "auto"
            raise
        return link

    def _new_link(self) -> "Link":
        from vibe_jupyter.tools.mcp.link import link_to  # noqa: PLC0415

        return link_to(self._server, self._surroundings, self._hooks, log=self._log, mode=self._era)
