"""A server for the tests of the app: what it says of its tools, and how it starts, stands in files beside it.

python mcp_server.py FOLDER
"""

import os
import sys
import time
from pathlib import Path

from mcp.server import MCPServer

folder = Path(sys.argv[1])
with (folder / "started").open("a", encoding="utf-8") as file:
    file.write(f"{os.getpid()}\n")
if (folder / "hang").exists():
    time.sleep(600)
if (folder / "die").exists():
    sys.exit("no licence found")
print("ready to shout", file=sys.stderr, flush=True)
server = MCPServer("shouts")


def shout(text: str) -> str:
    return text.upper()


def secret() -> str:
    return os.environ.get("SHOUT_TOKEN", "none")


said = folder / "description"
server.add_tool(shout, description=said.read_text(encoding="utf-8") if said.exists() else "Says it louder.")
server.add_tool(secret, description="What it was given.")
if (folder / "more").exists():
    server.add_tool(shout, name="whisper", description="Says it again.")
server.run()
