"""How one kind of API spells things. A dialect is pure: it never sees the network.

`encode_message` gives each message its bytes once; a request body is then ``encode_head``, the messages joined by
commas, and ``TAIL``. The messages come last, so the body of each request of a conversation, without its tail, is a
prefix of the next one.
"""

from typing import Protocol

from pydantic import JsonValue

from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import AssistantMessage, Delta, Message, ToolSpec


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

    def event(self, name: str, data: str) -> list[Delta]:
        """Take one event of a stream."""
        ...

    def whole(self, body: JsonValue) -> list[Delta]:
        """Take an answer that came as one JSON body."""
        ...

    def rest(self) -> list[Delta]:
        """Deltas of an event that was broken further on, so that what is shown is what is kept."""
        ...

    def message(self) -> AssistantMessage:
        """The complete answer."""
        ...


class Dialect(Protocol):
    """One API."""

    @property
    def path(self) -> str:
        """What follows api_base, such as ``/chat/completions``."""
        ...

    @property
    def tail(self) -> bytes:
        """What follows the last message."""
        ...

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """The tools as they stand in the head; empty for none."""
        ...

    def encode_head(self, model: Model, *, tools: bytes, stream: bool, plain: bool) -> bytes:
        """All that comes before the first message. `plain` leaves out what only some servers understand."""
        ...

    def encode_message(self, message: Message) -> bytes:
        """One message."""
        ...

    def wants_plain(self, status: int, body: str) -> bool:
        """Whether a refusal is about what `plain` leaves out."""
        ...

    def decoder(self, limits: Limits) -> Decoder:
        """A reader for one answer."""
        ...
