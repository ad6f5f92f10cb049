"""Icons of steps, cards and the status line: defined once as paths, rendered as SVG in the live view.

The saved output uses gray PNGs, since sanitizers of untrusted notebooks drop SVG. An icon only repeats the text next to
it, so screen readers skip it and viewers may drop it.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vibe_jupyter.ui.markup import Markup, html_element

SIDE: Final = 16  # pixels
_FAILED: Final = "failed"
# Base64 PNGs by icon name, generated from the paths by ``scripts/icon_pictures.py``.
PICTURES: Final = Path(__file__).with_name("icon_pictures.json")

_CIRCLE: Final = "M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z"
_PAGE: Final = "M4 1.8h5.4L12 4.4v9.8H4zM9.2 2v2.6H12"
_FRAME: Final = "M1.8 3h12.4v10H1.8z"

# SVG path of each icon, drawn as a line in a 16 x 16 square.
PATHS: Final[Mapping[str, str]] = {
    "read": f"{_PAGE}M6.2 7.6h3.6M6.2 10.6h3.6",
    "write": f"{_PAGE}M8 7v4.4M5.8 9.2h4.4",
    "search": "M11.4 7a4.4 4.4 0 1 1-8.8 0 4.4 4.4 0 0 1 8.8 0zM10.2 10.2l3.6 3.6",
    "inspect": f"{_FRAME}M1.8 6.2h12.4M1.8 9.6h12.4M6 6.2V13",
    "run": "M4.6 2.8v10.4L13 8z",
    "edit": "M2.4 13.6l.8-3.4 7.6-7.6 2.6 2.6-7.6 7.6zM9.2 4.2l2.6 2.6",
    "insert": "M2.2 2.2h11.6v11.6H2.2zM8 5.2v5.6M5.2 8h5.6",
    "delete": "M2.6 4.2h10.8M6 4V2.2h4V4M4 4.2l.6 9.6h6.8l.6-9.6M6.7 6.8v4.4M9.3 6.8v4.4",
    "move": "M5 13V3M2.6 5.4L5 3l2.4 2.4M11 3v10M8.6 10.6L11 13l2.4-2.4",
    "check": "M2.6 8.4l3.6 3.6 7.2-8",
    "trial": "M6 1.8h4M6.8 1.8v4.4L3 12.8a1 1 0 0 0 .9 1.4h8.2a1 1 0 0 0 .9-1.4L9.2 6.2V1.8M5 9.8h6",
    "shell": f"{_FRAME}M4.4 6l2.2 2-2.2 2M8.4 10.2h3.2",
    "web": f"{_CIRCLE}M2 8h12M8 2c3.6 3.6 3.6 8.4 0 12M8 2c-3.6 3.6-3.6 8.4 0 12",
    "server": "M5.6 1.8V5M10.4 1.8V5M3.6 5h8.8v2.4a4.4 4.4 0 0 1-8.8 0zM8 11.8v2.4",
    "plan": "M1.8 4l1.3 1.3L5.4 3M1.8 8.4l1.3 1.3 2.3-2.3M2 12.8h3M7.8 4.2h6.4M7.8 8.5h6.4M7.8 12.8h6.4",
    "question": "M1.8 2.6h12.4v8.6H7.6l-3.4 2.6v-2.6H1.8zM6.6 5.8a1.4 1.4 0 1 1 2 1.3q-.6.3-.6.9M8 9.5v.1",
    "thought": "M6 11.2c0-1.5-2.1-2.1-2.1-4.7a4.1 4.1 0 0 1 8.2 0c0 2.6-2.1 3.2-2.1 4.7zM6.4 13.8h3.2",
    "agent": "M2.8 5.4h10.4v7.8H2.8zM8 5.2V2.4M5.8 8.4v1.6M10.2 8.4v1.6",
    "memory": "M4.2 2h7.6v12L8 11l-3.8 3z",
    "checkpoint": "M3.2 4.6A6 6 0 1 1 2 8M2.8 1.8v3h3M8 4.8V8l2.2 1.4",
    "tool": "M8 1.8l5.6 3.1v6.2L8 14.2l-5.6-3.1V4.9zM2.6 5L8 8l5.4-3M8 8v6",
    "steps": "M2.2 4h11.6M2.2 8h11.6M2.2 12h11.6",
    "failed": "M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4",
    "denied": f"{_CIRCLE}M3.9 12.1l8.2-8.2",
    "stop": "M4 4h8v8H4z",
    "warning": "M8 2L1.8 13.4h12.4zM8 6.4v3.2M8 11.5v.1",
    "done": f"{_CIRCLE}M5.2 8.2l2 2 3.6-4.4",
    "now": f"{_CIRCLE}M9.2 8a1.2 1.2 0 1 1-2.4 0 1.2 1.2 0 0 1 2.4 0zM8 8v.1",
    "to-do": _CIRCLE,
}

_TOOLS: Final[Mapping[str, str]] = {
    "read_notebook": "read",
    "read_file": "read",
    "grep": "search",
    "inspect": "inspect",
    "run_code": "run",
    "run_cells": "run",
    "verify_notebook": "check",
    "edit_cell": "edit",
    "search_replace": "edit",
    "insert_cell": "insert",
    "delete_cells": "delete",
    "move_cells": "move",
    "write_file": "write",
    "server_file": "write",
    "bash": "shell",
    "todo": "plan",
    "exit_plan_mode": "plan",
    "ask_user_question": "question",
    "task": "agent",
    "memory": "memory",
    "checkpoint": "checkpoint",
    "thought": "thought",
}
_OF_SERVERS: Final = "mcp__"  # prefix of the tool names of MCP servers
_KEPT: Final = "margin:0 8px 0 0;vertical-align:text-bottom"


def tool_icon(name: str) -> str:
    """Return the icon of a tool. Custom tools share one icon, and so do the tools of MCP servers."""
    return _TOOLS.get(name, "server" if name.startswith(_OF_SERVERS) else "tool")


@functools.cache
def icon_html(name: str) -> Markup:
    """Render an icon for the live view, in the color of the surrounding text."""
    path = html_element("path", d=PATHS[name])
    return html_element("svg", path, class_="vibe-icon", viewBox=f"0 0 {SIDE} {SIDE}", aria_hidden="true")


@functools.cache
def kept_icon(name: str) -> Markup:
    """Render an icon for the saved output, in the same width as in the live view."""
    source = f"data:image/png;base64,{_pictures()[name]}"
    words = name if name == _FAILED else ""  # the text next to any other icon says the same
    image = html_element("img", src=source, alt=words, width=str(SIDE), height=str(SIDE), style=_KEPT)
    return Markup(image.removesuffix("</img>"))  # img is a void element


@functools.cache
def _pictures() -> Mapping[str, str]:
    return json.loads(PICTURES.read_text("utf-8"))
