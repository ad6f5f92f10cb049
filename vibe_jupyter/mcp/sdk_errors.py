"""Short explanations for the SDK's exceptions.

Imports the SDK, so import this module only when the first server starts.
"""

import re
from collections.abc import Sequence
from typing import Final

import httpx2
from mcp import MCPError
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from vibe_jupyter.llm.connections import exception_causes, network_words

# Raised by the SDK if a server picks an unknown protocol version
_UNSUPPORTED: Final = re.compile(r"Unsupported protocol version from the server: (\S{1,20})")
_LENGTH: Final = 500  # characters quoted from a library or a server


def failure_reason(problem: BaseException) -> str:
    """Explain an exception. Libraries wrap the cause several times, also in exception groups."""
    causes = [one for one in exception_causes(problem) if not isinstance(one, BaseExceptionGroup)]
    for cause in causes:
        if words := _known_reason(cause):
            return words[:_LENGTH]
    innermost = causes[0] if causes else problem
    first = next(iter(str(innermost).splitlines()), "")
    return (first or type(innermost).__name__)[:_LENGTH]


def unknown_version(named: Sequence[str]) -> str:
    """Explain that a server speaks only unknown versions of the protocol."""
    known = f"{KNOWN_PROTOCOL_VERSIONS[0]} to {KNOWN_PROTOCOL_VERSIONS[-1]}"
    return f"it speaks version {' or '.join(named)} of the protocol, and vibe-jupyter {known}"


def _known_reason(cause: BaseException) -> str:
    match cause:
        case MCPError():
            return _first_line(cause.message)
        case ValidationError():
            return f"its answer does not have the required form ({cause.error_count()} faults in {cause.title})"
        case RuntimeError() if (found := _UNSUPPORTED.match(str(cause))) is not None:
            return unknown_version([found[1]])
        case FileNotFoundError():
            return f"{cause.filename} was not found"
        case PermissionError():
            return f"{cause.filename} may not be run"
        case httpx2.TimeoutException():
            return "timed out"
        case httpx2.RemoteProtocolError() if "isconnected" in str(cause) or "peer closed" in str(cause):
            return "it dropped the connection"
        case _:
            return network_words(cause)


def _first_line(message: str) -> str:
    """Return the first line of an error message, without the parser's own preamble."""
    first = next(iter(message.splitlines()), "").rstrip(".")
    if first.startswith("Failed to parse"):
        _, _, detail = first.partition(": ")
        no_message = "not a message of the protocol; the request may have been carried out"
        return f"its answer is {no_message if 'validation error' in detail else detail}"
    return first
