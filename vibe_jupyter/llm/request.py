"""Requests to model servers, the protocols of dialects and decoders, and limits on answers.

`encode_message` encodes each message once. A request body is ``encode_head``, the messages joined by commas, and
`tail`. The messages come last, so that each request of a conversation, without its tail, is a prefix of the next.
"""

import hashlib
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
from vibe_jupyter.protocol import AssistantMessage, Message, StopReason, ToolSpec, Usage

DEFAULT_TEMPERATURE = 0.2  # same as Mistral Vibe

NAMED_WAIT = 5.0  # seconds; longer waits are counted down and shown with the time of day at which they end

MAX_EVENT = 16 * 1024 * 1024  # bytes of one event, including an unfinished one; a larger event aborts the answer

_ORIGIN_LENGTH = 16  # hexadecimal digits of `Model.origin`

DialectName = Literal["openai", "mistral", "ollama", "mistralrs"]
Thinking = Literal["off", "low", "medium", "high", "max"]


_NO_HEADERS: Final[Mapping[str, str]] = {}


class Server(NamedTuple):
    """A model server and its settings."""

    name: str  # provider's name in the configuration, or '' if only an address was given
    api_base: str  # such as `https://api.mistral.ai/v1`, with or without a trailing slash
    api_key: str | None = None  # None if the server requires no key
    key_from: str = ""  # where the key was found, for messages to the user; '' if unknown
    dialect: DialectName = "openai"
    headers: Mapping[str, str] = _NO_HEADERS  # extra headers of each request, which can't override our own
    # reasoning field of Chat Completions in both directions; '' for the field in which it arrived
    reasoning_field: str = ""
    keep_alive: str = ""  # how long Ollama keeps the model loaded, such as `30m`; '' for Ollama's default
    # True if the server accepts system messages after other messages. For other servers, the gateway turns them into
    # user text.
    system_anywhere: bool = False
    begin_wait: float | None = None  # `api_timeout`: seconds until an answer begins, or None for the default
    # `api_stream_idle_timeout`: seconds without a byte of a stream, or None for the default.
    idle_wait: float | None = None

    def __repr__(self) -> str:
        """Omit the key and headers, since logs and tracebacks may show the repr."""
        return f"Server(name={self.name!r}, api_base={self.api_base!r}, dialect={self.dialect!r})"

    @property
    def host(self) -> str:
        """The host that receives the prompts, as shown to the user."""
        return urlsplit(self.api_base).netloc.rpartition("@")[2] or self.api_base


class EchoTerms(NamedTuple):
    """Echoed fields that a server refuses to receive back, or requires in every answer of the history."""

    refused: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()

    def changed(self, other: "EchoTerms") -> frozenset[str]:
        """Return the names of fields that the other rules treat differently."""
        return (self.refused ^ other.refused) | (self.wanted ^ other.wanted)


ECHO_ALL: Final = EchoTerms()
# Reasoning field of answers whose reasoning arrives as content parts, as Mistral sends it.
IN_CONTENT: Final = "content"


class Model(NamedTuple):
    """A model on a server, with its settings."""

    server: Server
    name: str  # as sent on the wire
    alias: str  # as named by the user
    temperature: float = DEFAULT_TEMPERATURE
    max_tokens: int | None = None  # limit of completion tokens, or None to send no limit
    input_price: float | None = None  # US dollars per million prompt tokens, or None if unknown
    output_price: float | None = None  # US dollars per million completion tokens, or None if unknown
    # US dollars per million prompt tokens read from the server's cache, or None for `input_price`.
    cached_input_price: float | None = None
    thinking: Thinking | None = None  # reasoning effort, or None for the server's default
    sees_images: bool = False  # True if images are sent; otherwise a line of text notes that they were omitted
    context_window: int | None = None  # tokens, or None if unknown; Ollama is asked to allocate this many
    # tokens at which a conversation is compacted, 0 for never, or None for the global setting
    compact_at: int | None = None
    echoes: EchoTerms = ECHO_ALL

    @property
    def origin(self) -> str:
        """Fingerprint of the server and model, recorded in their answers. Reveals neither address nor key."""
        parts = urlsplit(self.server.api_base.strip())
        place = f"{self.name}@{parts.scheme}://{self.server.host}{parts.path.rstrip('/')}"
        return hashlib.sha256(place.encode("utf-8", "replace")).hexdigest()[:_ORIGIN_LENGTH]

    def cost(self, usage: Usage) -> float | None:
        """Return the cost in US dollars, or None if the prices are unknown. Reasoning counts as output."""
        if self.input_price is None or self.output_price is None:
            return None
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        cached_price = self.input_price if self.cached_input_price is None else self.cached_input_price
        spent = (usage.prompt_tokens - cached) * self.input_price + cached * cached_price
        return (spent + usage.completion_tokens * self.output_price) / 1_000_000


def _do_nothing(_: object) -> None:
    pass


