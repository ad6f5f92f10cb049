"""Worker process of a gateway, started by `GatewayWorkers`.

``python -m vibe_jupyter.gateway.worker DESCRIPTOR HOST``
"""

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from vibe_jupyter.errors import VibeError
from vibe_jupyter.gateway.server import GatewayServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve on an inherited listening socket until stdin reaches its end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("descriptor", type=int)
    parser.add_argument("host")
    parser.add_argument("--disable-metrics", action="store_true")
    chosen = parser.parse_args(arguments)
    listening = socket.socket(fileno=chosen.descriptor)
    listening.set_inheritable(False)  # child processes started by uvloop get every inheritable descriptor
    try:
        server = GatewayServer(
            Path.cwd(), os.environ, host=chosen.host, port=listening, metrics=not chosen.disable_metrics
        )
    except VibeError as error:
        print(f"vibe-jupyter serve: {error}", file=sys.stderr)  # noqa: T201
        return 1
    threading.Thread(target=_end_with_input, name="gateway-input", daemon=True).start()
    server.serve()
    return 0


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    raise SystemExit(main())
