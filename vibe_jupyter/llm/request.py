"""One request as values, how a kind of API spells it, and the bounds on its answer.

`encode_message` gives each message its bytes once; a request body is then ``encode_head``, the messages joined by
commas, and `tail`. The messages come last, so the body of each request of a conversation, without its tail, is a
prefix of the next one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.hosted_events import Piece
from vibe_jupyter.protocol import AssistantMessage, Message, ToolSpec, Usage

DEFAULT_TEMPERATURE = 0.2
"""As Mistral Vibe sends it."""

NAMED_WAIT = 5.0
"""Seconds; the end of a longer wait is shown as a time of day, and counted down."""

MAX_EVENT = 16 * 1024 * 1024
"""Bytes of one event of an answer, unfinished lines included; a longer one ends the answer."""

DialectName = Literal["openai", "mistral", "ollama", "mistralrs"]
Thinking = Literal["off", "low", "medium", "high", "max"]


_NO_HEADERS: Final[Mapping[str, str]] = {}


class Server(NamedTuple):
    """Where a model is served."""

    name: str
    """The provider's name in the configuration; empty where the address was given without one."""
    api_base: str
    """Such as ``https://api.mistral.ai/v1``, with or without a slash at the end."""
    api_key: str | None = None
    """None where the server wants no key."""
    key_from: str = ""
    """Where the key was found, in words for the user; empty where that is not known."""
    dialect: DialectName = "openai"
    headers: Mapping[str, str] = _NO_HEADERS
    """Sent with each request beside our own, which they may not replace."""
    reasoning_field: str = ""
    """Where Chat Completions carry the reasoning, both ways; empty: the usual names are read, and none is sent."""
    keep_alive: str = ""
    """How long Ollama keeps the model loaded, such as ``30m``; empty: as long as Ollama likes."""

    def __repr__(self) -> str:
        """Without key and headers: a log or a traceback may show it."""
        return f"Server(name={self.name!r}, api_base={self.api_base!r}, dialect={self.dialect!r})"

    @property
    def host(self) -> str:
        """The host that prompts are sent to, as shown to the user."""
        return urlsplit(self.api_base).netloc.rpartition("@")[2] or self.api_base


class Model(NamedTuple):
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
    compact_at: int | None = None
    """Tokens from which a conversation with it is compacted, 0 for never; None as for all models."""

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


class ModelRequestTerms(NamedTuple):
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
    on_sent: Callable[[], None] = _do_nothing
    """Called on the event loop when it is on its way, once for each attempt."""


class RetryScheduled(NamedTuple):
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


class HeadTerms(NamedTuple):
    """What besides the request decides how its head is written."""

    refused: frozenset[str] = frozenset()
    """Optional fields this server refused once; they are left out."""
    session: str = ""
    """Names the conversation, for servers that keep what they read of it."""


class AnswerLimits(NamedTuple):
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
    def models_path(self) -> str:
        """What follows api_base, without its ends, where the server lists its models."""
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


_WORD = lazy_pattern(r"[A-Za-z]?[a-z]{0,14}|[A-Z]{0,15}")
"""What a header such as ``X-Auth-Mode`` may hold."""

OURS = frozenset(
    {"user-agent", "x-affinity", "content-type", "accept", "accept-encoding", "host", "connection", "content-length"}
    | {"transfer-encoding", "te", "trailer", "upgrade", "expect", "proxy-authorization"}
)
"""What the client says itself, or what says how a request is sent."""

_NAME = lazy_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = lazy_pattern(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)


