"""Functions that the main thread calls between cells, behind those that run and wait."""

import secrets
from collections.abc import Callable
from typing import Any, Final, cast

from vibe_jupyter.kernel.ipython_types import IPythonKernel, Message
from vibe_jupyter.kernel.main_thread import OwnRequests

LATER: Final = "vibe_later"
"""Type of the message that asks for a call."""


class LaterCalls:
    """Made on the main thread; at most one for a kernel.

    Raises:
        NotebookError: this kernel does not say where its shell channel is.
    """

    def __init__(self, kernel: object) -> None:
        self._handlers = cast("dict[str, Callable[..., object]]", cast(Any, kernel).shell_handlers)
        self._requests = OwnRequests(cast(IPythonKernel, kernel), LATER)
        self._waiting: dict[str, Callable[[], None]] = {}
        self._handlers[LATER] = self._on_message

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, which must not raise, when what waits now has run. On the engine's loop."""
        name = secrets.token_hex(16)
        self._waiting[name] = function
        self._requests.send({"id": name})

    async def close(self) -> None:
        """Call nothing any more. On the engine's loop."""
        self._waiting.clear()
        if self._handlers.get(LATER) == self._on_message:
            del self._handlers[LATER]
        self._requests.close()

    def _on_message(self, _stream: object, _identities: object, message: Message) -> None:
        """Main thread, called by the kernel."""
        function = self._waiting.pop(str(message["content"].get("id")), None)
        if function is not None:
            function()
