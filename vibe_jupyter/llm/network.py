"""What the network said when a connection failed."""

import socket
import ssl
from collections.abc import Iterator
from typing import cast


def reason_of(problem: BaseException) -> str:
    """A few words for a person; HTTP libraries wrap what happened several times."""
    for cause in _causes(problem):
        match cause:
            case ConnectionRefusedError():
                return "connection refused"
            case socket.gaierror():
                return "host not found"
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted: {cause.verify_message}"
            case ssl.SSLError():
                return f"TLS failed: {cause or 'broken handshake'}"
            case ConnectionResetError() | BrokenPipeError():
                return "the connection broke"
            case TimeoutError():
                return "timed out"
            case _:
                pass
    return str(problem) or type(problem).__name__


def is_final(problem: BaseException) -> bool:
    """Whether asking again cannot help: a certificate does not become trusted by it."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(problem))


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    """The exception, what is in it, and what is behind it."""
    while problem is not None:
        yield problem
        if isinstance(problem, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", problem)
            for part in group.exceptions:
                yield from _causes(part)
        problem = problem.__cause__ or problem.__context__
