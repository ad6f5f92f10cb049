"""What a server says beside its answers: standard error, log messages, and lines that are no message."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vibe_jupyter.tools.mcp.server import Program, Server

LOG_LIMIT: Final = 64 * 1024
"""Characters kept of one server; the oldest lines go first."""
LINE_LIMIT: Final = 2_000
"""Characters of one line."""
TAIL_LINES: Final = 6
"""Lines told with a failure."""
TAIL_WIDTH: Final = 300
"""Characters of one of them; the log has more."""
OURS: Final = "client"
"""The source of what our side says about a server."""
_SHORTEST_SECRET: Final = 8
"""Characters; a shorter value is no key, and striking it out would garble the text."""


@dataclass(frozen=True)
class _Line:
    at: str
    source: str
    text: str

    def __str__(self) -> str:
        return f"[{self.at} {self.source}] {self.text}"


class ServerLog:
    """The last lines of one server, without the values it was given as keys."""

    def __init__(self, server: Server) -> None:
        self._secrets = {value: name for name, value in _given(server).items() if len(value) >= _SHORTEST_SECRET}
        self._lines: deque[_Line] = deque()
        self._size = 0
        self._rest = ""
        self._recent = 0
        """Lines since the last start."""

    def begin(self) -> None:
        """The server is started anew: what it said before explains nothing of what comes."""
        self._take_rest()
        self._recent = 0

    def lines(self) -> list[str]:
        """All that is kept, oldest first, each with its time and where it came from."""
        self._take_rest()
        return [str(line) for line in self._lines]

    def tail(self) -> str:
        """The server's own last lines since its start, for the words of a failure."""
        self._take_rest()
        recent = list(self._lines)[len(self._lines) - self._recent :]
        told = [line.text for line in recent if line.source != OURS][-TAIL_LINES:]
        return "\n".join(text if len(text) <= TAIL_WIDTH else f"{text[:TAIL_WIDTH]} […]" for text in told)

    def add(self, source: str, text: str) -> None:
        """Keep a text, each of its lines for itself."""
        for line in text.splitlines():
            self._keep(source, line)

    def feed(self, chunk: bytes) -> None:
        """Keep what came on standard error; a line may come in pieces."""
        *lines, rest = (self._rest + chunk.decode("utf-8", "replace")).split("\n")
        for line in lines:
            self._keep("stderr", line)
        # What has no newline is cut, so that it cannot grow.
        self._rest = rest[-LINE_LIMIT:]

    def without_keys(self, text: str) -> str:
        """The text without the values the server was given."""
        for value, name in self._secrets.items():
            text = text.replace(value, f"[redacted: {name}]")
        return text

    def _take_rest(self) -> None:
        rest, self._rest = self._rest, ""
        if rest:
            self._keep("stderr", rest)

    def _keep(self, source: str, text: str) -> None:
        text = self.without_keys(text.rstrip("\r"))
        shown = text if len(text) <= LINE_LIMIT else f"{text[:LINE_LIMIT]} […]"
        line = _Line(time.strftime("%H:%M:%S"), source, shown)
        self._lines.append(line)
        self._recent += 1
        self._size += len(str(line))
        while self._size > LOG_LIMIT:
            self._size -= len(str(self._lines.popleft()))
        self._recent = min(self._recent, len(self._lines))


def _given(server: Server) -> Mapping[str, str]:
    return server.at.env if isinstance(server.at, Program) else server.at.headers
