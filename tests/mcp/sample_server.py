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
async def wait(seconds: float, mark: str = "") -> str:
    """Answer late; a file `mark` says whether it was cancelled."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if mark:
            with open(mark, "w") as file:
                file.write("cancelled")
        raise
    return "waited"


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
        listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
