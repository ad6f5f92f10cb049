"""A recording proxy between an agent and a real model server."""

import json
import threading
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from vibe_jupyter.testing.requests import ModelRequest

ANSWER_WAIT = 600.0  # seconds between two chunks of a response
PIECE = 65_536  # bytes to read at once, at most
_PASSED_ON = ("authorization", "content-type", "accept")


class RecordingModel:
    """A proxy in front of a Chat Completions server that records each request.

    Args:
        api_base: base URL of the real server, such as ``http://127.0.0.1:8080/v1``.
        name: name of the model to request.
    """

    def __init__(self, api_base: str, *, name: str) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []  # all requests so far, as received
        self._api_base = api_base.rstrip("/")
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """The `api_base` to configure.

        Raises:
            RuntimeError: used outside of `with`.
        """
        if self._server is None:
            raise RuntimeError("Nothing is recorded yet: use `with RecordingModel(...) as model:`.")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        """Start listening on a free port."""
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
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def pass_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Forward one request to the real server, and stream its response back."""
        headers = {name.lower(): value for name, value in handler.headers.items() if name.lower() in _PASSED_ON}
        if body:
            try:
                given: Any = json.loads(body)
            except ValueError as error:
                handler.send_error(400, f"The body is not JSON: {error}")
                return
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
            handler.close_connection = True  # the agent has disconnected


def _send_back(handler: BaseHTTPRequestHandler, answer: HTTPResponse | HTTPError) -> None:
    handler.send_response(answer.status or 500)
    handler.send_header("content-type", answer.headers.get("content-type", "application/json"))
    handler.send_header("connection", "close")
    handler.end_headers()
    while piece := answer.read1(PIECE):
        handler.wfile.write(piece)
        handler.wfile.flush()
