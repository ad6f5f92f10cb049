"""HTTP server of a scripted model. No thread or socket of it outlives `stop`."""

import contextlib
import json
import select
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import urlsplit

from vibe_jupyter.testing.requests import ModelRequest
from vibe_jupyter.testing.wire import Raw, Status, Wire

POLL = 0.05  # seconds between checks whether the server is stopping, or the client of a paused reply has disconnected
STOP_WITHIN = 5.0  # seconds for the threads to end

PATHS = ("/chat/completions", "/api/chat")  # endpoints of a model

Reply = Callable[[ModelRequest], Status | Raw | Wire]


class ModelServer:
    """A server on a free port of 127.0.0.1 that listens as soon as it is created."""

    def __init__(self, model: str, reply: Reply) -> None:
        self.stopping = threading.Event()
        self._listener = _Listener(self, model, reply)
        port = self._listener.server_address[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self._thread = threading.Thread(
            target=self._listener.serve_forever,
            kwargs={"poll_interval": POLL},
            name=f"scripted-model-{port}",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and wait until they are closed."""
        self.stopping.set()
        self._listener.shutdown()
        self._thread.join(STOP_WITHIN)
        self._listener.close()


class _Listener(socketserver.ThreadingTCPServer):
    """TCP server that tracks its connections, so that it can close them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, owner: ModelServer, model: str, reply: Reply) -> None:
        self.owner = owner
        self.model = model
        self.reply = reply
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, which is tracked while it is open."""
        with self._lock:
            self._connections[threading.current_thread()] = request
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._connections[threading.current_thread()]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors caused by clients that disconnect."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Close all connections, and wait for their threads."""
        self.server_close()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in connections:
            thread.join(STOP_WITHIN)


class _Gone(OSError):
    """Raised when the client has disconnected or the server is stopping."""


class _Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 handler of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener  # pyright: ignore[reportIncompatibleVariableOverride] - it is made by no other

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the output belongs to the test or the notebook."""

    def do_GET(self) -> None:
        """Send the list of models."""
        if urlsplit(self.path).path.rstrip("/").endswith("/models"):
            entry = {"id": self.server.model, "object": "model", "owned_by": "vibe_jupyter.testing"}
            self._send_whole(200, {"object": "list", "data": [entry]})
        else:
            self._no_such_path()

    def do_POST(self) -> None:
        """Reply to a request to the model."""
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not urlsplit(self.path).path.endswith(PATHS):
            self._no_such_path()
            return
        try:
            body = json.loads(raw)
        except ValueError as problem:
            self._send_whole(400, {"error": {"message": f"The body is not JSON: {problem}"}})
            return
        request = ModelRequest(
            body=cast("dict[str, Any]", body) if isinstance(body, dict) else {},
            headers={name.lower(): value for name, value in self.headers.items()},
            path=self.path,
            raw=raw,
        )
        try:
            self._send_reply(self.server.reply(request))
        except OSError:
            request.gone.set()
            self.close_connection = True

    def _send_reply(self, reply: Status | Raw | Wire) -> None:
        match reply:
            case Status():
                self._send_whole(reply.status, _error_body(reply), reply.headers)
            case Raw():
                self._send_raw(reply)
            case Wire() if reply.request.stream:
                self._stream_wire(reply)
            case Wire():
                self._hold_stream(reply)
                self._send_whole(200, reply.whole())

    def _stream_wire(self, wire: Wire) -> None:
        self._begin_response(200, wire.content_type)
        for chunk in wire.opening():
            self._send_delta(wire, chunk)
        self._hold_stream(wire)
        for chunk in wire.rest():
            self._send_delta(wire, chunk)
        if wire.end:
            self._send_chunk(wire.end)
        self._send_chunk(b"")

    def _send_delta(self, wire: Wire, chunk: dict[str, Any]) -> None:
        self._send_chunk(wire.frame(json.dumps(chunk, separators=(",", ":")).encode()))
        self._wait_seconds(wire.answer.delay)

    def _send_raw(self, reply: Raw) -> None:
        self._begin_response(reply.status, reply.content_type)
        for chunk in reply.chunks:
            if chunk:
                self._send_chunk(chunk)
                self._wait_seconds(reply.delay_between)
        if reply.end == "eof":
            self._send_chunk(b"")
            return
        # With a linger time of 0, closing sends a TCP reset, which discards unread data. Let the client read it first.
        self._wait_seconds(POLL)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        raise _Gone

    def _begin_response(self, status: int, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_chunk(self, data: bytes) -> None:
        """Send a chunk in a single write. An empty chunk ends the body."""
        self._check_running()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send_whole(self, status: int, body: str | Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        kind = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _no_such_path(self) -> None:
        self._send_whole(404, {"error": {"message": f"No such path: {self.path}"}})

    def _hold_stream(self, wire: Wire) -> None:
        event = wire.answer.hold
        while event is not None and not event.wait(POLL):
            self._check_running()

    def _wait_seconds(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._check_running()
            self.server.owner.stopping.wait(min(left, POLL))

    def _check_running(self) -> None:
        """Raise `_Gone` if the client has disconnected or the server is stopping."""
        if self.server.owner.stopping.is_set():
            raise _Gone
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise _Gone


def _error_body(reply: Status) -> str | Mapping[str, Any]:
    if reply.body is not None:
        return reply.body
    return {"error": {"message": f"scripted status {reply.status}", "type": "scripted_model", "code": reply.status}}
