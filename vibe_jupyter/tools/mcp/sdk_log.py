"""What the SDK logs about a server goes to that server's log, never to the notebook."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final

from vibe_jupyter.tools.mcp.log import OURS, ServerLog

_LOGGERS: Final = ("mcp", "client", "httpx2", "httpcore2")
"""Their roots; the SDK's sessions call themselves "client"."""
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
def capture() -> None:
    """Stand between the SDK's loggers and whatever the person has set up for logging."""
    catcher = _Catcher()
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(catcher)
        logger.propagate = False


class _Catcher(logging.Handler):
    """Takes what was logged for a server of ours; the person's own use of the SDK is logged as ever."""

    def emit(self, record: logging.LogRecord) -> None:
        log = _current.get()
        if log is None:
            logging.getLogger().callHandlers(record)
        elif record.levelno >= logging.WARNING:
            log.add(OURS, record.getMessage())
