"""A server's tool in the form the agent calls. It asks each time: what a server says of itself grants nothing."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from vibe_jupyter.errors import ServerError, ToolError
from vibe_jupyter.protocol import (
    WHOLE,
    Headline,
    Level,
    Preview,
    Resource,
    ToolResult,
    ToolSpec,
    arguments_text,
)
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.mcp.arguments import Arguments, arguments_model
from vibe_jupyter.tools.mcp.connection import Connection
from vibe_jupyter.tools.mcp.looks import seen_schema, seen_words
from vibe_jupyter.tools.mcp.names import Published
from vibe_jupyter.tools.mcp.open_calls import OpenCalls
from vibe_jupyter.tools.mcp.results import Source, failed, result_of

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult

PROGRESS_GAP: Final = 0.1
"""Seconds between two words on how far a call is; of those between, the last is shown."""


@dataclass(frozen=True)
class Ways:
    """What the tools of all servers share."""

    open_calls: OpenCalls
    sees_images: Callable[[], bool]


class MCPTool:
    """One tool of one server."""

    level: Level = "ask"

    def __init__(
        self, published: Published, connection: Connection, ways: Ways, *, refused: Callable[[], str] = str
    ) -> None:
        self.name = published.name
        self.others = published.others
        self.unclear = published.unclear
        self.arguments = arguments_model(published.tool)
        self.description = described(published)
        self._remote = published.tool
        self._source = Source(published.server, published.tool.name, published.name)
        self._connection = connection
        self._ways = ways
        self._refused = refused
        """Why it may not be called, for the model; empty if it may."""

    def headline(self, args: Arguments) -> Headline:
        return Headline(
            verb="Called", doing="Calling", asking="Call", target=self._source.tool, note=f"of {self._source.server}"
        )

    def preview(self, args: Arguments) -> Preview:
        text = arguments_text(args.root)
        return Preview(kind="code", text=text, language="json", edits=WHOLE, note=claim(self._remote.annotations))

    def touches(self, args: Arguments) -> Sequence[Resource]:
        return (Resource(kind="mcp", value=f"{self._source.server}/{self._source.tool}", access="execute"),)

    async def precheck(self, args: Arguments) -> None:
        if refused := self._refused():
            raise ToolError(refused)

    async def run(self, args: Arguments, context: ToolContext) -> ToolResult:
        await self.precheck(args)
        progress = _Progress(context)

        async def work(client: "Client") -> "CallToolResult":
            # What it gives is shown and told as it came; schemas of results are foreign, and may take long.
            client.session.validate_tool_result = _as_it_came
            return await client.call_tool(self._source.tool, args.root, progress_callback=progress.take)

        try:
            async with self._ways.open_calls.of(self._source.server, context):
                answer = await self._connection.request(work, timeout=self._connection.server.tool_timeout)
        except ServerError as error:
            return failed(self._source, str(error))
        finally:
            progress.end()
        return result_of(answer, self._source, sees_images=self._ways.sees_images())


class _Progress:
    """Passes on how far a call is, now and then: the newest word, however many there were."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._newest: tuple[float, float | None, str] = (0.0, None, "")
        self._waiting: asyncio.TimerHandle | None = None
        self._shown_at = float("-inf")

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        if not math.isfinite(progress):
            return
        known = total if total is not None and math.isfinite(total) and total > 0 else None
        self._newest = (max(progress, 0.0), known, message or "")
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_at(self._shown_at + PROGRESS_GAP, self._show)

    def end(self) -> None:
        """Say nothing more."""
        if self._waiting is not None:
            self._waiting.cancel()

    def _show(self) -> None:
        self._waiting = None
        self._shown_at = asyncio.get_running_loop().time()
        self._context.advance(*self._newest)


def spec_of(published: Published, *, hint: str = "") -> ToolSpec:
    """What the model is told of a tool: its server's words, without what nobody sees.

    Args:
        published: the tool under its name.
        hint: what the person says of the server.
    """
    schema: dict[str, JsonValue] = {"type": "object", "properties": {}, **published.tool.input_schema}
    schema["type"] = "object"
    parameters = seen_schema(schema)
    assert isinstance(parameters, dict)
    words = described(published)
    if hint:
        words = f"{words}\nOn all tools of {published.server}: {hint}"
    return ToolSpec(name=published.name, description=words, parameters=parameters)


def described(published: Published) -> str:
    """Whose tool it is, and what it does in the words of its server."""
    return f"[MCP server {published.server}] {seen_words(published.tool.description) or published.tool.name}"


def claim(annotations: Mapping[str, JsonValue]) -> str:
    """What a server says of its tool, as its claim; empty if it says nothing."""
    if annotations.get("readOnlyHint") is True:
        return "its server says it only reads"
    if annotations.get("destructiveHint") is True:
        return "its server says it may destroy"
    return ""


async def _as_it_came(name: str, result: "CallToolResult") -> None:
    pass
