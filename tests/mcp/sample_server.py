"""A well-behaved server, written with the SDK. As a program it speaks over its pipes.

python sample_server.py            over stdin and stdout
python sample_server.py http 0     over HTTP on a free port, which it prints first
"""

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("sample", instructions="Adds and echoes.", version="1.2.3")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """The text, as it came."""
    return text


@server.tool()
def environment() -> dict[str, str]:
    """The environment of this server."""
    return dict(os.environ)


@server.tool()
def where() -> str:
    """The folder this server runs in."""
    return os.getcwd()


@server.tool()
async def wait(period: float, mark: str = "") -> str:
    """Answer after some seconds; a file `mark` says how far it came."""
    _write(mark, "began")
    try:
        await asyncio.sleep(period)
    except asyncio.CancelledError:
        _write(mark, "cancelled")
        raise
    return "waited"


def _write(path: str, text: str) -> None:
    if path:
        with open(f"{path}.new", "w") as file:
            file.write(text)
        os.replace(f"{path}.new", path)


@server.tool()
async def grow(context: Context[Any, Any], name: str) -> str:
    """Offer one more tool from now on."""
    server.add_tool(lambda: name, name=name, description="A new one.")
    await context.session.send_tool_list_changed()  # heard in the older protocol
    await context.notify_tools_changed()  # and in the newer one
    return "grown"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("this went wrong")


def main() -> None:
    if sys.argv[1:2] == ["http"]:
        # With its protocol named asyncio sends at once; without it each answer would wait 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # where one like it ran until a moment ago
        listener.bind(("127.0.0.1", int(sys.argv[2])))
        listener.listen()
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
