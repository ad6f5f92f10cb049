"""How an API spells the answer to one request; each of its routes has a writer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue

from vibe_jupyter.llm.event_streams import ServerEvent
from vibe_jupyter.protocol import Event, FinishReason

Object = dict[str, JsonValue]


@dataclass
class AgenticCall:
    """A call that was answered here."""

    round: int
    """From 1."""
    name: str
    arguments: str
    call_id: str
    result: str = ""
    images: list[str] = field(default_factory=list[str])
    """Base64."""
    file_ids: list[str] = field(default_factory=list[str])
    outcome: Literal["ok", "error", "denied", "interrupted"] = "interrupted"
    details: Object = field(default_factory=dict[str, JsonValue])
    """What its tool says beside the result; empty where it was not run."""


class Ending(NamedTuple):
    """How an exchange ended."""

    reason: FinishReason
    calls: Sequence[AgenticCall]
    """What was called here, in order."""
    session_id: str
    """Empty where there is none."""
    files: Sequence[Object] = ()
    """File objects of the run."""


class WriterTerms(NamedTuple):
    """What a writer needs to know of its request."""

    session_id: str = ""
    """Empty where it names none."""
    tells_events: bool = False
    """Whether the client knows the named events of the gateway."""
    reasoning_field: str = ""
    """The model server's own name for reasoning; empty for the usual ones."""


class AnswerWriter(Protocol):
    """One request's answer on the wire. Everything it returns is sent at once; empty bytes send nothing.

    A stream is a Chat Completions stream without a gap (`chunk`, then those of `end`), with what the run does beside
    it (`event`). A writer for another API translates both.
    """

    @property
    def passes_through(self) -> bool:
        """Whether an answer of the model server may be passed on as it is: it speaks the same API."""
        ...

    @property
    def keep_alive(self) -> bytes:
        """What is sent after a silence."""
        ...

    def chunk(self, chunk: ServerEvent) -> bytes:
        """The next chunk of the answer."""
        ...

    def event(self, event: Event, round_number: int) -> bytes:
        """What the run does beside it."""
        ...

    def file(self, made: Object) -> bytes:
        """A file that was made, as soon as it is there, or that is missing in the end."""
        ...

    def end(self, last: Sequence[ServerEvent], ending: Ending) -> bytes:
        """The last chunks, and all that follows them."""
        ...

    def fail(self, error: Mapping[str, object]) -> bytes:
        """The stream ends with an error, an object as OpenAI has it."""
        ...

    def whole(self, body: Object, ending: Ending) -> Object:
        """An answer without a stream, made of a whole one in the form of Chat Completions."""
        ...
