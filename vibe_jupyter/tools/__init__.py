"""The agent's tools: the tool interface, tools that don't need a kernel, and support for custom tools.

Start reading at `vibe_jupyter.tools.contract`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vibe_jupyter.tools.custom import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolStreamEvent, tool

__all__ = ["BaseTool", "BaseToolConfig", "BaseToolState", "InvokeContext", "ToolStreamEvent", "tool"]


def __getattr__(name: str) -> Any:
    """Import the names for authors of custom tools on first use."""
    if name in __all__:
        from vibe_jupyter.tools import custom

        return getattr(custom, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
