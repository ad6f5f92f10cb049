"""A model server that runs tools by itself: speaks the events of mistral.rs over real HTTP, from a script."""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import patient

WAIT = patient(30.0)
"""Seconds a script waits for an answer to an approval."""

CODE_ARGUMENTS: dict[str, Any] = {"code": "print(6 * 7)", "outputs": []}


@dataclass(frozen=True)
class Named:
    """A named event."""

    name: str
    body: Any


@dataclass(frozen=True)
class Chunk:
    """An unnamed event; what it holds beside the usual."""

    text: str = ""
    finish: str | None = None
    more: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Await:
    """The script goes on once this approval is answered, or the user's side is gone."""

    approval_id: str


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""

    data: bytes


@dataclass(frozen=True)
class Hold:
    """Keep-alive signs until the event is set, or the other side is gone."""

    until: threading.Event


@dataclass(frozen=True)
class Cut:
    """The connection ends here, in the midst of the answer."""


@dataclass(frozen=True)
class Whole:
    """An answer that is one JSON body."""

    body: dict[str, Any]


Line = Named | Chunk | Await | Raw | Hold | Cut
END = (Chunk(finish="stop"), Raw(b"data: [DONE]\n\n"))


def progress(phase: str, *, name: str = "opaque_7", in_round: int = 1, **data: Any) -> Named:
    """A call of the server, as it begins or ends."""
    body = {"type": "agentic_tool_call_progress", "round": in_round, "tool_name": name, "phase": phase, "data": data}
    return Named("agentic_tool_call_progress", body)


def approval(approval_id: str = "appr_1", **changes: Any) -> Named:
    """The server asks whether it may run Python code."""
    body: dict[str, Any] = {
        "type": "agentic_tool_approval_required",
        "approval_id": approval_id,
        "session_id": "sess-1",
        "round": 1,
        "tool": {"source": "built_in", "kind": "code_execution", "label": "Python code"},
        "arguments": CODE_ARGUMENTS,
    }
    return Named("agentic_tool_approval_required", body | changes)


def produced(**changes: Any) -> Named:
    """A small text file."""
    body: dict[str, Any] = {
        "id": "file_run1_r1_0",
        "name": "table.csv",
        "format": "csv",
        "mime_type": "text/csv",
        "bytes": 8,
        "created_at": 1_700_000_000,
        "purpose": "agent_output",
        "source": {"tool": "opaque_7", "round": 1, "turn": 1},
        "text": "a,b\n1,2\n",
    }
    body |= changes
    return Named("file_produced", {name: value for name, value in body.items() if value is not None})


class AgenticServer:
    """Plays one script for each request, and remembers what it was asked."""

    def __init__(self, *scripts: Sequence[Line] | Whole) -> None:
        self.scripts = list(scripts)
        self.requests: list[dict[str, Any]] = []
        self.decisions: list[tuple[str, dict[str, Any]]] = []
        """Answers to approvals: id and body."""
        self.keys: list[str | None] = []
        """The Authorization header of each request."""
        self.known = {"appr_1", "appr_2"}
        """Approvals that are not answered with 404."""
        self.says = "resolved"
        self.files: dict[str, tuple[int, bytes]] = {}
        """Status and content, by id."""
        self.fetched: list[str] = []
        self.models: list[Any] = []
        """Entries of the list of models."""
        self.stopping = threading.Event()
        self.answered = threading.Condition()
        self._listener = _Listener(("127.0.0.1", 0), _Handler)
        self._listener.owner = self
        self.host = f"127.0.0.1:{self._listener.server_address[1]}"
        self.url = f"http://{self.host}/v1"
        self._thread = threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        """End it, with everything that waits."""
        self.stopping.set()
        with self.answered:
            self.answered.notify_all()
        self._listener.shutdown()
        self._thread.join(WAIT)
        self._listener.server_close()


@contextmanager
def serving(*scripts: Sequence[Line] | Whole) -> Generator[AgenticServer]:
    """A server for the time of a test."""
    server = AgenticServer(*scripts)
    try:
        yield server
    finally:
        server.stop()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    owner: AgenticServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener  # pyright: ignore[reportIncompatibleVariableOverride] - it is made by no other

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """The content of a file."""
        owner = self.server.owner
        file_id = self.path.removeprefix("/v1/files/").removesuffix("/content")
        owner.fetched.append(self.path)
        owner.keys.append(self.headers.get("authorization"))
        if self.path == "/v1/models":
            self._whole(200, json.dumps({"object": "list", "data": owner.models}).encode(), "application/json")
            return
        status, content = owner.files.get(file_id, (404, b"{}"))
        self._whole(status, content, "application/octet-stream")

    def do_POST(self) -> None:
        """A request to the model, or the answer to an approval."""
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        owner.keys.append(self.headers.get("authorization"))
        if self.path.startswith("/v1/agent/approvals/"):
            self._decide(self.path.rpartition("/")[2], body)
            return
        owner.requests.append(body)
        script = owner.scripts.pop(0)
        if isinstance(script, Whole):
            self._whole(200, json.dumps(script.body).encode(), "application/json")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Session-Id", "of-a-header")
        self.end_headers()
        for line in script:
            if not self._play(line):
                return

    def _decide(self, approval_id: str, body: dict[str, Any]) -> None:
        owner = self.server.owner
        known = approval_id in owner.known
        with owner.answered:
            owner.decisions.append((approval_id, body))
            owner.answered.notify_all()
        said = {"status": owner.says if known else "not_found"}
        self._whole(200 if known else 404, json.dumps(said).encode(), "application/json")

    def _play(self, line: Line) -> bool:
        owner = self.server.owner
        match line:
            case Named():
                self._write(f"event: {line.name}\ndata: {json.dumps(line.body)}\n\n".encode())
            case Chunk():
                delta = {"content": line.text} if line.text else {}
                choice = {"index": 0, "delta": delta, "finish_reason": line.finish}
                self._write(b"data: " + json.dumps({"model": "m", "choices": [choice], **line.more}).encode() + b"\n\n")
            case Raw():
                self._write(line.data)
            case Await():
                with owner.answered:
                    return owner.answered.wait_for(lambda: self._is_answered(line.approval_id), WAIT)
            case Hold():
                while not line.until.wait(0.05) and not owner.stopping.is_set():
                    self._write(b": keep-alive\n\n")
            case Cut():
                return False
        return True

    def _is_answered(self, approval_id: str) -> bool:
        owner = self.server.owner
        return owner.stopping.is_set() or any(one == approval_id for one, _ in owner.decisions)

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _whole(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("X-Session-Id", "of-a-header")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