class ModelRequestTerms(NamedTuple):
    """Parameters of one request in a conversation."""

    model: Model
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    stream: bool = True
    # `auto`, `none` (calls made anyway are dropped), `required` (at least one call), or the name of the only tool to
    # call.
    tool_choice: str = "auto"
    server_session: str = ""  # id of the server's session for this conversation, or '' if it keeps none
    # called on the event loop once an attempt has been sent, with the limits of the answer
    on_sent: "Callable[[AnswerLimits], None]" = _do_nothing
    # likewise, once the headers of a streamed answer have arrived
    on_begun: "Callable[[AnswerLimits], None]" = _do_nothing


class RetryScheduled(NamedTuple):
    """Notice that the client will retry. Nothing of an answer has been received."""

    seconds: float
    reason: str  # such as `the server is busy (429)`

    @property
    def counted(self) -> float:
        """Seconds to count down on screen, or 0 if the wait is too short to be read."""
        return self.seconds if self.seconds >= NAMED_WAIT else 0.0

    @property
    def sentence(self) -> str:
        """Message for the user when the wait begins. A long wait includes its end time, since not every view can count
        down."""
        if self.seconds < NAMED_WAIT:
            return f"Retrying in {self.seconds:.1f} s: {self.reason}."
        until = datetime.now().astimezone() + timedelta(seconds=self.seconds)
        when = f"Retrying at {until:%H:%M:%S}, in {self.seconds:.0f} s"
        return f"{when}: {self.reason}. Stopping the run ends the wait."


Ended = Literal["final", "calls", "cut", "doubtful"]

AS_TEXT: Final = "written as text"  # mark of a call that the model wrote as text
CUT_SHORT: Final = "cut off at the token limit"  # mark of calls in an answer that reached the token limit
FILTERED: Final = "cut off by the content filter"
# Doubt about an answer whose finish reason announces a call.
NO_CALL: Final = "its server says that it calls a tool, but sent no call"
# Mark of the calls by the answer's stop reason.
CUTS: Final[Mapping[StopReason, str]] = {"length": CUT_SHORT, "content_filter": FILTERED}
# Marks of calls that are never run, and the result sent for each.
NEVER_RUN: Final[Mapping[str, str]] = {
    CUT_SHORT: "Your answer was cut off at the token limit; nothing was run. Send it again in smaller parts.",
    FILTERED: "Your answer was cut off by the server's content filter; nothing was run. Send it in another way.",
}


class ModelReply(NamedTuple):
    """A finished answer and how it ended."""

    message: AssistantMessage  # text, reasoning and calls as recorded and sent back
    ended: Ended
    doubt: str = ""  # why the text may contain a call that can't be run, or ''


class AnswerDecoder(Protocol):
    """Decoder of one answer. Every method raises `failures.BrokenAnswer` if the answer is unusable."""

    finished: bool  # True if the answer is complete, although token counts may follow
    ended: bool  # True if nothing further belongs to the answer

    @property
    def text(self) -> str:
        """The answer's text so far."""
        ...

    def event(self, name: str, data: str) -> Sequence[Piece]:
        """Decode one event of a stream."""
        ...

    def whole(self, body: JsonValue) -> Sequence[Piece]:
        """Decode an answer sent as a single JSON body."""
        ...

    def rest(self) -> Sequence[Piece]:
        """Return the deltas decoded before a broken event, so that the display matches the recorded text."""
        ...

    def message(self) -> AssistantMessage:
        """Return the complete message."""
        ...


class HeadTerms(NamedTuple):
    """Parameters of the request head that depend on the server and session."""

    refused: frozenset[str] = frozenset()  # optional fields this server has refused, which are omitted
    session: str = ""  # id of the conversation, for servers with a prompt cache


BEGIN_WAIT: Final = 600.0  # seconds until an answer begins; for local servers also until the first byte of a stream
IDLE_WAIT: Final = 120.0  # seconds between two reads of a stream
IDLE_WAIT_WITH_TOOLS: Final = 300.0  # seconds; servers such as vLLM and Ollama buffer a long call until it is complete


class AnswerLimits(NamedTuple):
    """Time and size limits of one answer, collected so that tests can shrink them."""

    connect: float = 10.0  # seconds for the TCP and TLS handshakes
    # seconds until an answer begins, until the next data event of a stream, and for a whole JSON body
    answer: float = BEGIN_WAIT
    gap: float = IDLE_WAIT  # seconds between two reads of a stream; unlike `answer`, keep-alive comments reset it
    first: float = 0.0  # seconds until the first read of a stream, if more than `gap`
    tail: float = 3.0  # seconds a stream may continue after its finish reason, for the token counts
    # seconds to wait for the end of the body after the end mark, so that the connection can be reused
    drain: float = 0.2
    event: int = MAX_EVENT  # bytes of one event
    message: int = 32 * 1024 * 1024  # bytes of a JSON body, or characters of a streamed answer
    calls: int = 128  # calls in one answer
    error_body: int = 64 * 1024  # bytes read of an error body

    @classmethod
    def of(cls, server: Server, *, has_tools: bool) -> "AnswerLimits":
        """Return the limits for one request.

        A local server often sends its headers at once and then processes the prompt for minutes.
        """
        begin = BEGIN_WAIT if server.begin_wait is None else server.begin_wait
        usual = IDLE_WAIT_WITH_TOOLS if has_tools else IDLE_WAIT
        gap = usual if server.idle_wait is None else server.idle_wait
        is_near = server.begin_wait is not None or _is_loopback(urlsplit(server.api_base).hostname or "")
        return cls(answer=begin, gap=gap, first=max(begin, gap) if is_near else gap)

    @property
    def first_byte(self) -> float:
        """Seconds until the first read of a stream."""
        return max(self.first, self.gap)


