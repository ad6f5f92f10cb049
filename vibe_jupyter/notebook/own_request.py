"""Ask this kernel for a turn of its main thread: a message to its own shell channel, which waits its turn like a cell.

Everything else that reaches the main thread between cells (a callback of its loop, a timer) may come in the middle of
an asynchronous cell, and ahead of cells that wait. A message of the shell channel does neither, on any ipykernel.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import zmq

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.shell import Kernel, Message
from vibe_jupyter.own_imports import without_working_folder

_NO_ADDRESS: Final = (
    "This kernel does not say where its shell channel is, so nothing can be done in it between cells. "
    "Update ipykernel, or run the notebook in JupyterLab."
)
_ANY: Final = ("*", "0.0.0.0", "::")
"""Addresses to listen on, none to speak to."""


class OwnRequests:
    """A client of the kernel, inside the kernel. Sent from one thread, the engine's."""

    def __init__(self, kernel: Kernel, kind: str) -> None:
        self._kind = kind
        self._url = _url_of(kernel)
        with without_working_folder():
            from jupyter_client.session import Session  # noqa: PLC0415 (only where turns are asked for)

        ours = cast(Any, kernel.session)
        self._session: Any = Session(key=ours.key, signature_scheme=ours.signature_scheme)
        self._socket: Any = None
        """A `zmq.Socket`; None before the first request."""

    def send(self, content: Message) -> None:
        """Put a request behind what waits already; nothing is answered to it."""
        if self._socket is None:
            self._socket = cast(Any, zmq.Context.instance()).socket(zmq.DEALER)
            self._socket.linger = 0
            self._socket.connect(self._url)
        self._session.send(self._socket, self._kind, content)

    def close(self) -> None:
        """Say goodbye. On the thread that sends."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _url_of(kernel: Kernel) -> str:
    application = cast(Any, getattr(kernel, "parent", None))
    make: Callable[[str], str] | None = getattr(application, "_make_url", None)
    if make is None or not getattr(application, "shell_port", 0):
        raise NotebookError(_NO_ADDRESS)
    url, ip = make("shell"), str(application.ip)
    return url.replace(f"//{ip}:", "//127.0.0.1:") if ip in _ANY else url
