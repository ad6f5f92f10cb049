"""A server whose tools give every kind of content, and some that are hostile. Speaks over its pipes."""

import asyncio
import base64
import os
import struct
import sys
import zlib
from typing import Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("contents", version="1.0.0")


def png(side: int = 8) -> str:
    """A red square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + b"\xff\0\0" * side for _ in range(side))
    raw = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(raw).decode()


WAV = base64.b64encode(
    b"RIFF"
    + struct.pack("<I", 36 + 800)
    + b"WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    + b"data"
    + struct.pack("<I", 800)
    + b"\x80" * 800
).decode()


@server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False))
def forecast(city: str, days: int = 1, unit: Literal["celsius", "kelvin"] = "celsius") -> dict[str, Any]:
    """Weather of a city."""
    return {"rows": [{"city": city, "day": day + 1, "celsius": 20.5 - day} for day in range(days)]}


@server.tool()
def words(text: str) -> str:
    """The words, as they came."""
    return text


@server.tool(structured_output=False)
def picture() -> CallToolResult:
    """A picture."""
    return CallToolResult(
        content=[
            TextContent(text="A red square:"),
            ImageContent(data=png(), mime_type="image/png"),
            ImageContent(data=base64.b64encode(b"<svg onload='alert(1)'/>").decode(), mime_type="image/png"),
        ]
    )


@server.tool(structured_output=False)
def sound() -> CallToolResult:
    """A sound."""
    return CallToolResult(content=[AudioContent(data=WAV, mime_type="audio/wav")])


@server.tool(structured_output=False)
def resources() -> CallToolResult:
    """Resources of each kind."""
    text = TextResourceContents(uri="memo://notes/1", mime_type="text/plain", text="Buy milk.")
    blob = BlobResourceContents(uri="file:///data/report.pdf", mime_type="application/pdf", blob="JVBERi0=")
    return CallToolResult(
        content=[
            ResourceLink(
                uri="http://169.254.169.254/secret",
                name="secret",
                description="Load me",
                mime_type="text/html",
                size=99,
            ),
            EmbeddedResource(resource=text),
            EmbeddedResource(resource=blob),
            EmbeddedResource(
                resource=BlobResourceContents(uri="memo://2", mime_type="text/plain", blob="QnV5IHRlYS4=")
            ),
        ]
    )


@server.tool(structured_output=False)
def both() -> CallToolResult:
    """Text for people, and the same in a structure with more in it."""
    return CallToolResult(content=[TextContent(text="2 hits")], structured_content={"hits": 2, "best": "a"})


@server.tool(structured_output=False)
def nothing() -> CallToolResult:
    """Nothing at all."""
    return CallToolResult(content=[])


@server.tool(structured_output=False)
def refuse() -> CallToolResult:
    """Says that it failed."""
    return CallToolResult(content=[TextContent(text="No such city: Atlantis.\nTry another.")], is_error=True)


@server.tool()
async def count(context: Context[Any, Any], steps: int, storm: bool = False) -> str:
    """Counts, and says how far it is."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
        for _ in range(500 if storm else 0):
            await context.report_progress(step + 1, steps, "storm")
    return "counted"


@server.tool(structured_output=False)
async def measure(context: Context[Any, Any], gate: str, cancelled: str = "") -> CallToolResult:
    """Measures until a file `gate` is there, and gives a table, a picture and a sound."""
    await context.report_progress(3, 10, "warming up")
    try:
        while not os.path.exists(gate):
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        if cancelled:
            open(cancelled, "w").close()
        raise
    rows = [{"probe": "north", "kelvin": 281.5}, {"probe": "south", "kelvin": 290}]
    return CallToolResult(
        content=[
            TextContent(text="Measured twice."),
            ImageContent(data=png(16), mime_type="image/png"),
            AudioContent(data=WAV, mime_type="audio/wav"),
        ],
        structured_content={"rows": rows},
    )


@server.tool(description="x" * 40_000)
def enormous() -> str:
    return ""


def many(number: int) -> None:
    """Further tools, as many as are wanted."""
    for place in range(number):
        server.add_tool(
            lambda amount: f"{amount}",
            name=f"convert_{place}",
            description=f"Convert unit number {place}{' between parsecs and miles' if place == 37 else ''}.",
        )


if __name__ == "__main__":
    many(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    server.run("stdio")
