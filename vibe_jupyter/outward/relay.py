"""`vibe-jupyter mcp`: an MCP server on stdin and stdout that passes everything on to the notebook that is served.

An outside agent starts it once and keeps it; the notebook may be served later, again, or by another kernel. So each
call looks for the notebook if it has none, and what is missing is said as the result of the call.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.outward.notice_board import HOW_TO_SERVE, Note
from vibe_jupyter.outward.offer import INSTANCE_HEADER, INSTRUCTIONS, SERVER
from vibe_jupyter.outward.server import as_tool
from vibe_jupyter.protocol import ToolSpec

CONNECT_WAIT: Final = 10.0
"""Seconds to connect; a call itself may take as long as the person takes to allow it."""
UNREACHABLE: Final = f"Not run: the notebook that was served cannot be reached. {HOW_TO_SERVE}"
BROKEN_OFF: Final = f"The notebook ended while it worked on this call, which may have run in part. {HOW_TO_SERVE}"
_FAILURES: Final = (MCPError, httpx2.HTTPError, OSError)

Context = ServerRequestContext[Any]


class Relay:
    """Serves one outside agent."""

    def __init__(self, find: Callable[[], Note], tools: Sequence[ToolSpec], *, version: str) -> None:
        self._find = find
        """Raises ConfigError where there is no notebook, or not one alone."""
        self._tools = tools
        """What a notebook of this version offers, for who asks before one is served."""
        self._version = version
        self._instance = secrets.token_hex(16)

    async def serve(self) -> None:
        """Until stdin ends."""
        async with stdio_server() as (read, write):
            server = self.server()
            await server.run(read, write, server.create_initialization_options())

    def server(self) -> Server[Any]:
        """The side that the outside agent sees."""
        return Server(
            SERVER,
            version=self._version,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, context: Context, _params: object) -> types.ListToolsResult:
        try:
            async with self._notebook(_caller(context)) as client:
                return await client.list_tools()
        except (ConfigError, ExceptionGroup, *_FAILURES) as error:
            _must_be_failure(error)
        return types.ListToolsResult(tools=[as_tool(spec) for spec in self._tools])

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        said = UNREACHABLE
        try:
            async with self._notebook(_caller(context)) as client:
                said = BROKEN_OFF
                return await client.call_tool(
                    params.name, params.arguments, progress_callback=context.session.report_progress
                )
        except ConfigError as error:
            return _error(str(error))
        except (ExceptionGroup, *_FAILURES) as error:
            _must_be_failure(error)
            return _error(said)

    @contextlib.asynccontextmanager
    async def _notebook(self, caller: str) -> AsyncGenerator[Client]:
        note = await asyncio.to_thread(self._find)
        headers = {"Authorization": f"Bearer {note.token}", INSTANCE_HEADER: self._instance}
        timeout = httpx2.Timeout(None, connect=CONNECT_WAIT)
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as http:
            transport = streamable_http_client(note.url, http_client=http)
            async with Client(transport, client_info=types.Implementation(name=caller, version="")) as client:
                yield client


def run(relay: Relay) -> None:
    """Serve until stdin ends."""
    anyio.run(relay.serve)


def _caller(context: Context) -> str:
    params = context.session.client_params
    return params.client_info.name if params is not None else ""


def _must_be_failure(error: Exception) -> None:
    """The SDK's groups of failures are failures; whatever else is in them is a bug, and goes on."""
    if isinstance(error, ExceptionGroup) and cast("ExceptionGroup[Exception]", error).split(_FAILURES)[1] is not None:
        raise error


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
