"""Log of one server (stderr, log messages, our own notes), and error messages for its failures."""

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

LOG_LIMIT: Final = 64 * 1024  # characters kept per server; the oldest lines are dropped
LINE_LIMIT: Final = 2_000  # characters of one line
TAIL_LINES: Final = 6  # lines quoted with a failure
TAIL_WIDTH: Final = 300  # characters of a quoted line; the log has more
OURS: Final = "client"  # source of our own messages about a server
_SHORTEST_SECRET: Final = 8  # characters; a shorter value is no key, and redacting it would garble the text

FaultKind = Literal[
    "start",  # could not be started, or ended before its tools were listed
    "given up",  # failed too often to be restarted
    "slow start",  # its tools were not listed in time
    "gone",  # ended, or is no longer reachable
    "session",  # lost our session, and did nothing
    "slow",  # a call timed out
    "answer",  # an error response, or an invalid one
]

_COMMAND_LENGTH: Final = 120  # characters of a command in a sentence

_LOGGERS: Final = ("mcp", "client", "httpx2", "httpcore2")  # root loggers of the SDK, whose sessions log as "client"


@dataclass(frozen=True)
class _Line:
    at: str
    source: str
    text: str

    def __str__(self) -> str:
        return f"[{self.at} {self.source}] {self.text}"


class ServerLog:
    """The last lines of one server's log, with its secrets redacted."""

    def __init__(self, server: ToolServer) -> None:
        self._secrets = {
            value: name for name, value in _given_secrets(server).items() if len(value) >= _SHORTEST_SECRET
        }
        self._lines: deque[_Line] = deque()
        self._size = 0
        self._rest = ""
        self._recent = 0  # lines since the last start

    def begin(self) -> None:
        """Mark a restart: earlier lines don't explain later failures."""
        self._take_rest()
        self._recent = 0

    def lines(self) -> list[str]:
        """Return all lines, oldest first, each with its time and source."""
        self._take_rest()
        return [str(line) for line in self._lines]

    def tail(self) -> str:
        """Return the server's last lines since its start, to quote with a failure."""
        self._take_rest()
        recent = list(self._lines)[len(self._lines) - self._recent :]
        told = [line.text for line in recent if line.source != OURS][-TAIL_LINES:]
        return "\n".join(text if len(text) <= TAIL_WIDTH else f"{text[:TAIL_WIDTH]} […]" for text in told)

    def add(self, source: str, text: str) -> None:
        """Add a text, split into lines."""
        for line in text.splitlines():
            self._keep_line(source, line)

    def feed(self, chunk: bytes) -> None:
        """Add a chunk of standard error. Incomplete lines are buffered."""
        *lines, rest = (self._rest + chunk.decode("utf-8", "replace")).split("\n")
        for line in lines:
            self._keep_line("stderr", line)
        # Limit the buffer for output without newlines.
        self._rest = rest[-LINE_LIMIT:]

    def without_keys(self, text: str) -> str:
        """Redact the secrets that the server was given."""
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
    """A failure on one link. The connection decides on the consequences."""

    def __init__(self, kind: FaultKind, what: str) -> None:
        super().__init__(what)
        self.kind: FaultKind = kind
        self.what = what  # continues a sentence that starts with the server's name


def server_error(server: ToolServer, fault: LinkFault, log: ServerLog) -> ServerError:
    """Build the error to raise.

    Unless it is an error response, it includes the server's last log lines and the next step.
    """
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
    """Return the server's command, shortened, or its host."""
    if isinstance(server.at, ServerProgram):
        command = shlex.join(server.at.argv)
        return command if len(command) <= _COMMAND_LENGTH else f"{command[:_COMMAND_LENGTH]} […]"
    return urlsplit(server.at.url).netloc.rpartition("@")[2] or server.at.url


_current: ContextVar[ServerLog | None] = ContextVar("server log", default=None)


@contextmanager
def logging_to(log: ServerLog) -> Generator[None]:
    """Attribute the SDK's log records to this server inside the block and in tasks started there."""
    token = _current.set(log)
    try:
        yield
    finally:
        _current.reset(token)


@cache
def capture_sdk_logs() -> None:
    """Intercept the SDK's log records before they reach the user's logging configuration."""
    catcher = _Catcher()
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(catcher)
        logger.propagate = False


class _Catcher(logging.Handler):
    """Log handler for records about our servers. Records of the user's own use of the SDK go to the root logger."""

    def emit(self, record: logging.LogRecord) -> None:
        log = _current.get()
        if log is None:
            logging.getLogger().callHandlers(record)
        elif record.levelno >= logging.WARNING:
            log.add(OURS, record.getMessage())
