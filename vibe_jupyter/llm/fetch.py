"""Small requests beside a conversation, to the same server and under the same rules for hosts, keys and redirects."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import strict_json
from vibe_jupyter.llm.endpoint import Endpoint

SMALL = 1024 * 1024
"""Bytes of an answer in JSON."""
READ_GAP = 15.0
"""Seconds to a connection, and between two reads."""
WHOLE = 120.0
"""Seconds for all of it."""


@dataclass(frozen=True)
class Wanted:
    """What to ask."""

    method: str
    path: str
    """What follows api_base."""
    body: JsonValue = None
    """None sends none."""
    most: int = SMALL
    """Bytes that are taken."""

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Fetched:
    """What came back, whatever its status."""

    status: int
    content: bytes

    @property
    def json(self) -> dict[str, JsonValue]:
        """The object it is; empty where it is none."""
        try:
            value = strict_json.parse(self.content.decode("utf-8", "replace"))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class Body(Protocol):
    """A response that is coming in."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, read by read."""
        ...

    async def aclose(self) -> None:
        """End it."""
        ...


def id_in_path(server_id: str) -> str:
    """An id that a server gave, as one piece of a path: it cannot lead elsewhere.

    Raises:
        ValueError: it is no piece of a path.
    """
    if not server_id.strip("."):
        raise ValueError("The server gave no id.")
    return quote(server_id, safe="", errors="replace")


async def taken(response: Body, endpoint: Endpoint, most: int) -> Fetched:
    """The whole of a response.

    Raises:
        ModelError: it is longer than wanted.
    """
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > most:
                raise ModelError(f"{endpoint.place} sent more than {most:,} bytes; nothing was kept.", kind="limit")
    finally:
        await response.aclose()
    return Fetched(response.status_code, bytes(content))
