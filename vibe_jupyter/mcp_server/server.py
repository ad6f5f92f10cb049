"""The MCP server, which lists the tools and forwards calls, reporting their output as progress."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.mcp_server.exposed_tools import HINTS, INSTANCE_HEADER, INSTRUCTIONS, SERVER, ExternalCalls, ToolHints
from vibe_jupyter.mcp_server.http import GONE
from vibe_jupyter.protocol import ImagePart, TextPart, ToolMessage, ToolSpec

TELL_GAP: Final = 0.25  # seconds between progress notifications
# Seconds without output before a keep-alive notification; many clients time out after a minute of silence
ALIVE_GAP: Final = 10.0
STILL: Final = "Still running."
TOLD: Final = 2_000  # characters of one notification; only the end of longer output is sent
CALLER: Final = 60  # characters of a client's name

Context = ServerRequestContext[Any]
Report = Callable[[float, float | None, str | None], Awaitable[None]]


def mcp_server(calls: ExternalCalls, *, version: str) -> Server[Any]:
    """Create a server that offers the tools of `calls`."""

    async def list_tools(_context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[as_tool(spec) for spec in calls.specs()])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return as_result(await _answer_call(calls, context, params))

    return Server(SERVER, version=version, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def as_tool(spec: ToolSpec) -> types.Tool:
    """Convert a tool's definition to the protocol's form."""
    hints = HINTS.get(spec.name, ToolHints(spec.name, destroys=True, runs=True))
    return types.Tool(
        name=spec.name,
        title=hints.title,
        description=spec.description,
        input_schema=spec.parameters,
        annotations=types.ToolAnnotations(
            title=hints.title,
            read_only_hint=hints.reads,
            destructive_hint=hints.destroys,
            idempotent_hint=hints.reads,
            open_world_hint=hints.runs,
        ),
    )


def as_result(message: ToolMessage) -> types.CallToolResult:
    """Convert a result to the protocol's form."""
    return types.CallToolResult(content=[_content_block(part) for part in message.parts], is_error=message.is_error)


async def _answer_call(calls: ExternalCalls, context: Context, params: types.CallToolRequestParams) -> ToolMessage:
    """Forward a call. Ends early if the client disconnects."""
    news = CallProgress(context.session.report_progress)
    gone = _client_gone(context)
    arguments = json.dumps(params.arguments or {}, ensure_ascii=False)
    asked = calls.call(
        params.name, arguments, caller=_client_name(context), tell=news.add, instance=_client_instance(context)
    )
    call = asyncio.ensure_future(asked)
    watch = asyncio.ensure_future(gone.wait())
    telling = asyncio.ensure_future(news.tell())
    try:
        await asyncio.wait((call, watch), return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            raise asyncio.CancelledError
        return call.result()
    finally:
        for task in (call, watch, telling):
            task.cancel()


class CallProgress:
    """Rate-limited progress notifications of one call."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._new: deque[str] = deque(maxlen=200)
        self._came = asyncio.Event()

    def add(self, text: str) -> None:
        """Add output. Thread-safe."""
        self._new.append(text)
        self._loop.call_soon_threadsafe(self._came.set)

    async def tell(self) -> None:
        """Send notifications until cancelled. Event loop only."""
        count = 0
        while True:
            try:
                async with asyncio.timeout(ALIVE_GAP):
                    await self._came.wait()
            except TimeoutError:
                self._new.append(STILL)
            self._came.clear()
            text = repair_surrogates("".join(self._take_news()).strip()[-TOLD:])
            if text:
                count += 1
                await self._report(float(count), None, text)
            await asyncio.sleep(TELL_GAP)

    def _take_news(self) -> list[str]:
        taken: list[str] = []
        while self._new:
            taken.append(self._new.popleft())
        return taken


def _content_block(part: TextPart | ImagePart) -> types.TextContent | types.ImageContent:
    if isinstance(part, ImagePart):
        return types.ImageContent(type="image", data=part.data, mime_type=part.media_type)
    # Clients can't decode a lone surrogate, e.g. half of an emoji that was cut off.
    return types.TextContent(type="text", text=repair_surrogates(part.text))


def _client_name(context: Context) -> str:
    """Return the client's self-reported, unverified name."""
    params = context.session.client_params
    name = params.client_info.name if params is not None else ""
    return " ".join(name.replace("”", "").split())[:CALLER] or "a client without a name"


def _client_instance(context: Context) -> str:
    headers: Mapping[str, str] = getattr(context.request, "headers", {})
    return (headers.get(INSTANCE_HEADER) or headers.get("mcp-session-id") or "")[:CALLER]


def _client_gone(context: Context) -> asyncio.Event:
    """Return the event that is set when the client has closed its request."""
    scope: MutableMapping[str, Any] = getattr(context.request, "scope", {})
    return scope.get(GONE) or asyncio.Event()
