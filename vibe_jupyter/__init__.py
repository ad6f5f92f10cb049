"""An AI agent that lives in your notebook: `%load_ext vibe_jupyter`, then `%%vibe` and a prompt.

Start reading at `vibe_jupyter.magics`, then `vibe_jupyter.app`, then `vibe_jupyter.agent.loop`.
"""

# Imported first, so that no file in the working folder can shadow a later import.
import vibe_jupyter.import_guard  # noqa: F401  # pyright: ignore[reportUnusedImport]

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vibe_jupyter.version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from vibe_jupyter import describe
    from vibe_jupyter.app.run_view import Reply
    from vibe_jupyter.magics import aask, ask
    from vibe_jupyter.tools.custom import tool

__all__ = [
    "Reply",
    "__version__",
    "aask",
    "ask",
    "describe",
    "load_ipython_extension",
    "tool",
    "unload_ipython_extension",
]


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Register `%vibe` and `%%vibe`. Sends no request and starts nothing."""
    from vibe_jupyter import magics

    magics.load_magics(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """Unregister the magics and stop what they started."""
    from vibe_jupyter import magics

    magics.unload_magics(shell)


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that importing the package is cheap."""
    if name in ("aask", "ask"):
        return getattr(import_module("vibe_jupyter.magics"), name)
    if name == "describe":
        return import_module("vibe_jupyter.describe")
    if name == "Reply":
        from vibe_jupyter.app.run_view import Reply

        return Reply
    if name == "tool":
        from vibe_jupyter.tools.custom import tool

        return tool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
