"""The answers a program owes us, and the lines it sends, in bounded memory.

Imports the SDK: imported itself when the first server starts.

What lies too deep is cut off, so that the one tool or result it belongs to is refused alone, by those who judge these.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from vibe_jupyter.mcp.log import ServerLog

MESSAGE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of one message; a longer answer fails its call."""
NOISE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that are no message, since the last answer; a program that writes more is ended."""
PROBE_TIMEOUT: Final = 3.0
"""Seconds for the first question of the newer protocol; who does not answer it is asked in the older one."""
PROBE: Final = "server/discover"
"""That question."""

_EDGE: Final = 256
"""Bytes kept of each end of a line that is too long."""
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,100}")'
_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST: Final = re.compile(_ID + rb"\s*\}\s*\Z")

CUT_DEPTH: Final = 180
"""Levels of objects and lists that are left of a message. The SDK reads 200; a definition may have 150, a few levels
below the top of its message (`sieve.DEPTH_LIMIT`), so that one that was cut is still seen to be too deep."""
_LINE_END: Final = re.compile(rb"([\r\n])")
_DATA: Final = b"data:"


@dataclass(frozen=True)
class TooLong:
    """A line of which only the ends were kept, or the beginning of one that does not end."""

    size: int
    """Bytes."""
    request: str | int | None
    """The id that stands at an end of it, if one does: of the request it answers."""
    ended: bool


class PendingResponses:
    """Of one program."""

    def __init__(
        self, log: ServerLog, answer: Callable[[JSONRPCMessage], None], give_up: Callable[[str], None]
    ) -> None:
        self.heard = 0
        """Messages that came."""
        self._log = log
        self._answer = answer
        self._give_up = give_up
        self._asked: set[str | int] = set()
        self._noise = 0

    def note(self, message: JSONRPCMessage) -> None:
        """A message of ours: which answer is due for it, or is not wanted any more."""
        if isinstance(message, JSONRPCRequest):
            self._asked.add(message.id)
            if message.method == PROBE:
                asyncio.get_running_loop().call_later(PROBE_TIMEOUT, self._refuse_request, message.id, "no answer")
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._asked.discard((message.params or {}).get("requestId", ""))

    def parse(self, line: bytes) -> JSONRPCMessage | None:
        """The message of a line; None for one that is none, which goes to the log."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            message = self._odd_answer(line)
            if message is None:
                if line.strip():
                    self._log.add("stdout", line[:4096].decode("utf-8", "replace"))
                self.count_noise(len(line) + 1)
                return None
        self.heard += 1
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._asked:
            self._asked.discard(message.id)
            self._noise = 0
        return message

    def _odd_answer(self, line: bytes) -> JSONRPCResponse | None:
        """An answer that is due, but nested too deep for the SDK, or with a result that is no object."""
        try:
            read = cut(json.loads(line))
        except (ValueError, RecursionError):
            return None
        answer = cast("dict[str, object]", read) if isinstance(read, dict) else {}
        given = answer.get("id")
        if not isinstance(given, str | int) or given not in self._asked or "result" not in answer:
            return None
        result = answer["result"]
        whole = cast("dict[str, Any]", result) if isinstance(result, dict) else {"content": result}
        return JSONRPCResponse(jsonrpc="2.0", id=given, result=whole)

    def count_noise(self, size: int) -> None:
        """Bytes came that are no message."""
        self._noise += size
        if self._noise > NOISE_LIMIT:
            self._give_up(f"it wrote more than {NOISE_LIMIT // 2**20} MiB that are not a response")

    def too_long(self, line: TooLong) -> None:
        """Fail the call it answers: known by its id, or because no other waits; at its end else all that wait."""
        waiting = set(self._asked)
        if line.request in waiting:
            failed = {line.request}
        elif line.ended or len(waiting) == 1:
            failed = waiting
        else:
            failed = set[str | int]()
        for request in failed:
            self._refuse_request(request, f"its answer is larger than {MESSAGE_LIMIT // 2**20} MiB")

    def _refuse_request(self, request: str | int, reason: str) -> None:
        """Answer one of our own requests in the server's place."""
        if request in self._asked:
            self._asked.discard(request)
            error = ErrorData(code=INTERNAL_ERROR, message=reason)
            self._answer(JSONRPCError(jsonrpc="2.0", id=request, error=error))


