"""What a server says beside its answers, and what went wrong with it, in words."""

import logging
import shlex
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal
from urllib.parse import urlsplit

from vibe_jupyter.config.tool_servers import ServerProgram, ToolServer
from vibe_jupyter.errors import ServerError

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

FaultKind = Literal[
    "start",  # it could not be started, or ended before its tools were listed
    "given up",  # it failed too often to be started once more
    "slow start",  # its tools were not listed in time
    "gone",  # it ended, or cannot be reached any more
    "session",  # it does not know our session any more, and did nothing
    "slow",  # a call took too long
    "answer",  # it said no, or something that is no answer
]

_COMMAND_LENGTH: Final = 120
"""Characters of a command in a sentence."""

_LOGGERS: Final = ("mcp", "client", "httpx2", "httpcore2")
"""Their roots; the SDK's sessions call themselves "client"."""


@dataclass(frozen=True)
class _Line:
    at: str
    source: str
    text: str

    def __str__(self) -> str:
        return f"[{self.at} {self.source}] {self.text}"


class ServerLog:
    """The last lines of one server, without the values it was given as keys."""

    def __init__(self, server: ToolServer) -> None:
        self._secrets = {
            value: name for name, value in _given_secrets(server).items() if len(value) >= _SHORTEST_SECRET
        }
        self._lines: deque[_Line] = deque()
        self._size = 0
        self._rest = ""
        self._recent = 0
        """Lines since the last start."""

    def begin(self) -> None:
        """The server is restarted: what it said before explains nothing of what comes."""
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
            self._keep_line(source, line)

    def feed(self, chunk: bytes) -> None:
        """Keep what came on standard error; a line may come in pieces."""
        *lines, rest = (self._rest + chunk.decode("utf-8", "replace")).split("\n")
        for line in lines:
            self._keep_line("stderr", line)
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
            self._keep_line("stderr", rest)

    def _keep_line(self, source: str, text: str) -> None:
        text = self.without_keys(text.rstrip("\r"))
        shown = text if len(text) <= LINE_LIMIT else f"{text[:LINE_LIMIT]} […]"
        line = _Line(time.strftime("%H:%M:%S"), source, shown)
        self._lines.append(line)
        self._recent += 1
        self._size += len(str(line))
        while self._size > LOG_LIMIT:
            self._size -= len(str(self._lines.popleft()))
        self._recent = min(self._recent, len(self._lines))


def _given_secrets(server: ToolServer) -> Mapping[str, str]:
    return server.at.env if isinstance(server.at, ServerProgram) else server.at.headers


class LinkFault(Exception):
    """Something went wrong on one link; the connection decides what follows from it."""

    def __init__(self, kind: FaultKind, what: str) -> None:
        super().__init__(what)
        self.kind: FaultKind = kind
        self.what = what
        """Goes on where a sentence begins with the server's name."""


def server_error(server: ToolServer, fault: LinkFault, log: ServerLog) -> ServerError:
    """The error to raise: who, where, what; and where the server itself is in trouble its last words and what to do."""
    sentence = log.without_keys(f"The MCP server {server.name} ({server_location(server)}) {fault.what.rstrip('.')}.")
    if fault.kind == "answer":
        return ServerError(sentence, server=server.name)
    next_step = f"`%vibe mcp log {server.name}` shows more, `%vibe mcp restart {server.name}` tries again."
    if fault.kind == "slow start":
        next_step = f"`startup_timeout_sec` in its entry{_in_location(server)} gives it more time. {next_step}"
    return ServerError(sentence, server=server.name, last_words=log.tail(), next_step=next_step)


def _in_location(server: ToolServer) -> str:
    return f" ({server.origin})" if server.origin else ""


def server_location(server: ToolServer) -> str:
    """The command or the host of a server, short."""
    if isinstance(server.at, ServerProgram):
        command = shlex.join(server.at.argv)
        return command if len(command) <= _COMMAND_LENGTH else f"{command[:_COMMAND_LENGTH]} […]"
    return urlsplit(server.at.url).netloc.rpartition("@")[2] or server.at.url


_current: ContextVar[ServerLog | None] = ContextVar("server log", default=None)


@contextmanager
def logging_to(log: ServerLog) -> Generator[None]:
    """Inside, and in tasks that are started inside, the SDK speaks of this server."""
    token = _current.set(log)
    try:
        yield
    finally:
        _current.reset(token)


@cache
def capture_sdk_logs() -> None:
    """Stand between the SDK's loggers and whatever the user has set up for logging."""
    catcher = _Catcher()
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(catcher)
        logger.propagate = False


class _Catcher(logging.Handler):
    """Takes what was logged for a server of ours; the user's own use of the SDK is logged as ever."""

    def emit(self, record: logging.LogRecord) -> None:
        log = _current.get()
        if log is None:
            logging.getLogger().callHandlers(record)
        elif record.levelno >= logging.WARNING:
            log.add(OURS, record.getMessage())
