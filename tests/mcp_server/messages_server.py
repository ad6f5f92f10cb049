"""A model server in Anthropic's form (`POST /v1/messages`, streamed), which calls one tool and then is done.

Recorded: the names of the tools in each request, and the results it is sent.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DONE = "All done."


class Messages:
    """What was asked of the server; each request that offers tools counts."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        """Called in the first answer, if it is offered."""
        self.url = ""
        self.offered: list[list[str]] = []
        self.results: list[str] = []

    def events(self, request: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The answer to a request."""
        offered = [tool["name"] for tool in request.get("tools", [])]
        if offered:
            self.offered.append(offered)
        content = request["messages"][-1]["content"]
        results = [part for part in content if isinstance(part, dict) and part["type"] == "tool_result"]
        self.results += [json.dumps(part["content"]) for part in results]
        calls = self.tool in offered and not results
        if calls:
            block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": self.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": "{}"}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": DONE}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "content": []}
        yield "message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
        yield "content_block_start", {"index": 0, "content_block": block}
        yield "content_block_delta", {"index": 0, "delta": delta}
        yield "content_block_stop", {"index": 0}
        ending = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        yield "message_delta", {"delta": ending, "usage": {"output_tokens": 1}}
        yield "message_stop", {}


@contextmanager
def serving(messages: Messages) -> Iterator[Messages]:
    """Listen on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.partition("?")[0] != "/v1/messages":
                self._send(404, b"{}", "application/json")
                return
            lines = (
                f"event: {name}\ndata: {json.dumps({'type': name, **said})}\n\n"
                for name, said in messages.events(request)
            )
            self._send(200, "".join(lines).encode(), "text/event-stream")

        def do_GET(self) -> None:
            self._send(404, b"{}", "application/json")

        do_HEAD = do_GET

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        messages.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield messages
        finally:
            server.shutdown()
            thread.join()
