"""The tools a server lists.

Imports the SDK: imported itself when the first server starts.
"""

from typing import Final

from mcp import Client
from mcp_types import Tool

from vibe_jupyter.tools.mcp.remote_tool import RemoteTool

PAGES: Final = 100
"""Pages of a list that are read."""
TOOLS: Final = 2_000
"""Tools of one server that are taken."""


async def list_tools(client: Client) -> tuple[RemoteTool, ...]:
    """All of them, page by page; the first of two that bear one name."""
    if client.server_capabilities.tools is None:
        return ()
    found: dict[str, RemoteTool] = {}
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            found.setdefault(tool.name, _taken(tool))
        cursor = page.next_cursor
        if cursor is None or len(found) >= TOOLS:
            break
    return tuple(found.values())[:TOOLS]


def _taken(tool: Tool) -> RemoteTool:
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return RemoteTool(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        title=tool.title or annotations.get("title") or "",
        output_schema=tool.output_schema,
        annotations=annotations,
    )
