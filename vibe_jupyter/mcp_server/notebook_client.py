"""Client for a served notebook: discovery through notes in Jupyter's runtime folder, and requests over HTTP.

Part of a program that must start quickly, so this module imports only the standard library.
"""

import base64
import contextlib
import dataclasses
import http.client
import json
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import psutil
from jupyter_core.paths import jupyter_runtime_dir, secure_write

from vibe_jupyter.errors import ConfigError, NotebookError

PREFIX: Final = "vibe-"
MAX_NOTE: Final = 16 * 1024  # bytes; a longer file is not one of our notes
HOW_TO_SERVE: Final = "Run %vibe mcp serve in a cell of the notebook that you want to offer."

CONNECT_WAIT: Final = 10.0  # seconds to connect; a call itself may take as long as the user takes to approve it
# Seconds that an idle connection is reused; less than http.KEEP_ALIVE, so that the server never closes it first
KEEP: Final = 60.0
UNREACHABLE: Final = f"Not run: the notebook that was served cannot be reached. {HOW_TO_SERVE}"
BROKEN_OFF: Final = f"The notebook ended while it worked on this call, which may have run in part. {HOW_TO_SERVE}"
TOO_LARGE: Final = "Not run: the call is too large for the notebook. Send less at a time."
CROWDED: Final = "Not run: the notebook has too many open connections. Try again in a few seconds."

Message = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class NotebookNote:
    """A served notebook. A plain dataclass rather than a pydantic model, to keep `vibe-jupyter mcp` fast to start."""

    kernel: str  # kernel id
    notebook: str  # path of the notebook when it was served; "" if unknown
    pid: int
    url: str
    token: str
    version: str  # version of this package

    @property
    def words(self) -> str:
        """Display name."""
        return f"{self.notebook or 'a notebook without a name'} (kernel {self.kernel[:8]})"


def register_notebook(note: NotebookNote) -> Path:
    """Write the note of a served notebook, replacing an earlier one of the same kernel.

    Raises:
        NotebookError: the runtime folder is not writable.
    """
    folder = Path(jupyter_runtime_dir())
    path = folder / f"{PREFIX}{note.kernel}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with secure_write(str(path)) as file:
            file.write(json.dumps(dataclasses.asdict(note)))
    except (OSError, RuntimeError) as error:
        raise NotebookError(f"Where the notebook is served cannot be written down in {folder}: {error}.") from error
    return path


def unregister_notebook(path: Path) -> None:
    """Delete a note when the notebook is no longer served."""
    with contextlib.suppress(OSError):
        path.unlink()


def list_notes() -> list[NotebookNote]:
    """Return the notes of all notebooks this user serves. Notes of terminated processes are deleted."""
    found: list[NotebookNote] = []
    for path in sorted(Path(jupyter_runtime_dir()).glob(f"{PREFIX}*.json")):
        note = _read_note(path)
        if note is None:
            continue
        if psutil.pid_exists(note.pid):
            found.append(note)
        else:
            unregister_notebook(path)
    return found


def find_note(found: Sequence[NotebookNote], *, kernel: str = "", notebook: Path | None = None) -> NotebookNote:
    """Select the notebook that was asked for.

    Raises:
        ConfigError: none or several match. The message lists them.
    """
    fitting = [note for note in found if _is_meant(note, kernel, notebook)]
    if len(fitting) == 1:
        return fitting[0]
    if not found:
        raise ConfigError(f"No notebook is served now. {HOW_TO_SERVE}")
    names = "; ".join(note.words for note in (fitting or found))
    if fitting:
        raise ConfigError(
            f"{len(fitting)} notebooks are served: {names}. Say which one, with --notebook PATH or --kernel ID."
        )
    raise ConfigError(f"The notebook that was asked for is not served now; these are: {names}. {HOW_TO_SERVE}")


def _is_meant(note: NotebookNote, kernel: str, notebook: Path | None) -> bool:
    if kernel and not note.kernel.startswith(kernel):
        return False
    return notebook is None or (note.notebook != "" and Path(note.notebook).resolve() == notebook.resolve())


