"""A server that goes wrong in one of many ways, in the older protocol, by hand: it starts in no time.

    python broken_server.py MODE            over stdin and stdout
    python broken_server.py MODE http       over HTTP on a free port, which it prints first

Each start adds a line to the file that the variable STARTS names.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODE = sys.argv[1]
HUGE = 10 * 1024 * 1024
LONG = 3600  # seconds
Message = dict[str, Any]


def note_start() -> None:
    if starts := os.environ.get("STARTS"):
        with open(starts, "a") as file:
            file.write(f"{os.getpid()}\n")


def end(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
    os._exit(3)


def at(step: str) -> None:
    """Die or hang, if it is this step's turn."""
    if f"dies at {step}" == MODE:
        end(f"Traceback: no luck at {step}")
    if f"hangs at {step}" == MODE:
        time.sleep(LONG)


TOOLS = [
    {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}},
    {"name": "late", "description": "Answers late.", "inputSchema": {"type": "object"}},
]

BAD_TOOLS: list[object] = [
    {"name": "free output", "inputSchema": {"type": "object"}, "outputSchema": {"anyOf": [{"type": "object"}]}},
    {"name": "no type", "inputSchema": {"properties": {"text": {"type": "string"}}}},
    {"name": "odd hints", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "maybe"}},
    {"name": "no schema", "description": "Has none."},
    {"name": "a list", "inputSchema": {"type": "array"}},
    {"description": "Nameless.", "inputSchema": {"type": "object"}},
    "no tool",
]


def reply(request: Message, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def said(request: Message, text: str) -> Message:
    return reply(request, {"content": [{"type": "text", "text": text}]})


def note(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answers(request: Message) -> Iterator[Message | bytes]:
    """What is sent in answer to a request; bytes are sent as they are."""
    match request["method"]:
        case "server/discover":
            at("discover")
            if MODE == "silent at discover":
                return
            yield {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}}
        case "initialize":
            at("start")
            yield reply(
                request,
                {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                    "serverInfo": {"name": "broken", "version": "1"},
                },
            )
        case "tools/list":
            at("list")
            if MODE.endswith("pages"):
                yield page(request)
                return
            yield reply(request, {"tools": [*TOOLS, *BAD_TOOLS] if MODE == "bad tools" else TOOLS})
            if MODE == "list_changed storm":
                for _ in range(2_000):
                    yield note("notifications/tools/list_changed")
        case "tools/call":
            yield from call(request)
        case _:
            yield {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}}


def page(request: Message) -> Message:
    """Ten tools, and where to go on."""
    start = int((request.get("params") or {}).get("cursor") or 0)
    end = start + 10 if MODE == "endless pages" else min(start + 10, 25)
    tools = [{**TOOLS[0], "name": f"tool {number}"} for number in range(start, end)]
    return reply(request, {"tools": tools} | ({"nextCursor": str(end)} if end != 25 else {}))


def call(request: Message) -> Iterator[Message | bytes]:
    at("call")
    text = request["params"].get("arguments", {}).get("text", "")
    fine = said(request, text)
    match MODE:
        case "floods stdout" | "endless line" | "10 MiB without newline" | "40 MiB without newline":
            yield from flood()
        case "huge answer":
            yield said(request, "x" * HUGE)
        case "garbage lines":
            yield b'\xff\xfe{"jsonrpc"\n{]\nnull\n[1]\n"text"\n{"jsonrpc": "2.0"}\n' + b"[" * 20_000 + b"\n"
            yield fine
        case "logs on stdout":
            yield b"INFO starting up\nWARNING: nothing to see\n"
            yield fine
        case "wrong id":
            yield {**fine, "id": 4711}
            yield {**fine, "id": None}
            yield {**fine, "id": "text"}
        case "duplicate answer":
            yield fine
            yield said(request, "another")
        case "late answer" if request["params"]["name"] == "late":
            threading.Timer(1.0, write, [said(request, "too late")]).start()
        case _:
            yield fine


def flood() -> Iterator[bytes]:
    if MODE.endswith("without newline"):
        yield b"x" * int(MODE.split()[0]) * 2**20
        time.sleep(LONG)
    while True:
        yield b"noise, noise and more noise\n" * 1000 if MODE.startswith("floods") else b"x" * 65536


# ---- over pipes ----

_writing = threading.Lock()


def write(message: Message | bytes) -> None:
    data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
    with _writing:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def serve_pipes() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            for answer in answers(request):
                write(answer)


# ---- over HTTP ----


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions: set[str] = set()
    forgotten = False

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in request or "method" not in request:
            self._plain(202)
            return
        special: dict[str, Callable[[Message], None]] = {
            "401": lambda _: self._plain(401),
            "500": lambda _: self._plain(500),
            "redirects": lambda _: self._plain(307, {"location": os.environ["ELSEWHERE"]}),
        }
        if MODE in special:
            special[MODE](request)
        elif request["method"] == "tools/call" and hasattr(self, f"_{MODE.replace(' ', '_')}"):
            getattr(self, f"_{MODE.replace(' ', '_')}")(request)
        else:
            self._stream(request)

    def do_GET(self) -> None:
        self._plain(405)

    do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def _plain(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, request: Message) -> None:
        """All answers as events, then the end of the stream."""
        answered = answers(request)
        first = next(answered, None)  # it dies or hangs before anything is sent
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        if request["method"] == "initialize" and MODE.startswith("session"):
            self.sessions.add(name := f"session-{len(self.sessions)}")
            self.send_header("mcp-session-id", name)
        self.end_headers()
        self.close_connection = True
        try:
            for answer in filter(None, (first, *answered) if MODE != "floods stdout" else _chain(first, answered)):
                data = json.dumps(answer).encode() if isinstance(answer, dict) else answer.replace(b"\n", b"\ndata: ")
                self.wfile.write(b"event: message\ndata: " + data + b"\n\n")
        except OSError:
            return

    def _session_lost(self, request: Message) -> None:
        """The first session is forgotten at its first call; the next one stays."""
        self._unless_known(request, 404)

    def _session_lost_as_an_example_says_it(self, request: Message) -> None:
        error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
        self._unless_known(request, 400, json.dumps({"jsonrpc": "2.0", "error": error, "id": None}).encode())

    def _session_lost_as_if_unauthorized(self, request: Message) -> None:
        self._unless_known(request, 401, b"Unauthorized: Session not found")

    def _unless_known(self, request: Message, status: int, body: bytes = b"") -> None:
        if self.headers["mcp-session-id"] == "session-0":
            self._plain(status, body=body)
        else:
            self._stream(request)

    def _session_always_lost(self, request: Message) -> None:
        self._plain(404)

    def _stream_cut(self, request: Message) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"event: message\ndata: {")
        self.close_connection = True

    def _huge_answer(self, request: Message) -> None:
        body = json.dumps(said(request, "x" * HUGE)).encode()
        try:
            self._plain(200, {"content-type": "application/json"}, body)
        except OSError:
            return

    def _json_cut(self, request: Message) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"{")
        self.close_connection = True

    def _late_answer(self, request: Message) -> None:
        if request["params"]["name"] == "late":
            time.sleep(1.0)
        self._stream(request)


def _chain(first: Message | bytes | None, rest: Iterator[Message | bytes]) -> Iterator[Message | bytes | None]:
    yield first
    yield from rest


def serve_http() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    note_start()
    if MODE == "dies before start":
        end("Traceback: no luck at all")
    if MODE == "hangs before start":
        time.sleep(LONG)
    serve_http() if sys.argv[2:] == ["http"] else serve_pipes()
