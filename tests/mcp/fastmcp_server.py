"""A server written with FastMCP, run by the interpreter that has it.

python fastmcp_server.py           over stdin and stdout
python fastmcp_server.py PORT      over HTTP
"""

import sys

from fastmcp import FastMCP

server = FastMCP("fast")


@server.tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


@server.tool
def nothing() -> None:
    """Answer with nothing."""


if sys.argv[1:]:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
else:
    server.run(show_banner=False)
