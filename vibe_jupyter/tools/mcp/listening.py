"""In the newer protocol changes are told to those who ask for them.

Imports the SDK: imported itself when the first server starts.
"""

import asyncio
import contextlib
from typing import Final

from mcp import Client, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_ATTEMPTS: Final = 3
"""In a row."""
_GAP: Final = 1.0
"""Seconds between them."""


async def listen(client: Client, changed: asyncio.Event) -> None:
    """Ask for them, where the server has any to tell; each is told to the client's message handler."""
    can = client.server_capabilities
    tools = bool(can.tools and can.tools.list_changed)
    prompts = bool(can.prompts and can.prompts.list_changed)
    resources = bool(can.resources and can.resources.list_changed)
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools or prompts or resources):
        return
    for attempt in range(_ATTEMPTS):
        if attempt:
            await asyncio.sleep(_GAP)
            changed.set()  # it may have told something meanwhile
        with contextlib.suppress(MCPError, RuntimeError, ValueError, OSError):
            async with client.listen(
                tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as changes:
                async for _ in changes:
                    pass
            return