class Dialect(Protocol):
    """An API variant: how requests are encoded and answers decoded."""

    @property
    def path(self) -> str:
        """Path appended to api_base, such as ``/chat/completions``."""
        ...

    @property
    def models_path(self) -> str:
        """Path of the model list, appended to api_base without its `base_ends`."""
        ...

    @property
    def base_ends(self) -> tuple[str, ...]:
        """Suffixes that users append to api_base but that aren't part of it."""
        ...

    @property
    def alternates(self) -> bool:
        """True if the API requires alternating roles and rejects a user message after a tool message."""
        ...

    @property
    def tail(self) -> bytes:
        """Bytes after the last message."""
        ...

    def encode_tools(self, tools: tuple[ToolSpec, ...]) -> bytes:
        """Encode the tools for the head. Empty if there are none."""
        ...

    def encode_head(self, request: ModelRequestTerms, *, tools: bytes, terms: HeadTerms) -> bytes:
        """Encode everything before the first message."""
        ...

    def encode_message(self, message: Message, model: Model) -> bytes:
        """Encode a message for a model, including the fields echoed to its server."""
        ...

    def refused_fields(self, status: int, body: str) -> frozenset[str]:
        """Return the optional fields that a refusal objects to."""
        ...

    def decoder(self, model: Model, limits: AnswerLimits) -> AnswerDecoder:
        """Create a decoder for one answer."""
        ...


_WORD = lazy_pattern(r"[A-Za-z]?[a-z]{0,14}|[A-Z]{0,15}")  # values of headers such as `X-Auth-Mode` that aren't secret

# Headers set by the client itself, or that control the transfer.
OURS = frozenset(
    {"user-agent", "x-affinity", "content-type", "accept", "accept-encoding", "host", "connection", "content-length"}
    | {"transfer-encoding", "te", "trailer", "upgrade", "expect", "proxy-authorization"}
)

_NAME = lazy_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = lazy_pattern(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)


class Endpoint(NamedTuple):
    """Address of a server, with credentials, for one model."""

    provider: str  # '' if only an address was given
    model: str  # as sent on the wire
    url: str
    host: str  # with the port if one is given, as the user knows it
    tls: bool
    loopback: bool  # True for this machine: requests never leave it and bypass proxies
    key: str | None
    key_from: str = ""  # where the key was found, for messages to the user; '' if unknown
    headers: Mapping[str, str] = _NO_HEADERS  # headers set by the user for this server; some may hold a key

    def __repr__(self) -> str:
        """Omit the key and headers, since logs and tracebacks may show the repr."""
        return f"Endpoint(provider={self.provider!r}, model={self.model!r}, at={self.address!r})"

    @property
    def address(self) -> str:
        """The URL without password and query, which may hold a key, for display."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, self.host, parts.path, "", ""))

    @property
    def place(self) -> str:
        """Provider and host, for error messages."""
        return f"{self.provider} ({self.host})" if self.provider else self.host

    @property
    def setting(self) -> str:
        """Setting that defines the address, for error messages."""
        return f"api_base of provider '{self.provider}'" if self.provider else "the address given as NAME@URL"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values to redact. Ordinary words in headers are skipped: redacting them would garble error messages."""
        hidden = (value for name, value in self.headers.items() if is_secret(name) and not _WORD.fullmatch(value))
        return tuple(filter(None, (self.key, *hidden)))

    @classmethod
    def of(cls, model: Model, path: str, *, base_ends: tuple[str, ...] = ()) -> "Endpoint":
        """Return the endpoint for a model.

        Args:
            model: The model to request.
            path: Path appended to api_base.
            base_ends: Suffixes of api_base to remove.

        Raises:
            ModelError: The address is invalid, or the key or a header must not be sent to it.
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
        """Return an endpoint without a key, for an address that isn't a model server."""
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
    """Validate api_base and append the path. A query in api_base stays at the end."""
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
    """Return the extra headers of a server.

    Raises:
        ModelError: A header can't be sent, or would override one of ours.
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
    """Return whether a header may hold a key, by its name, so that its value must be protected and redacted."""
    return bool(_SECRET.search(name))


def _header_error(server: Server, name: str, why: str) -> ModelError:
    return ModelError(f"The header {name!r} of provider '{server.name}' {why}", kind="http")
