"""Calls that run on the main thread between cells, after all cells queued so far."""

import secrets
from collections.abc import Callable
from typing import Any, Final, cast

from vibe_jupyter.kernel.ipython_types import IPythonKernel, Message
from vibe_jupyter.kernel.main_thread import OwnRequests

LATER: Final = "vibe_later"  # message type


class LaterCalls:
    """Queue of main-thread calls. Created on the main thread, at most once per kernel.

    Raises:
        NotebookError: The address of the kernel's shell channel can't be determined.
    """

    def __init__(self, kernel: object) -> None:
        self._handlers = cast("dict[str, Callable[..., object]]", cast(Any, kernel).shell_handlers)
        self._requests = OwnRequests(cast(IPythonKernel, kernel), LATER)
        self._waiting: dict[str, Callable[[], None]] = {}
        self._handlers[LATER] = self._on_message

    def call(self, function: Callable[[], None]) -> None:
        """Call `function`, which must not raise, after the cells queued now. On the engine's loop."""
        name = secrets.token_hex(16)
        self._waiting[name] = function
        self._requests.send({"id": name})

    async def close(self) -> None:
        """Discard pending calls and unregister the handler. On the engine's loop."""
        self._waiting.clear()
        if self._handlers.get(LATER) == self._on_message:
            del self._handlers[LATER]
        self._requests.close()

    def _on_message(self, _stream: object, _identities: object, message: Message) -> None:
        """Handle a message. Main thread, called by the kernel."""
        function = self._waiting.pop(str(message["content"].get("id")), None)
        if function is not None:
            function()