def _read_note(path: Path) -> NotebookNote | None:
    """Read a note. Returns None if it is incomplete, or not owned by this user and readable only by them."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if os.name == "posix" and (about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077):
                return None
            return _note(json.loads(file.read(MAX_NOTE)))
    except (OSError, ValueError, RecursionError):
        return None


def _note(read: object) -> NotebookNote | None:
    """Validate a note. Returns None if a field is missing or has the wrong type; later versions may add fields."""
    if not isinstance(read, dict):
        return None
    values = cast("dict[str, object]", read)
    fields = {field.name: values.get(field.name) for field in dataclasses.fields(NotebookNote)}
    if not all(type(value) is (int if name == "pid" else str) for name, value in fields.items()):
        return None
    return NotebookNote(**cast("dict[str, Any]", fields))


class NotebookClient:
    """HTTP client that reuses one idle connection. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Address, connection and the monotonic time until which it is reused
        self._free: tuple[str, http.client.HTTPConnection, float] | None = None

    def take(self, url: str) -> http.client.HTTPConnection:
        """Return the idle connection to this address, or a new one that isn't open yet."""
        with self._lock:
            free, self._free = self._free, None
        if free is not None:
            address, connection, until = free
            if address == url and time.monotonic() < until and _is_open(connection):
                return connection
            connection.close()
        place = urlsplit(url)
        return http.client.HTTPConnection(place.hostname or "", place.port, timeout=CONNECT_WAIT)

    def give_back(self, url: str, connection: http.client.HTTPConnection) -> None:
        """Store a connection whose response was read completely, and close the one stored before."""
        with self._lock:
            free, self._free = self._free, (url, connection, time.monotonic() + KEEP)
        if free is not None:
            free[1].close()

    def close(self) -> None:
        with self._lock:
            free, self._free = self._free, None
        if free is not None:
            free[1].close()


class Exchange:
    """A request to the notebook with its response."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.cancelled = False

    def messages(
        self, note: NotebookNote, request: Message, headers: Mapping[str, str], *, wait: float | None
    ) -> Iterator[Message]:
        """Send a request. Yields notifications while it is processed, then the response.

        Args:
            note: the served notebook.
            request: JSON-RPC request.
            headers: additional headers.
            wait: timeout in seconds between received chunks; None for no limit.

        Raises:
            NotebookError: there was no response. The message states whether anything may have run.
        """
        said = UNREACHABLE
        connection = self._client.take(note.url)
        try:
            if connection.sock is None:
                connection.connect()
            opened: socket.socket = connection.sock  # pyright: ignore[reportAssignmentType] - connected above
            self._hold_socket(opened, wait)
            body = json.dumps(request).encode()
            said = BROKEN_OFF
            connection.request("POST", urlsplit(note.url).path, body, {**_headers(note, request), **headers})
            response = connection.getresponse()
            answer = None
            for message in _messages(response):
                if "method" in message:
                    yield message
                else:
                    answer = message
            if answer is None:
                raise ValueError("the stream ended without an answer")
            if response.isclosed() and not response.will_close:
                self._release_socket()
                self._client.give_back(note.url, connection)
                connection = None
            yield answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotebookError(said) from error
        finally:
            self._release_socket()
            if connection is not None:
                connection.close()

    def cancel(self) -> None:
        """Cancel the request by closing the connection, which the notebook detects. Thread-safe."""
        with self._lock:
            self.cancelled = True
            if self._socket is not None:
                _shut(self._socket)

    def _hold_socket(self, opened: socket.socket, wait: float | None) -> None:
        opened.settimeout(wait)
        with self._lock:
            self._socket = opened
            if self.cancelled:
                _shut(opened)

    def _release_socket(self) -> None:
        with self._lock:
            self._socket = None


def _headers(note: NotebookNote, request: Message) -> dict[str, str]:
    name = request["params"].get("name")
    return {
        "Authorization": f"Bearer {note.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Method": request["method"],
        **({"Mcp-Name": _header_value(name)} if isinstance(name, str) else {}),
    }


def _header_value(text: str) -> str:
    """Encode a header value as the MCP specification requires: Base64 unless it is plain ASCII."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


def _messages(response: http.client.HTTPResponse) -> Iterator[Message]:
    """Yield the JSON-RPC messages of a response.

    Raises:
        NotebookError: the server rejected the request.
        ValueError: the body is not a JSON-RPC message.
    """
    if (response.getheader("Content-Type") or "").startswith("text/event-stream"):
        yield from map(json.loads, _events(response))
        return
    body = response.read()
    if response.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        raise NotebookError(TOO_LARGE)
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise NotebookError(CROWDED)
    if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise NotebookError(UNREACHABLE)
    message = json.loads(body)
    if not isinstance(message, dict) or "jsonrpc" not in message:
        raise ValueError("this is not an answer")
    yield message


def _events(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the data of each server-sent event."""
    data: list[bytes] = []
    for line in response:
        text = line.rstrip(b"\r\n")
        if text.startswith(b"data:"):
            data.append(text.removeprefix(b"data:").removeprefix(b" "))
        elif not text and data:
            yield b"\n".join(data)
            data.clear()


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Return whether an idle connection is usable. It is readable if the server closed it or sent unexpected data."""
    return connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]


def _shut(opened: socket.socket) -> None:
    with contextlib.suppress(OSError):  # already closed
        opened.shutdown(socket.SHUT_RDWR)
