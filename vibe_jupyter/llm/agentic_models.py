"""What a server that runs tools by itself says of its models (seed 003, Model routing)."""

from pydantic import JsonValue

from vibe_jupyter.llm.agentic import Object
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.fetch import Wanted
from vibe_jupyter.llm.request import Model

MODELS_LIMIT = 100
"""Models that are listed of one server."""


async def models_of(client: LLMClient, model: Model) -> list[tuple[str, str]]:
    """Each model of the server of this one: its id, and what is said of it.

    Raises:
        ModelError: the server cannot be reached.
    """
    got = await client.fetch(model, Wanted("GET", "/models"))
    entries = got.json.get("data")
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [(str(entry.get("id")), _said(entry)) for entry in listed[:MODELS_LIMIT] if entry.get("id")]


def _said(entry: Object) -> str:
    """Only what the server gives."""
    status, tools = entry.get("status"), entry.get("tools_available")
    count, servers = _number(entry.get("mcp_tools_count")), _number(entry.get("mcp_servers_connected"))
    words = [status] if isinstance(status, str) and status else []
    if isinstance(tools, bool):
        words.append("tools of its own" if tools else "no tools of its own")
    if count is not None:
        words.append(f"{count} MCP tool{_s(count)}")
    if servers is not None:
        words.append(f"{servers} MCP server{_s(servers)} connected")
    return ", ".join(words)


def _number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _s(count: int) -> str:
    return "" if count == 1 else "s"
