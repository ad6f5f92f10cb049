"""Hears of changes on one connection, and has the tools listed anew."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vibe_jupyter.tools.mcp.failure import Fault
from vibe_jupyter.tools.mcp.log import ServerLog
from vibe_jupyter.tools.mcp.remote_tool import RemoteTool

if TYPE_CHECKING:
    from vibe_jupyter.tools.mcp.link import Link

GATHER: Final = 0.3
"""Seconds that changes are gathered, before the tools are listed."""
GATHER_MOST: Final = 30.0
"""Seconds they are gathered where a server tells of changes all the time."""


async def follow(
    link: "Link", take: "Callable[[Link, tuple[RemoteTool, ...]], None]", *, log: ServerLog, seconds: float
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
        except Fault as fault:
            log.add("tools/list", fault.what)
