"""Streams of events: server-sent events, both ways, and JSON lines.

Bytes are split, never text: a line ends at LF, CR or CRLF only, so U+2028 inside JSON is no line end, and a
character that is cut between two network reads is decoded when its line is whole.
"""

from typing import NamedTuple

from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.llm.request import MAX_EVENT

_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """One event of a stream."""

    name: str
    """``message`` where the stream gives none."""
    data: str
    """All data lines, joined by line feeds."""


class EventTooLong(Exception):
    """An event grew over its bound before it ended."""


class SSEDecoder:
    """Turns the reads of a connection, cut anywhere, into events. An event the stream does not end is dropped."""

    def __init__(self, *, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._line: list[bytes] = []
        """Pieces of the line that has not ended, joined once."""
        self._data: list[bytes] = []
        self._name = ""
        self._held = 0
        """Bytes since the last event ended."""
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take the next read.

        Raises:
            EventTooLong: no event ended within the bound.
        """
        lines = self._split_lines(chunk)
        rest = lines.pop()
        events: list[ServerEvent] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line:
                self._read_field(line)
            else:
                if data:
                    joined = data[0] if len(data) == 1 else b"\n".join(data)
                    events.append(ServerEvent(self._name or "message", joined.decode("utf-8", "replace")))
                    data.clear()
                self._name = ""
        self._held = len(rest) if events else self._held + len(chunk)
        if self._held > self._max_event:
            raise EventTooLong
        if rest:
            self._line.append(rest)
        return events

    def end(self) -> list[ServerEvent]:
        """Nothing: an event is over at its blank line only."""
        return []

    def _split_lines(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this read, and last what is left over."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        if len(lines) > 1:
            if self._line:
                lines[0] = b"".join((*self._line, lines[0]))
                self._line.clear()
            if self._at_start:
                self._at_start = False
                lines[0] = lines[0].removeprefix(_BOM)
        return lines

    def _read_field(self, line: bytes) -> None:
        """Any line but the usual data line. Comments, ids, retry times and unknown fields say nothing to us."""
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")


def encode_event(event: str, data: str) -> bytes:
    """One event for a stream of our own; ``message`` is the name that need not be sent."""
    if "\n" in event or "\r" in event:
        raise ValueError("The name of an event is one line.")
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    head = "" if event == "message" else f"event: {event}\n"
    return repair_surrogates(head + "".join(f"data: {line}\n" for line in lines) + "\n").encode()


class LineDecoder:
    """Turns the reads of a connection, cut anywhere, into lines. Blank ones are passed over."""

    def __init__(self, *, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._line: list[bytes] = []
        """Pieces of the line that has not ended, joined once."""
        self._held = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take the next read.

        Raises:
            EventTooLong: no line ended within the bound.
        """
        *lines, rest = chunk.split(b"\n")
        if lines and self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
        self._held = len(rest) if lines else self._held + len(chunk)
        if self._held > self._max_event or (lines and len(lines[0]) > self._max_event):
            raise EventTooLong
        if rest:
            self._line.append(rest)
        return [event for line in lines if (event := self._line_event(line)) is not None]

    def end(self) -> list[ServerEvent]:
        """The last line need not have an end."""
        event = self._line_event(b"".join(self._line))
        self._line.clear()
        return [] if event is None else [event]

    def _line_event(self, line: bytes) -> ServerEvent | None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        return None if not line or line.isspace() else ServerEvent("message", line.decode("utf-8", "replace"))