class LineBuffer:
    """Cuts what comes in at newlines."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._long: bytearray | None = None
        """The ends of the line that is too long already."""
        self._lost = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """The lines that are whole with these bytes; a line that is too long is reported at once and at its end."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            yield from self._add_piece(chunk[start:end])
            yield self._finish_line()
            start = end + 1
        if start < len(chunk):
            yield from self._add_piece(chunk[start:])

    def rest(self) -> bytes:
        """What came after the last newline, at the end of the stream."""
        return b"" if self._long is not None else b"".join(self._parts)

    def take_lost(self) -> int:
        """Bytes of lines that were too long, since the last call."""
        lost, self._lost = self._lost, 0
        return lost

    def _add_piece(self, piece: bytes) -> Iterator[TooLong]:
        self._size += len(piece)
        if self._long is not None:
            self._lost += len(piece)
            self._long += piece[-_EDGE:]
            del self._long[_EDGE : max(_EDGE, len(self._long) - _EDGE)]
            return
        self._parts.append(piece)
        if self._size > self._limit:
            line = b"".join(self._parts)
            self._parts = []
            self._lost += len(line)
            self._long = bytearray(line[:_EDGE] + line[-_EDGE:])
            yield TooLong(self._size, _request_id(_ID_FIRST.match(line[:_EDGE])), ended=False)

    def _finish_line(self) -> bytes | TooLong:
        parts, size, ends = self._parts, self._size, self._long
        self._parts, self._size, self._long = [], 0, None
        if ends is None:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        found = _ID_FIRST.match(bytes(ends)) or _ID_LAST.search(bytes(ends))
        return TooLong(size, _request_id(found), ended=True)


def _request_id(found: re.Match[bytes] | None) -> str | int | None:
    if found is None:
        return None
    value = found[1].decode("utf-8", "replace")
    return value.strip('"') if value.startswith('"') else int(value)


def readable_text(text: bytes) -> bytes:
    """The JSON of a message, cut where it is nested too deep to be read; anything else as it is."""
    if text.count(b"{") + text.count(b"[") <= CUT_DEPTH or _is_read(text):
        return text
    try:
        return json.dumps(cut(json.loads(text))).encode()
    except (ValueError, RecursionError):
        return text


async def readable_events(chunks: AsyncIterable[bytes], limit: int) -> AsyncIterator[bytes]:
    """A stream of events, the message in each line of data made readable; a line is passed on when it ends.

    One longer than `limit`, in bytes, is passed on as it comes: the SDK refuses it.
    """
    held = bytearray()
    async for chunk in chunks:
        *pieces, rest = _LINE_END.split(chunk)
        passed = bytearray()
        for piece in pieces:
            if piece in (b"\r", b"\n"):
                passed += _readable_line(bytes(held)) + piece
                held.clear()
            else:
                held += piece
        held += rest
        if len(held) > limit:
            passed += held
            held.clear()
        if passed:
            yield bytes(passed)
    yield bytes(held)


def cut(value: object, levels: int = CUT_DEPTH) -> object:
    """A JSON value with this many levels of objects and lists; null where more would follow."""
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value).items()
        return {name: cut(inner, levels - 1) for name, inner in entries} if levels else None
    if isinstance(value, list):
        return [cut(inner, levels - 1) for inner in cast("list[object]", value)] if levels else None
    return value


def _readable_line(line: bytes) -> bytes:
    return _DATA + readable_text(line.removeprefix(_DATA)) if line.startswith(_DATA) else line


def _is_read(text: bytes) -> bool:
    """Whether the SDK's parser reads it."""
    try:
        from_json(text)
    except ValueError:
        return False
    return True
