"""`vibe-jupyter mcp`: an MCP server on stdin and stdout that forwards calls to the served notebook.

External clients start this program with each session, and may send their model's first request without our tools if
they aren't listed by then. To start quickly, it imports only the standard library and not the MCP SDK. The notebook may
be served later, again, or by another kernel, so each call looks it up.
"""

import contextlib
import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeGuard

from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.mcp_server.exposed_tools import INSTANCE_HEADER, INSTRUCTIONS, SERVER
from vibe_jupyter.mcp_server.notebook_client import Exchange, Message, NotebookClient, NotebookNote

# Protocol versions with `initialize`, oldest first
HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
VERSION: Final = "2026-07-28"  # protocol version without a handshake, always used towards the notebook
# Seconds for the notebook to list its tools; a kernel that holds the GIL must not delay the client's start
LIST_WAIT: Final = 2.0
# Tools of a notebook of this version, for clients that start before one is served (scripts/offered_tools.py).
TOOLS: Final = Path(__file__).with_name("tools.json")

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
UNSUPPORTED_VERSION: Final = -32022

_META: Final = "io.modelcontextprotocol/"
_PASSED_ON: Final = frozenset({"tools/list", "tools/call"})
# Fields of results that earlier versions don't have
_SINCE_2026: Final = frozenset({"resultType", "ttlMs", "cacheScope"})


