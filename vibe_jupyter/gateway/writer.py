"""Interface of the answer writers: each encodes the answer to a request for one client API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue

from vibe_jupyter.llm.event_streams import ServerEvent
from vibe_jupyter.protocol import Event, FinishReason

Object = dict[str, JsonValue]


@dataclass
class AgenticCall:
    """A call that the gateway answered."""

    round: int  # from 1
    name: str
    arguments: str
    call_id: str
    result: str = ""
    images: list[str] = field(default_factory=list[str])  # base64
    file_ids: list[str] = field(default_factory=list[str])
    outcome: Literal["ok", "error", "denied", "interrupted"] = "interrupted"
    # The tool's details besides the result; empty if it wasn't run
    details: Object = field(default_factory=dict[str, JsonValue])


class Ending(NamedTuple):
    """Outcome of an exchange."""

    reason: FinishReason
    calls: Sequence[AgenticCall]  # those the gateway answered, in order
    session_id: str  # "" if there is none
    files: Sequence[Object] = ()  # file objects of the run


class WriterTerms(NamedTuple):
    """Properties of a request that its writer needs."""

    session_id: str = ""  # "" if there is none
    tells_events: bool = False  # True if the client knows the gateway's named events
    reasoning_field: str = ""  # the model server's own name for reasoning; "" for the usual ones
    origin: str = ""  # see `vibe_jupyter.llm.request.Model.origin`


class AnswerWriter(Protocol):
    """Encoder for the answer to one request. All bytes it returns are sent at once; empty bytes send nothing.

    A stream consists of an uninterrupted Chat Completions stream (`chunk`, then the chunks passed to `end`) and of the
    run's events (`event`). A writer for another API translates both.
    """

    @property
    def passes_through(self) -> bool:
        """True if the model server speaks the client's API, so that its answer can be forwarded unmodified."""
        ...

    @property
    def keep_alive(self) -> bytes:
        """Data to send after a silence."""
        ...

    def chunk(self, chunk: ServerEvent) -> bytes:
        """Encode the next chunk of the answer."""
        ...

    def event(self, event: Event, round_number: int) -> bytes:
        """Encode an event of the run."""
        ...

    def file(self, made: Object) -> bytes:
        """Encode a file object, once the file is produced or finally missing."""
        ...

    def end(self, last: Sequence[ServerEvent], ending: Ending) -> bytes:
        """Encode the last chunks and the end of the stream."""
        ...

    def fail(self, error: Mapping[str, object]) -> bytes:
        """Encode an error, given as an object in OpenAI's format, and end the stream."""
        ...

    def whole(self, body: Object, ending: Ending) -> Object:
        """Convert a complete Chat Completions body to the response body."""
        ...
