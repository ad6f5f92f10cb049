"""The beginning and the end of a stream of bytes, in bounded memory."""

from typing import Final

_CONTINUATION: Final = range(0x80, 0xC0)
"""Bytes that stand inside a UTF-8 character."""
_LONGEST_CHARACTER: Final = 4
"""Bytes."""


class BoundedOutput:
    """Keeps at most `limit` bytes of what was written: half from the head, half from the tail."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes written in all."""

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.total += len(chunk)
        room = self._head_room - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: len(self._tail) - self._tail_room]

    @property
    def was_truncated(self) -> bool:
        """Whether something in the middle is gone."""
        return self.total > self._head_room + self._tail_room

    def text(self) -> str:
        """What was kept, with a line where something is missing; bytes that are no UTF-8 become U+FFFD."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_room) :])
        if not self.was_truncated:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        head, tail = _without_cut_end(bytes(self._head)), _without_cut_start(tail)
        missing = self.total - len(head) - len(tail)
        mark = f"[… {missing:,} bytes left out …]"
        start = head.decode("utf-8", "replace")
        return f"{start}{'' if start.endswith(chr(10)) else chr(10)}{mark}\n{tail.decode('utf-8', 'replace')}"


def _without_cut_end(data: bytes) -> bytes:
    """Without a last character of which only the beginning is there."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte in _CONTINUATION:
            continue
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if width > back else data
    return data


def _without_cut_start(data: bytes) -> bytes:
    """Without bytes of a character that began earlier."""
    start = next((place for place, byte in enumerate(data[:_LONGEST_CHARACTER]) if byte not in _CONTINUATION), 0)
    return data[start:]
