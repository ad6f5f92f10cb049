"""Read the lines of a local server in bounded memory, and answer on its behalf where it fails to.

Imports the SDK, so import this module only when the first server starts.

JSON that is nested too deeply is cut, so that only the tool or result it belongs to is rejected, by the code that
validates those.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from vibe_jupyter.mcp.log import ServerLog

MESSAGE_LIMIT: Final = 4 * 1024 * 1024  # bytes of one message; a longer response fails its call
# Bytes since the last response that are not a message; beyond that the program is stopped
NOISE_LIMIT: Final = 16 * 1024 * 1024
# Seconds for the newer protocol's first request; without a response the older protocol is used
PROBE_TIMEOUT: Final = 3.0
PROBE: Final = "server/discover"  # method of that request

# The id of a response at the beginning of its line. The SDK numbers our requests.
_ID: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\b')
_HEAD: Final = 256  # bytes in which it is looked for

# Levels of nesting that are kept of a message. The SDK parses 200. A definition may have 150
# (`tool_sanitizer.DEPTH_LIMIT`) and begins a few levels below the top, so one that was cut is still recognized as too
# deep.
CUT_DEPTH: Final = 180


class PendingResponses:
    """Reads the output of one program, by the requests that still await a response."""

    def __init__(
        self,
        log: ServerLog,
        pending: Mapping[str | int, object],
        answer: Callable[[JSONRPCMessage], None],
        give_up: Callable[[str], None],
    ) -> None:
        self.heard = 0  # messages received
        self._log = log
        self._pending = pending  # by request id
        self._answer = answer
        self._give_up = give_up
        self._noise = 0

    def note(self, message: JSONRPCMessage) -> None:
        """Limit the time for the first request of the newer protocol."""
        if isinstance(message, JSONRPCRequest) and message.method == PROBE:
            asyncio.get_running_loop().call_later(PROBE_TIMEOUT, self._refuse_request, message.id, "no answer")

    def parse(self, line: bytes) -> JSONRPCMessage | None:
        """Parse a line. Returns None for a line that is no message, which goes to the log."""
        message = _parsed(line) or _parsed(repaired(line))
        if message is None:
            if line.strip():
                self._log.add("stdout", line[:4096].decode("utf-8", "replace"))
            self.count_noise(len(line) + 1)
            return None
        self.heard += 1
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._pending:
            self._noise = 0
        return message

    def count_noise(self, size: int) -> None:
        """Count bytes that are not a message, and give up on the program beyond the limit."""
        self._noise += size
        if self._noise > NOISE_LIMIT:
            self._give_up(f"it wrote more than {NOISE_LIMIT // 2**20} MiB that are not a response")

    def too_long(self, head: bytes) -> None:
        """Fail the call that an overlong line answers, or all of them if its beginning doesn't name any."""
        found = _ID.match(head)
        for request in {int(found[1])} if found else tuple(self._pending):
            self._refuse_request(request, f"it sent a message larger than {MESSAGE_LIMIT // 2**20} MiB")

    def _refuse_request(self, request: str | int, reason: str) -> None:
        """Answer one of our own requests on the server's behalf."""
        if request in self._pending:
            error = ErrorData(code=INTERNAL_ERROR, message=reason)
            self._answer(JSONRPCError(jsonrpc="2.0", id=request, error=error))


class LineBuffer:
    """Splits a program's output at newlines. A line longer than MESSAGE_LIMIT is dropped and reported at once."""

    def __init__(self, due: PendingResponses) -> None:
        self._due = due
        self._held = bytearray()  # the beginning of a line
        self._is_dropped = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._hold(line)
            if not self._is_dropped:
                yield self.rest()
            self._held.clear()
            self._is_dropped = False
        self._hold(rest)

    def rest(self) -> bytes:
        """Return the bytes after the last newline."""
        return bytes(self._held)

    def _hold(self, piece: bytes) -> None:
        self._held += piece
        if not self._is_dropped and len(self._held) > MESSAGE_LIMIT:
            self._is_dropped = True
            self._due.too_long(bytes(self._held[:_HEAD]))
        if self._is_dropped:
            self._due.count_noise(len(self._held))
            self._held.clear()


def readable_text(text: bytes) -> bytes:
    """Return a message unchanged if the SDK can parse it, else repaired."""
    return text if _parsed(text) else repaired(text)


def repaired(text: bytes) -> bytes:
    """Return a message cut where it is nested too deeply, and with an object as its result. Anything else is kept."""
    try:
        read = cut(json.loads(text))
    except (ValueError, RecursionError):
        return text
    if not isinstance(read, dict):
        return text
    message = cast("dict[str, object]", read)
    if "id" in message and not isinstance(message.get("result", {}), dict):
        message["result"] = {"content": message["result"]}
    return json.dumps(message).encode()


def _parsed(text: bytes) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        return None


def cut(value: object, levels: int = CUT_DEPTH) -> object:
    """Limit a JSON value to this many levels of nesting; deeper values become null."""
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value).items()
        return {name: cut(inner, levels - 1) for name, inner in entries} if levels else None
    if isinstance(value, list):
        return [cut(inner, levels - 1) for inner in cast("list[object]", value)] if levels else None
    return value
