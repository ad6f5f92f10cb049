"""A kernel process of our own, spoken to message by message on one thread."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Literal

import zmq
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import KernelManager

from vibe_jupyter.errors import ConfigError, NotebookError

START_WAIT: Final = 60.0
"""Seconds a kernel has to start."""
Message = dict[str, Any]
Channel = Literal["iopub", "shell", "control"]


class KernelProcess:
    """Started by the constructor, ended by `close`.

    Raises:
        ConfigError: no kernel of this name is installed.
        NotebookError: it does not start.
    """

    def __init__(self, name: str, notebook: Path) -> None:
        self._folder = tempfile.mkdtemp(prefix="vibe-kernel-")
        self._manager = KernelManager(kernel_name=name, connection_file=f"{self._folder}/c.json")
        if sys.platform != "win32":
            # Sockets in a folder of our own are nobody else's to open.
            self._manager.transport, self._manager.ip = "ipc", f"{self._folder}/s"
        # Where a server starts the kernel, this says which notebook it is for.
        environment = {**os.environ, "JPY_SESSION_NAME": str(notebook)}
        try:
            self._manager.start_kernel(cwd=str(notebook.parent), env=environment)
        except NoSuchKernel as error:
            raise ConfigError(
                f"The notebook wants the kernel {name!r}, which is not installed here. `jupyter kernelspec list` "
                "shows those that are; choose one with --kernel."
            ) from error
        self._client = self._manager.client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=START_WAIT)
        except RuntimeError as error:
            self.close()
            raise NotebookError(f"The kernel {name!r} did not start: {error}.") from error
        except BaseException:
            self.close()
            raise
        self._channels: dict[Channel, Any] = {
            "iopub": self._client.iopub_channel,
            "shell": self._client.shell_channel,
            "control": self._client.control_channel,
        }
        self._poller = zmq.Poller()
        for channel in self._channels.values():
            self._poller.register(channel.socket, zmq.POLLIN)

    @property
    def client(self) -> str:
        """The session id in the header of everything we send."""
        return self._client.session.session

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self._manager.is_alive())

    def execute(self, code: str, cell: str) -> str:
        """Send a cell; returns the id of the request."""
        content: dict[str, Any] = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        message = self._client.session.msg("execute_request", content)
        message["metadata"] = {"cellId": cell}
        self._client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def tell(self, kind: str, content: dict[str, Any]) -> None:
        """Send on the control channel, which the kernel hears while it runs a cell."""
        self._client.control_channel.send(self._client.session.msg(kind, content))

    def next(self, seconds: float) -> tuple[Channel, Message] | None:
        """The next message; None when none came in this time. Of iopub all is read first."""
        end = time.monotonic() + seconds
        while True:
            ready = dict(self._poller.poll(max(0, round((end - time.monotonic()) * 1000))))
            for name, channel in self._channels.items():
                if channel.socket in ready:
                    return name, channel.get_msg(timeout=1)
            if time.monotonic() >= end:
                return None

    def interrupt(self) -> None:
        """As ■ does."""
        self._manager.interrupt_kernel()

    def close(self) -> None:
        """End the process and forget it."""
        self._client.stop_channels()
        with contextlib.suppress(RuntimeError):
            self._manager.shutdown_kernel()
        self._client.context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)
