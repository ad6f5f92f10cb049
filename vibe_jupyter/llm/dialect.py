"""How one kind of API spells things. A dialect is pure: it never sees the network.

`encode_message` gives each message its bytes once; a request body is then ``encode_head``, the messages joined by
commas, and `tail`. The messages come last, so the body of each request of a conversation, without its tail, is a
prefix of the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from vibe_jupyter.llm.agentic import Piece
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.request import Model, Request
from vibe_jupyter.protocol import AssistantMessage, Message, ToolSpec


class Decoder(Protocol):
    """Reads one answer. Each method raises `failures.Broken` for what cannot be used."""

    finished: bool
    """The answer is complete; counts may still come."""
    ended: bool
    """Nothing that comes now belongs to the answer."""

    @property
    def text(self) -> str:
        """The answer's text so far."""
        ...

    def event(self, name: str, data: str) -> Sequence[Piece]:
        """Take one event of a stream."""
        ...

    def whole(self, body: JsonValue) -> Sequence[Piece]:
        """Take an answer that came as one JSON body."""
        ...

    def rest(self) -> Sequence[Piece]:
        """Deltas of an event that was broken further on, so that what is shown is what is kept."""
        ...

    def message(self) -> AssistantMessage:
        """The complete answer."""
        ...


@dataclass(frozen=True)
class Terms:
    """What besides the request decides how its head is written."""

    refused: frozenset[str] = frozenset()
    """Optional fields this server refused once; they are left out."""
    session: str = ""
    """Names the conversation, for servers that keep what they read of it."""


class Dialect(Protocol):
    """One API."""

    @property
    def path(self) -> str:
        """What follows api_base, such as ``/chat/completions``."""
        ...

    @property
    def base_ends(self) -> tuple[str, ...]:
        """Ends of api_base that people write and that are not part of the address."""
        ...

    @property
    def alternates(self) -> bool:
        """Whether user and assistant must take turns, and a user may not speak right after a tool."""
        ...

    @property
    def tail(self) -> bytes:
        """What follows the last message."""
        ...

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """The tools as they stand in the head; empty for none."""
        ...

    def encode_head(self, request: Request, *, tools: bytes, terms: Terms) -> bytes:
        """All that comes before the first message."""
        ...

    def encode_message(self, message: Message, model: Model) -> bytes:
        """One message, for one model."""
        ...

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Which optional fields a refusal is about."""
        ...

    def decoder(self, model: Model, limits: Limits) -> Decoder:
        """A reader for one answer."""
        ...
