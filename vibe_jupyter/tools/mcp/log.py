"""What a server says beside its answers: standard error, log messages, and lines that are no message."""

import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from vibe_jupyter.tools.mcp.server import Program, Server

LOG_LIMIT: Final = 64 * 1024
"""Bytes kept of one server; the oldest lines go first."""
LINE_LIMIT: Final = 2_000
"""Characters of one line."""
TAIL_LINES: Final = 6
"""Lines told with a failure."""
_SHORTEST_SECRET: Final = 8
"""Characters; a shorter value is no key, and striking it out would garble the text."""


class ServerLog:
    """The last lines of one server, without the values it was given as keys."""

    def __init__(self, server: Server) -> None:
        self._secrets = {value: name for name, value in _given(server).items() if len(value) >= _SHORTEST_SECRET}
        self._lines: deque[str] = deque()
        self._size = 0
        self._rest = ""

    def lines(self) -> list[str]:
        """All that is kept, oldest first, each with its time and where it came from."""
        return [*self._lines, *([self._stamped("stderr", self._rest)] if self._rest else ())]

    def tail(self) -> str:
        """The last lines, for the words of a failure."""
        return "\n".join(line.partition("] ")[2] for line in self.lines()[-TAIL_LINES:])

    def add(self, source: str, text: str) -> None:
        """Keep a text, each of its lines for itself."""
        for line in text.splitlines():
            self._keep(self._stamped(source, line))

    def feed(self, chunk: bytes) -> None:
        """Keep what came on standard error; a line may come in pieces."""
        # A run without newline is cut, so that it cannot grow.
        *lines, self._rest = (self._rest + chunk.decode("utf-8", "replace")).split("\n")
        for line in lines:
            self._keep(self._stamped("stderr", line))
        self._rest = self._rest[-LINE_LIMIT:]

    def without_keys(self, text: str) -> str:
        """The text without the values the server was given."""
        for value, name in self._secrets.items():
            text = text.replace(value, f"[redacted: {name}]")
        return text

    def _stamped(self, source: str, line: str) -> str:
        line = self.without_keys(line.rstrip("\r"))
        shown = line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]} […]"
        return f"[{time.strftime('%H:%M:%S')} {source}] {shown}"

    def _keep(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)
        while self._size > LOG_LIMIT:
            self._size -= len(self._lines.popleft())


def _given(server: Server) -> Mapping[str, str]:
    return server.at.env if isinstance(server.at, Program) else server.at.headers
