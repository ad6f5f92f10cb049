"""A model server for measuring: it says when a request came and when each piece of its answer left."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Self


class TimedServer:
    """Streams the same pieces to every Chat Completions request, `seconds` for all of them."""

    def __init__(self, pieces: list[str], *, seconds: float = 0.0) -> None:
        self.arrivals: SimpleQueue[float] = SimpleQueue()
        """`time.monotonic` of each request."""
        self.sent: list[float] = []
        """`time.monotonic` just before each piece of the newest answer left."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(pieces, seconds))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """The address to configure."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self, pieces: list[str], seconds: float) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer.arrivals.put(time.monotonic())
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                outer.sent.clear()
                start = time.monotonic()
                for number, piece in enumerate(pieces):
                    time.sleep(max(0.0, start + seconds * number / len(pieces) - time.monotonic()))
                    outer.sent.append(time.monotonic())
                    self.wfile.write(_event({"content": piece}))
                self.wfile.write(_event({}, finish="stop") + b"data: [DONE]\n\n")
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Silent."""

        return Handler


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "b", "object": "chat.completion.chunk", "created": 0, "model": "bench", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
