"""The bounds on one answer (security C38)."""

from dataclasses import dataclass

from vibe_jupyter.llm.sse import MAX_EVENT


@dataclass(frozen=True)
class Limits:
    """All of them, so that a test can make them small."""

    connect: float = 10.0
    """Seconds to a TCP and TLS connection."""
    answer: float = 600.0
    """Seconds until an answer begins, until the next data event of a stream, and for the whole of a JSON body."""
    gap: float = 120.0
    """Seconds between two reads of a stream; keep-alive comments count here, unlike in `answer`."""
    tail: float = 3.0
    """Seconds that a stream may take to end after its finish reason, for the token counts."""
    drain: float = 0.2
    """Seconds to wait for the end of the body after the end mark, so that the connection can be used again."""
    event: int = MAX_EVENT
    """Bytes of one event."""
    message: int = 32 * 1024 * 1024
    """Bytes of a JSON body, and characters of a streamed answer."""
    calls: int = 128
    """Calls in one answer."""
    error_body: int = 64 * 1024
    """Bytes read of the body of an error."""