class Endpoint(NamedTuple):
    """One address of one server, for one model."""

    provider: str
    """Empty where the address was given without one."""
    model: str
    """The name sent on the wire."""
    url: str
    host: str
    """Host, and port where one is given: what a user recognises."""
    tls: bool
    loopback: bool
    """This very machine: nothing leaves it, and no proxy is asked."""
    key: str | None
    key_from: str = ""
    """Where the key was found, in words for the user; empty where that is not known."""
    headers: Mapping[str, str] = _NO_HEADERS
    """Those the user set for this server; some may hold a key too."""

    def __repr__(self) -> str:
        """Without key and headers: a log or a traceback may show it."""
        return f"Endpoint(provider={self.provider!r}, model={self.model!r}, at={self.address!r})"

    @property
    def address(self) -> str:
        """The url as it may be shown: without a password or a query, which may hold a key too."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, self.host, parts.path, "", ""))

    @property
    def place(self) -> str:
        """Provider and host, for the texts of errors."""
        return f"{self.provider} ({self.host})" if self.provider else self.host

    @property
    def setting(self) -> str:
        """Where the user set the address, for the texts of errors."""
        return f"api_base of provider '{self.provider}'" if self.provider else "the address given as NAME@URL"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere. A plain word in a header is none: an error text would be garbled by hiding it."""
        hidden = (value for name, value in self.headers.items() if is_secret(name) and not _WORD.fullmatch(value))
        return tuple(filter(None, (self.key, *hidden)))

    @classmethod
    def of(cls, model: Model, path: str, *, base_ends: tuple[str, ...] = ()) -> "Endpoint":
        """The address for a model.

        Args:
            model: what is asked.
            path: what follows api_base.
            base_ends: ends of api_base that are left out.

        Raises:
            ModelError: the address is none, or the key or a header must not be sent to it.
        """
        server = model.server
        whole = _check_address(server.name, server.api_base, path, base_ends)
        parts = urlsplit(whole)
        host = parts.hostname or ""
        endpoint = cls(
            provider=server.name,
            model=model.name,
            url=whole,
            host=parts.netloc.rpartition("@")[2],
            tls=parts.scheme == "https",
            loopback=_is_loopback(host),
            key=server.api_key or None,
            key_from=server.key_from,
            headers=checked_headers(server),
        )
        endpoint._guard_key()
        return endpoint

    @classmethod
    def at(cls, url: str) -> "Endpoint":
        """An address that is no model server's, without a key."""
        parts = urlsplit(url)
        place, tls = parts.netloc.rpartition("@")[2], parts.scheme == "https"
        loopback = _is_loopback(parts.hostname or "")
        return cls(provider="", model="", url=url, host=place, tls=tls, loopback=loopback, key=None)

    def _guard_key(self) -> None:
        if (self.key is not None or any(map(is_secret, self.headers))) and not self.tls and not self.loopback:
            what = "API key" if self.key is not None else f"header {next(filter(is_secret, self.headers))}"
            raise ModelError(
                f"The {what} of provider '{self.provider}' is not sent to {self.host}, since plain http would "
                "expose it to everyone on the way. Use an https address for its api_base, or none.",
                kind="auth",
            )
        if self.key is None:
            return
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise ModelError(
                f"The API key of provider '{self.provider}' holds a blank, a line break or a character that no header "
                "can carry. Set it again without them.",
                kind="auth",
            )


def _check_address(provider: str, api_base: str, path: str, base_ends: tuple[str, ...]) -> str:
    """The whole address; a query in api_base stays at its end."""
    try:
        parts = urlsplit(api_base.strip())
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable:
        what = f"The api_base of provider '{provider}'" if provider else "The address"
        raise ModelError(
            f"{what} is not an http or https address: '{api_base.rpartition('@')[2]}'. "
            "It should look like https://api.mistral.ai/v1.",
            kind="connection",
        )
    base = parts.path.rstrip("/")
    end = next((end for end in base_ends if base.endswith(end)), "")
    return urlunsplit((parts.scheme, parts.netloc, base.removesuffix(end) + path, parts.query, ""))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def checked_headers(server: Server) -> Mapping[str, str]:
    """The headers of a server, as they may be sent.

    Raises:
        ModelError: one of them cannot be sent, or would take the place of one of ours.
    """
    for name, value in server.headers.items():
        if not _NAME.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise _header_error(server, name, "holds a character that no header can carry. Set it again without it.")
        if name.lower() in OURS:
            raise _header_error(server, name, "is set by vibe-jupyter itself. Remove it from the provider's headers.")
        if name.lower() == "authorization" and server.api_key:
            raise _header_error(server, name, "would replace the API key. Remove one of the two.")
    return dict(server.headers)


def is_secret(name: str) -> bool:
    """Whether the value of a header may be a key: it is guarded and hidden as one."""
    return bool(_SECRET.search(name))


def _header_error(server: Server, name: str, why: str) -> ModelError:
    return ModelError(f"The header {name!r} of provider '{server.name}' {why}", kind="http")
