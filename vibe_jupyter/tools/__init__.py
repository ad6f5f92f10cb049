"""What an agent can do: the contract of a tool, the tools that need no kernel, and the way to write one's own.

Start reading at `vibe_jupyter.tools.contract`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vibe_jupyter.tools.custom import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolStreamEvent, tool

__all__ = ["BaseTool", "BaseToolConfig", "BaseToolState", "InvokeContext", "ToolStreamEvent", "tool"]


def __getattr__(name: str) -> Any:
    """The names for people who write tools, imported at first use."""
    if name in __all__:
        from vibe_jupyter.tools import custom

        return getattr(custom, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
