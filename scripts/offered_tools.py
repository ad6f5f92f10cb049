"""Write down which tools a served notebook offers, for clients of `vibe-jupyter mcp` that start before one is served.

    python scripts/offered_tools.py

Run it when a tool of the notebook changes its description or arguments; a test compares.
"""

import json

from vibe_jupyter.app.serving_session import exposed_specs
from vibe_jupyter.mcp_server.server import as_tool
from vibe_jupyter.mcp_server.stdio_proxy import TOOLS


def offered() -> str:
    """The file's text."""
    tools = [as_tool(spec).model_dump(mode="json", by_alias=True, exclude_none=True) for spec in exposed_specs()]
    return json.dumps(tools, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TOOLS.write_text(offered(), encoding="utf-8")
    print(TOOLS)
