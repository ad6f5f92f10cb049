"""The headers a person set for a server: sent beside ours, never in their place."""

import re
from collections.abc import Mapping

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.request import Server

OURS = frozenset(
    {"user-agent", "x-affinity", "content-type", "accept", "accept-encoding", "host", "connection", "content-length"}
    | {"transfer-encoding", "te", "trailer", "upgrade", "expect", "proxy-authorization"}
)
"""What the client says itself, or what says how a request is sent."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = re.compile(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)


def checked_headers(server: Server) -> Mapping[str, str]:
    """The headers of a server, as they may be sent.

    Raises:
        ModelError: one of them cannot be sent, or would take the place of one of ours.
    """
    for name, value in server.headers.items():
        if not _NAME.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise _refusal(server, name, "holds a character that no header can carry. Set it again without it.")
        if name.lower() in OURS:
            raise _refusal(server, name, "is set by vibe-jupyter itself. Remove it from the provider's headers.")
        if name.lower() == "authorization" and server.api_key:
            raise _refusal(server, name, "would take the place of the API key. Remove one of the two.")
    return dict(server.headers)


def is_secret(name: str) -> bool:
    """Whether the value of a header may be a key: it is guarded and hidden as one."""
    return bool(_SECRET.search(name))


def _refusal(server: Server, name: str, why: str) -> ModelError:
    return ModelError(f"The header {name!r} of provider '{server.name}' {why}", kind="http")
