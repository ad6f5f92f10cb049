"""A server between an agent and a real model server: it passes all on and keeps each request."""

import json
import threading
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from vibe_jupyter.testing.requests import ModelRequest

ANSWER_WAIT = 600.0
"""Seconds between two pieces of an answer."""
PIECE = 65_536
"""Bytes that are read at once, at most."""
_PASSED_ON = ("authorization", "content-type", "accept")


class RecordingModel:
    """Stands for a server of Chat Completions.

    Args:
        api_base: of the real server, such as ``http://127.0.0.1:8080/v1``.
        name: of the model to ask for.
    """

    def __init__(self, api_base: str, *, name: str) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        """Every request so far, as it came."""
        self._api_base = api_base.rstrip("/")
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The api_base to configure.

        Raises:
            RuntimeError: outside of `with`.
        """
        if self._server is None:
            raise RuntimeError("Nothing is recorded yet: use `with RecordingModel(...) as model:`.")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        """Begin to listen, on a port that is free."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None: ...

            def do_GET(self) -> None:
                owner.pass_on(self, b"")

            def do_POST(self) -> None:
                owner.pass_on(self, self.rfile.read(int(self.headers.get("content-length", 0))))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def pass_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Send one request to the real server, and each piece of its answer back as it comes."""
        headers = {name: value for name, value in handler.headers.items() if name.lower() in _PASSED_ON}
        if body:
            given: Any = json.loads(body)
            self.requests.append(ModelRequest(cast("dict[str, Any]", given), headers, handler.path, body))
        url = self._api_base + handler.path.removeprefix("/v1")
        asked = Request(url, data=body or None, headers=headers, method=handler.command)
        try:
            with urlopen(asked, timeout=ANSWER_WAIT) as answer:
                _send_back(handler, answer)
        except HTTPError as refusal:
            with refusal:
                _send_back(handler, refusal)
        except URLError as error:
            handler.send_error(502, f"{self._api_base}: {error.reason}")
        except OSError:
            handler.close_connection = True  # the agent has gone


def _send_back(handler: BaseHTTPRequestHandler, answer: HTTPResponse | HTTPError) -> None:
    handler.send_response(answer.status or 500)
    handler.send_header("content-type", answer.headers.get("content-type", "application/json"))
    handler.send_header("connection", "close")
    handler.end_headers()
    while piece := answer.read1(PIECE):
        handler.wfile.write(piece)
        handler.wfile.flush()