class StdioProxy:
    """Server for one external client.

    Args:
        find: returns the note of the served notebook; raises ConfigError if there is none, or more than one.
        version: version of this package.
        output: unbuffered stream for messages, one per line.
    """

    def __init__(self, find: Callable[[], NotebookNote], *, version: str, output: io.RawIOBase) -> None:
        self._find = find
        self._server = {"name": SERVER, "version": version}
        self._output = output
        self._writing = threading.Lock()
        self._headers = {INSTANCE_HEADER: os.urandom(16).hex(), "MCP-Protocol-Version": VERSION}
        self._client: Message = {"name": "", "version": ""}  # client info from `initialize`
        self._notebook = NotebookClient()
        self._open: dict[str, Exchange] = {}
        self._threads: list[threading.Thread] = []

    def serve(self, stdin: BinaryIO) -> None:
        """Handle requests until stdin ends."""
        with contextlib.suppress(KeyboardInterrupt):
            for line in stdin:
                if line.strip():
                    self._take_line(line)
        self._end_exchanges()

    def _end_exchanges(self) -> None:
        """Finish pending list requests and cancel calls, since the client is gone."""
        lists = [thread for thread in self._threads if thread.name == "tools/list"]
        for thread in lists:
            thread.join(LIST_WAIT)
        for exchange in list(self._open.values()):
            exchange.cancel()
        for thread in self._threads:
            thread.join(LIST_WAIT)
        self._notebook.close()

    def _take_line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._write_failure(None, PARSE_ERROR, "Parse error: each line must be one JSON-RPC message")
            return
        params = message.get("params", {}) if _is_object(message) else None
        if not _is_object(message) or not _is_object(params):
            self._write_failure(
                None, INVALID_REQUEST, "Invalid request: a JSON-RPC message is an object, and so are its params"
            )
            return
        method = message.get("method")
        if not isinstance(method, str):
            return  # a response; this server sends no requests
        if "id" not in message:
            if method == "notifications/cancelled":
                self._cancel_request(params.get("requestId"))
            return
        if not isinstance(message["id"], str | int):
            self._write_failure(None, INVALID_REQUEST, "Invalid request: the id must be a string or an integer")
            return
        self._answer_request(message["id"], method, params)

    def _answer_request(self, id_: str | int, method: str, params: Message) -> None:
        wanted = _version(params)
        if wanted is not None and wanted != VERSION:
            data = {"supported": [VERSION], "requested": wanted}
            self._write_failure(id_, UNSUPPORTED_VERSION, f"Unsupported protocol version {wanted!r}", data)
        elif method in _PASSED_ON:
            self._pass_on(id_, method, params)
        elif method == "initialize" and wanted is None:
            self._answer_initialize(id_, params)
        elif method == "server/discover" and wanted is not None:
            said = {"supportedVersions": [VERSION], "capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}
            self._write_answer(id_, {**said, **_CACHED}, params)
        elif method == "ping":
            self._write_answer(id_, {}, params)
        else:
            self._write_failure(id_, METHOD_NOT_FOUND, "Method not found", method)

    def _answer_initialize(self, id_: str | int, params: Message) -> None:
        if _is_object(client := params.get("clientInfo")) and isinstance(client.get("name"), str):
            self._client = client
        wanted = params.get("protocolVersion")
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        said = {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": self._server}
        self._write_answer(id_, {**said, "instructions": INSTRUCTIONS}, params)

    def _pass_on(self, id_: str | int, method: str, params: Message) -> None:
        if method == "tools/call" and not isinstance(params.get("name"), str):
            self._write_failure(id_, INVALID_PARAMS, "Invalid params: tools/call needs the name of a tool")
            return
        exchange = self._open[json.dumps(id_)] = Exchange(self._notebook)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(
            target=self._pass_exchange, args=(exchange, id_, method, params), name=method, daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _pass_exchange(self, exchange: Exchange, id_: str | int, method: str, params: Message) -> None:
        """Forward a request, in its own thread. Always responds unless the request is cancelled."""
        answered = False
        try:
            for message in exchange.messages(
                self._find(),
                {"jsonrpc": "2.0", "id": id_, "method": method, "params": self._signed_params(params)},
                self._headers,
                wait=LIST_WAIT if method == "tools/list" else None,
            ):
                if "method" in message:
                    self._write_message(message)
                else:
                    answered = True
                    self._write_message(message if _version(params) else _for_handshake(message))
        except (ConfigError, NotebookError) as error:
            answered = answered or exchange.cancelled
            if not answered:
                answered = True
                self._write_answer(id_, _tools() if method == "tools/list" else _error_result(str(error)), params)
        finally:
            if self._open.get(json.dumps(id_)) is exchange:
                del self._open[json.dumps(id_)]
            if not answered:  # a bug; its traceback goes to stderr
                self._write_failure(id_, INTERNAL_ERROR, "Internal error of vibe-jupyter mcp; see its stderr")

    def _cancel_request(self, id_: object) -> None:
        exchange = self._open.get(json.dumps(id_))
        if exchange is not None:
            exchange.cancel()

    def _signed_params(self, params: Message) -> Message:
        """Add the client's identity to the request's metadata, unless it is there."""
        if _version(params):
            return params
        meta = params.get("_meta")
        signature = {"protocolVersion": VERSION, "clientInfo": self._client, "clientCapabilities": {}}
        signed = {_META + name: value for name, value in signature.items()}
        return {**params, "_meta": {**(meta if _is_object(meta) else {}), **signed}}

    def _write_answer(self, id_: str | int, result: Message, params: Message) -> None:
        if _version(params):
            result = {**result, "resultType": "complete", "_meta": {f"{_META}serverInfo": self._server}}
        else:
            result = {name: value for name, value in result.items() if name not in _SINCE_2026}
        self._write_message({"jsonrpc": "2.0", "id": id_, "result": result})

    def _write_failure(self, id_: str | int | None, code: int, text: str, data: object = None) -> None:
        error = {"code": code, "message": text, **({} if data is None else {"data": data})}
        self._write_message({"jsonrpc": "2.0", "id": id_, "error": error})

    def _write_message(self, message: Message) -> None:
        """Write a message. Does nothing if the client is gone."""
        left = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        with self._writing, contextlib.suppress(OSError):
            while left:
                left = left[self._output.write(left) or 0 :]


_CAPABILITIES: Final = {"tools": {"listChanged": False}}
_CACHED: Final = {"ttlMs": 0, "cacheScope": "private"}


def _is_object(value: object) -> TypeGuard[Message]:
    return isinstance(value, dict)


def _version(params: Message) -> Any:
    """Return the protocol version that a request names, or None if it was negotiated by `initialize`."""
    meta = params.get("_meta")
    return meta.get(f"{_META}protocolVersion") if _is_object(meta) else None


def _for_handshake(message: Message) -> Message:
    """Convert the notebook's response for protocol versions with `initialize`."""
    if not _is_object(result := message.get("result")):
        return message
    return {**message, "result": {name: value for name, value in result.items() if name not in (*_SINCE_2026, "_meta")}}


def _tools() -> Message:
    return {"tools": json.loads(TOOLS.read_text(encoding="utf-8")), **_CACHED}


def _error_result(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}], "isError": True}
