"""The person's logging shows what their own code does, not how the agent talks to its server."""

import logging
from typing import Final

from vibe_jupyter.agent.engine import THREAD_NAME

_NETWORK: Final = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy")
"""Loggers that speak of each request; the person may use the same packages."""
_RENDERING: Final = "markdown_it"
"""It logs every line of every answer."""


class _NotOfTheEngine(logging.Filter):
    """Passes warnings, and whatever other threads log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.threadName != THREAD_NAME


_FILTER: Final = _NotOfTheEngine()


def keep_quiet() -> None:
    """Keep records of the agent's own work out of cells. May be called twice."""
    for name in _NETWORK:
        logging.getLogger(name).addFilter(_FILTER)
    rendering = logging.getLogger(_RENDERING)
    if rendering.level == logging.NOTSET:
        rendering.setLevel(logging.WARNING)
