"""The import of the SDK, when the first server starts."""

import importlib
import threading
from typing import Final

from vibe_jupyter.own_imports import without_working_folder
from vibe_jupyter.tools.mcp.sdk_log import capture

_AT_FIRST_USE: Final = ("vibe_jupyter.tools.mcp.link", "anyio._backends._asyncio", "certifi", "h11", "jsonschema")
_loading = threading.Lock()


def load() -> None:
    """Import what speaks the protocol, with what that imports when first used. It takes half a second: not for the
    event loop."""
    with _loading, without_working_folder():
        for name in _AT_FIRST_USE:
            importlib.import_module(name)
    capture()
