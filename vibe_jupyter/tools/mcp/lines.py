"""Bytes of a stream as its lines, in bounded memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_EDGE: Final = 256
"""Bytes kept of each end of a line that is too long."""
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,100}")'
_ID_FIRST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST: Final = re.compile(_ID + rb"\s*\}\s*\Z")


@dataclass(frozen=True)
class TooLong:
    """A line of which only the ends were kept, or the beginning of one that does not end."""

    size: int
    """Bytes."""
    request: str | int | None
    """The id that stands at an end of it, if one does: of the request it answers."""
    ended: bool


class Lines:
    """Cuts what comes in at newlines."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._long: bytearray | None = None
        """The ends of the line that is too long already."""
        self._lost = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """The lines that are whole with these bytes; one that gets too long is told at once, and again at its end."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            yield from self._add(chunk[start:end])
            yield self._finish()
            start = end + 1
        if start < len(chunk):
            yield from self._add(chunk[start:])

    def rest(self) -> bytes:
        """What came after the last newline, at the end of the stream."""
        return b"" if self._long is not None else b"".join(self._parts)

    def take_lost(self) -> int:
        """Bytes of lines that were too long, since the last call."""
        lost, self._lost = self._lost, 0
        return lost

    def _add(self, piece: bytes) -> Iterator[TooLong]:
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
            yield TooLong(self._size, _request(_ID_FIRST.match(line[:_EDGE])), ended=False)

    def _finish(self) -> bytes | TooLong:
        parts, size, ends = self._parts, self._size, self._long
        self._parts, self._size, self._long = [], 0, None
        if ends is None:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        found = _ID_FIRST.match(bytes(ends)) or _ID_LAST.search(bytes(ends))
        return TooLong(size, _request(found), ended=True)


def _request(found: re.Match[bytes] | None) -> str | int | None:
    if found is None:
        return None
    value = found[1].decode("utf-8", "replace")
    return value.strip('"') if value.startswith('"') else int(value)
