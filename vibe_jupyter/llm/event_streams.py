"""Parsers for event streams: server-sent events (and an encoder), and JSON lines.

Lines are split as bytes, before decoding: a line ends at LF, CR or CRLF only (U+2028 inside JSON doesn't end it), and a
character cut between two network reads is decoded once its line is complete.
"""

from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.llm.request import MAX_EVENT

BOM = b"\xef\xbb\xbf"


# A stream's event: its name ("message" by default) and its data lines joined by line feeds. A plain tuple, since there
# are thousands.
ServerEvent = tuple[str, str]


class EventTooLong(Exception):
    """Raised when an event exceeds its size limit before it ends."""


class SSEDecoder:
    """Incremental parser of server-sent events. Reads may be cut anywhere."""

    def __init__(self, *, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._line: list[bytes] = []  # pieces of the unfinished line, joined only once it ends
        self._data: list[bytes] = []
        self._name = ""
        # Lines of JSON without a field name, as some servers send an error in the middle of a stream.
        self._bare: list[bytes] = []
        self._held = 0  # bytes since the last event ended
        self._after_cr = False
        self._at_start = True
        self._is_between = False  # True if the last read ended with an event

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Parse the next read and return the events it completes.

        Raises:
            EventTooLong: No event ended within the limit.
        """
        # fast path: servers flush each event separately, so nearly every read is one event of one line
        if self._is_between and chunk.startswith(b"data: ") and chunk.endswith(b"\n\n"):
            is_one = chunk.find(b"\n") == len(chunk) - 2 and b"\r" not in chunk
            if is_one and len(chunk) <= self._max_event:
                return [("message", chunk[6:-2].decode("utf-8", "replace"))]
        data = self._data
        lines = self._split_lines(chunk)
        rest = lines.pop()
        events: list[ServerEvent] = []
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line:
                self._read_field(line)
            else:
                if data:
                    joined = data[0] if len(data) == 1 else b"\n".join(data)
                    events.append((self._name or "message", joined.decode("utf-8", "replace")))
                    data.clear()
                self._name = ""
        self._held = len(rest) if events else self._held + len(chunk)
        if self._held > self._max_event:
            raise EventTooLong
        if rest:
            self._line.append(rest)
        self._is_between = not (self._held or data or self._name or self._after_cr)
        return events

    def end(self) -> list[ServerEvent]:
        """Return what the stream left unfinished: its last event, and JSON outside of events.

        Either may be cut off, so it counts only if it can be decoded.
        """
        if self._line:
            rest = b"".join(self._line)
            self._line.clear()
            self._read_field(rest.removeprefix(BOM) if self._at_start else rest)
        events: list[ServerEvent] = []
        for name, lines in ((self._name or "message", self._data), ("message", self._bare)):
            if lines:
                events.append((name, b"\n".join(lines).decode("utf-8", "replace")))
                lines.clear()
        return events

    def _split_lines(self, chunk: bytes) -> list[bytes]:
        """Split a read into the lines it completes, followed by the unfinished rest."""
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
                lines[0] = lines[0].removeprefix(BOM)
        return lines

    def _read_field(self, line: bytes) -> None:
        """Process any line other than the usual data line. Comments, ids, retry times and unknown fields are ignored.
        Process any line other than the usual data line. Comments, ids, retry times and unknown fields are ignored."""
        field, _, value = line.partition(b":")
        if self._bare or line.startswith(b"{"):
            self._bare.append(line)
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"error":  # as llama.cpp had it until 2025
            self._name = "error"
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")


def encode_event(event: str, data: str) -> bytes:
    """Encode an event for a server-sent stream. The default name "message" is omitted."""
    if "\n" in event or "\r" in event:
        raise ValueError("The name of an event is one line.")
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    head = "" if event == "message" else f"event: {event}\n"
    return repair_surrogates(head + "".join(f"data: {line}\n" for line in lines) + "\n").encode()


class LineDecoder:
    """Incremental parser of newline-delimited JSON. Reads may be cut anywhere; blank lines are skipped."""

    def __init__(self, *, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._line: list[bytes] = []  # pieces of the unfinished line, joined only once it ends
        self._held = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Parse the next read and return the lines it completes.

        Raises:
            EventTooLong: No line ended within the limit.
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
        """Return the last line, which needs no line break."""
        event = self._line_event(b"".join(self._line))
        self._line.clear()
        return [] if event is None else [event]

    def _line_event(self, line: bytes) -> ServerEvent | None:
        if self._at_start:
            line = line.removeprefix(BOM)
            self._at_start = False
        return None if not line or line.isspace() else ("message", line.decode("utf-8", "replace"))
