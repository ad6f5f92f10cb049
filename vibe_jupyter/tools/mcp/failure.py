"""What went wrong with a server, in words for a person."""

import shlex
from typing import Final, Literal
from urllib.parse import urlsplit

from vibe_jupyter.errors import ServerError
from vibe_jupyter.tools.mcp.log import ServerLog
from vibe_jupyter.tools.mcp.server import Program, Server

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


class Fault(Exception):
    """Something went wrong on one link; the connection decides what follows from it."""

    def __init__(self, kind: FaultKind, what: str) -> None:
        super().__init__(what)
        self.kind: FaultKind = kind
        self.what = what
        """Goes on where a sentence begins with the server's name."""


def failure(server: Server, fault: Fault, log: ServerLog) -> ServerError:
    """The error to raise: who, where, what; and where the server itself is in trouble its last words and what to do."""
    sentence = log.without_keys(f"The MCP server {server.name} ({where(server)}) {fault.what.rstrip('.')}.")
    if fault.kind == "answer":
        return ServerError(sentence, server=server.name)
    next_step = f"`%vibe mcp log {server.name}` shows more, `%vibe mcp restart {server.name}` tries again."
    if fault.kind == "slow start":
        next_step = f"`startup_timeout_sec` in its entry{_in(server)} gives it more time. {next_step}"
    return ServerError(sentence, server=server.name, last_words=log.tail(), next_step=next_step)


def _in(server: Server) -> str:
    return f" ({server.origin})" if server.origin else ""


def where(server: Server) -> str:
    """The command or the host of a server, short."""
    if isinstance(server.at, Program):
        command = shlex.join(server.at.argv)
        return command if len(command) <= _COMMAND_LENGTH else f"{command[:_COMMAND_LENGTH]} […]"
    return urlsplit(server.at.url).netloc.rpartition("@")[2] or server.at.url
