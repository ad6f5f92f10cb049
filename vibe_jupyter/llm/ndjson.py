"""JSON lines of a stream: an event a line. Bytes are split at line feeds only, so U+2028 inside JSON is no line end."""

from vibe_jupyter.llm.sse import MAX_EVENT, EventTooLong, ServerEvent

_BOM = b"\xef\xbb\xbf"


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
        return [event for line in lines if (event := self._event(line)) is not None]

    def end(self) -> list[ServerEvent]:
        """The last line need not have an end."""
        event = self._event(b"".join(self._line))
        self._line.clear()
        return [] if event is None else [event]

    def _event(self, line: bytes) -> ServerEvent | None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        return None if not line or line.isspace() else ServerEvent("message", line.decode("utf-8", "replace"))
