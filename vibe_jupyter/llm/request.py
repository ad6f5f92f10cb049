"""One request as values, how a kind of API spells it, and the bounds on its answer.

`encode_message` gives each message its bytes once; a request body is then ``encode_head``, the messages joined by
commas, and `tail`. The messages come last, so the body of each request of a conversation, without its tail, is a
prefix of the next one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol
from urllib.parse import urlsplit

from pydantic import JsonValue

from vibe_jupyter.llm.event_streams import MAX_EVENT
from vibe_jupyter.llm.hosted_events import Piece
from vibe_jupyter.protocol import AssistantMessage, Message, ToolSpec, Usage

DEFAULT_TEMPERATURE = 0.2
"""As Mistral Vibe sends it."""

NAMED_WAIT = 5.0
"""Seconds; the end of a longer wait is shown as a time of day, and counted down."""

DialectName = Literal["openai", "mistral", "ollama", "mistralrs"]
Thinking = Literal["off", "low", "medium", "high", "max"]


@dataclass(frozen=True)
class Server:
    """Where a model is served."""

    name: str
    """The provider's name in the configuration; empty where the address was given without one."""
    api_base: str
    """Such as ``https://api.mistral.ai/v1``, with or without a slash at the end."""
    api_key: str | None = field(default=None, repr=False)
    """None where the server wants no key."""
    key_from: str = field(default="", compare=False)
    """Where the key was found, in words for the user; empty where that is not known."""
    dialect: DialectName = "openai"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    """Sent with each request beside our own, which they may not replace."""
    reasoning_field: str = ""
    """Where Chat Completions carry the reasoning, both ways; empty: the usual names are read, and none is sent."""
    keep_alive: str = ""
    """How long Ollama keeps the model loaded, such as ``30m``; empty: as long as Ollama likes."""

    @property
    def host(self) -> str:
        """The host that prompts are sent to, as shown to the user."""
        return urlsplit(self.api_base).netloc.rpartition("@")[2] or self.api_base


@dataclass(frozen=True)
class Model:
    """A model on a server, with its settings."""

    server: Server
    name: str
    """The name sent on the wire."""
    alias: str
    """The user's name for it."""
    temperature: float = DEFAULT_TEMPERATURE
    max_tokens: int | None = None
    """Completion limit in tokens; None sends none."""
    input_price: float | None = None
    """US dollars per million prompt tokens; None where not known."""
    output_price: float | None = None
    """US dollars per million completion tokens; None where not known."""
    cached_input_price: float | None = None
    """US dollars per million prompt tokens that the server read from its cache; None: as dear as the others."""
    thinking: Thinking | None = None
    """How much the model thinks before it answers; None: as the server likes."""
    sees_images: bool = False
    """Whether images are sent; a model that takes none gets a line of text that says there was one."""
    context_window: int | None = None
    """Tokens; None where not known. Ollama is asked to reserve memory for as many."""

    def cost(self, usage: Usage) -> float | None:
        """US dollars for some tokens; None where the prices are not known. What a model thinks counts as output."""
        if self.input_price is None or self.output_price is None:
            return None
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        cached_price = self.input_price if self.cached_input_price is None else self.cached_input_price
        spent = (usage.prompt_tokens - cached) * self.input_price + cached * cached_price
        return (spent + usage.completion_tokens * self.output_price) / 1_000_000


def _do_nothing() -> None:
    pass


@dataclass(frozen=True)
class ModelRequestTerms:
    """One request of a conversation."""

    model: Model
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    stream: bool = True
    tool_choice: str = "auto"
    """``auto``, ``none`` (what is called all the same is dropped), ``required`` (at least one call), or the name of the
    one tool to call."""
    server_session: str = ""
    """What the server called its part of this conversation; empty where it keeps none."""
    on_sent: Callable[[], None] = field(default=_do_nothing, compare=False)
    """Called on the event loop when it is on its way, once for each attempt."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The client will try again; nothing of an answer was received."""

    seconds: float
    reason: str
    """Such as ``the server is busy (429)``."""

    @property
    def counted(self) -> float:
        """Seconds to count down before the user's eyes; 0 for a wait that is over before anyone has read of it."""
        return self.seconds if self.seconds >= NAMED_WAIT else 0.0

    @property
    def sentence(self) -> str:
        """For the user, at the moment the wait begins; a long one names its end, since not every view can count."""
        if self.seconds < NAMED_WAIT:
            return f"Retrying in {self.seconds:.1f} s: {self.reason}."
        until = datetime.now().astimezone() + timedelta(seconds=self.seconds)
        when = f"Retrying at {until:%H:%M:%S}, in {self.seconds:.0f} s"
        return f"{when}: {self.reason}. Stopping the run ends the wait."


class AnswerDecoder(Protocol):
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
class HeadTerms:
    """What besides the request decides how its head is written."""

    refused: frozenset[str] = frozenset()
    """Optional fields this server refused once; they are left out."""
    session: str = ""
    """Names the conversation, for servers that keep what they read of it."""


@dataclass(frozen=True)
class AnswerLimits:
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

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """All that comes before the first message."""
        ...

    def encode_message(self, message: Message, model: Model) -> bytes:
        """One message, for one model."""
        ...

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Which optional fields a refusal is about."""
        ...

    def decoder(self, model: Model, limits: AnswerLimits) -> AnswerDecoder:
        """A reader for one answer."""
        ...
