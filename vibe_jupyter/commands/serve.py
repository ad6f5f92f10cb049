"""`%vibe serve …`: run the gateway in this kernel, on a separate thread."""

import atexit
import os
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.gateway.server import PORT, TOKEN, GatewayServer

_HOW: Final = (
    'Programs on this machine can ask it with the token in os.environ["{token}"]; it is not shown here, since outputs '
    "are saved. %vibe serve stop ends it."
)
_NONE: Final = "The gateway does not run. %vibe serve start starts it."


class KernelGateway:
    """The gateway of this kernel, if started. Main thread only."""

    def __init__(self) -> None:
        self._server: GatewayServer | None = None
        self._gave_token = False

    def start(self, folder: Path) -> str:
        """Start the gateway. Returns the message to print.

        Raises:
            ConfigError: A setting is invalid, or no port is available.
            NotebookError: It is already running.
        """
        if self._server is not None:
            raise NotebookError(f"The gateway runs already, at {self._server.url}.")
        server = _server(folder)
        server.start()
        self._server = server
        if server.is_new_token:
            os.environ[TOKEN] = server.token
            self._gave_token = True
        atexit.register(self.stop)
        return f"{self.status()}\n{_HOW.format(token=TOKEN)}"

    def stop(self) -> str:
        """Stop the gateway. Returns the message to print."""
        server, self._server = self._server, None
        atexit.unregister(self.stop)
        if server is None:
            return _NONE
        server.stop()
        if self._gave_token:
            os.environ.pop(TOKEN, None)
            self._gave_token = False
        return "The gateway is stopped."

    def status(self) -> str:
        """Describe the gateway's state."""
        if self._server is None:
            return _NONE
        state = self._server.agents.mcp_state()
        tools = f"{state.tools} tools of {state.connected} MCP server{'s' * (state.connected != 1)}"
        return f"The gateway is at {self._server.url}, with {tools}; {len(self._server.parts.live)} answers under way."


GATEWAY: Final = KernelGateway()  # the gateway of this kernel


def _server(folder: Path) -> GatewayServer:
    """Create a server on the default port, or on a free one if that is in use."""
    try:
        return GatewayServer(folder, os.environ, port=PORT)
    except ConfigError:
        return GatewayServer(folder, os.environ, port=0)
