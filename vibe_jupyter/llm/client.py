"""One request to a model server: encoded, sent, sent again where that helps, and read as it comes in.

It and `connections` alone import httpx, and only when the first request goes out: until then nobody should wait for it.

What is added depends only on what stands before it, so the requests of a conversation stay prefixes of each other.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, cast

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import failures
from vibe_jupyter.llm.connections import (
    READ_GAP,
    WHOLE,
    FetchRequest,
    FetchResult,
    HttpConnections,
    is_final,
    load_http,
    network_reason,
    read_whole,
)
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.failures import BrokenAnswer, HttpRefusal
from vibe_jupyter.llm.hosted_events import Object, Piece
from vibe_jupyter.llm.request import (
    AnswerLimits,
    Dialect,
    Endpoint,
    HeadTerms,
    Model,
    ModelRequestTerms,
    RetryScheduled,
)
from vibe_jupyter.protocol import AssistantMessage, ImagePart, Message, TextPart, ToolMessage, ToolSpec, UserMessage
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    import httpx

    from vibe_jupyter.llm.growing_answer import Reader

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
"""And everything from 500 up."""

Item = Piece | RetryScheduled | AssistantMessage

_BODY_SENT = ".send_request_body.complete"
"""How httpcore calls the moment in which the whole request has left; before it comes the version of HTTP."""
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Others may unfold one read into gigabytes."""

MODEL_LIST_LIMIT = 8 * 1024 * 1024
"""Bytes of a server's list of models; those who resell others' have thousands."""


class FailedAttempt(NamedTuple):
    """An attempt that gave no answer."""

    reason: str
    """A few words, for `RetryScheduled`."""
    error: Callable[..., ModelError]
    """Makes the final error from ``retries`` and, for a refusal, ``wait``."""
    again: bool
    """Whether another attempt may help."""
    asked: float | None = None
    """Seconds the server asks us to wait; None where it asks nothing."""


class RetryPolicy(NamedTuple):
    """How patient the client is."""

    retries: int = 2
    """Further attempts after the first."""
    first: float = 0.5
    """Seconds before the first retry; doubled for each further one."""
    longest: float = 8.0
    """Seconds the doubling ends at."""
    longest_asked: float = 120.0
    """Seconds a server may ask us to wait; if it asks for more, the user sees an error instead."""
    jitter: Callable[[], float] = random.SystemRandom().random
    """0 to 1; shortens a wait by up to a quarter, so that many clients do not come back at once. Not of what `random`
    draws: in a kernel the user may have seeded it."""

    def pause(self, setback: FailedAttempt, attempt: int) -> float:
        """Seconds before retry number `attempt`, from 0.

        Raises:
            ModelError: there is none.
        """
        asked = setback.asked if setback.again else None
        if asked is not None and (asked > self.longest_asked or attempt >= self.retries):
            raise setback.error(retries=attempt, wait=asked)
        if not setback.again or attempt >= self.retries:
            raise setback.error(retries=attempt)
        if asked is not None:
            return asked
        return min(self.first * 2**attempt, self.longest) * (1 - 0.25 * self.jitter())


def should_retry(status: int, headers: Mapping[str, str]) -> bool:
    """Whether a status is worth another attempt; the server's own word on it wins."""
    match headers.get("x-should-retry", "").lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in RETRIED_STATUSES or status >= 500


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks us to wait; None where it asks nothing, or nothing that makes sense."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _seconds_number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit if seconds > 0 else None
    return _seconds_until(headers.get("retry-after", ""))


def _seconds_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # A NaN or an endless wait is no number of seconds.
    return value if abs(value) < 1e9 else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    seconds = moment.timestamp() - time.time()
    return seconds if seconds > 0 else None


class SentRequest(NamedTuple):
    """What went to a model server."""

    model: str
    """The name sent on the wire."""
    host: str
    body: bytes


class LLMClient:
    """Asks model servers. Keeps its connections and the bytes of the conversation from one request to the next."""

    def __init__(
        self,
        *,
        user_agent: str,
        affinity: str = "",
        retry: RetryPolicy | None = None,
        limits: AnswerLimits | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._headers = {"User-Agent": user_agent, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        if affinity:
            self._headers["x-affinity"] = affinity
        self.last_refusal: ModelError | None = None
        """Why the latest request was refused; None where it was not."""
        self._retry = retry or RetryPolicy()
        self._limits = limits or AnswerLimits()
        self._sleep = sleep
        self._bodies: dict[str, BodyEncoder] = {}
        self._affinity = affinity
        self._refused: dict[tuple[str, str], frozenset[str]] = {}
        """Optional fields that a model at an address refused once, by both."""
        self._connections = HttpConnections()
        self.sent: SentRequest | None = None
        """The latest request of the conversation; None before there is one."""

    async def answer(self, request: ModelRequestTerms) -> AsyncGenerator[Item, None]:
        """Deltas as they arrive, and last exactly one complete message. Closing the iterator closes the connection.

        Nothing is asked again once an answer began: what to do with half an answer is the caller's to say.

        Raises:
            ModelError: with the text received until then.
        """
        name = request.model.server.dialect
        if name not in self._bodies:
            self._bodies[name] = BodyEncoder(DIALECTS[name])
        dialect = self._bodies[name].dialect
        endpoint = Endpoint.of(request.model, dialect.path, base_ends=dialect.base_ends)
        attempt, self.last_refusal = 0, None
        while isinstance(response := await self._send_once(request, dialect, endpoint), FailedAttempt):
            try:
                pause = self._retry.pause(response, attempt)
            except ModelError as refusal:
                self.last_refusal = refusal
                raise
            attempt += 1
            yield RetryScheduled(pause, response.reason)
            await self._sleep(pause)
        with without_working_folder():  # what reads the answer is imported while the server works
            from vibe_jupyter.llm.growing_answer import (  # noqa: PLC0415
                allowed_deltas,
                reader_for,
                with_new_ids,
                without_calls,
            )
        decoder = dialect.decoder(request.model, self._limits)
        may_call = request.tool_choice != "none"
        try:
            _check_encoding(response)
            kind = response.headers.get("content-type", "")
            reader = reader_for(kind, decoder, self._limits, streamed=request.stream)
            async with aclosing(self._read_chunks(response, reader)) as chunks:
                async for chunk in chunks:
                    for delta in allowed_deltas(reader.feed(chunk), calls=may_call):
                        yield delta
            for delta in allowed_deltas(reader.end(), calls=may_call):
                yield delta
            message = reader.message() if may_call else without_calls(reader.message())
        except BrokenAnswer as failure:
            # Not chained: the cause may hold the key, where a server repeats it.
            raise failures.broken_error(endpoint, failure, decoder.text) from None
        finally:
            await response.aclose()
        yield with_new_ids(message, request.messages) if message.calls else message

    async def fetch(self, model: Model, wanted: FetchRequest) -> FetchResult:
        """A small request beside the conversation: its answer, whatever its status.

        Raises:
            ModelError: no answer came, or more than was wanted.
        """
        load_http()
        import httpx  # noqa: PLC0415

        endpoint = Endpoint.of(model, wanted.path, base_ends=DIALECTS[model.server.dialect].base_ends)
        key = {} if endpoint.key is None else {"Authorization": f"Bearer {endpoint.key}"}
        headers = {**endpoint.headers, **self._headers, **key}
        client = self._connections.client(endpoint)
        ask = client.build_request(
            wanted.method, endpoint.url, content=wanted.content, headers=headers, timeout=READ_GAP
        )
        try:
            async with asyncio.timeout(WHOLE):
                return await read_whole(await client.send(ask, stream=True), endpoint, wanted.most)
        except (httpx.HTTPError, TimeoutError) as problem:
            raise failures.unreachable_error(endpoint, network_reason(problem)) from None

    async def list_models(self, model: Model) -> list[Object]:
        """What the server of a model says of each model that it has.

        Raises:
            ModelError: no answer came, or the server refused.
        """
        path = DIALECTS[model.server.dialect].models_path
        got = await self.fetch(model, FetchRequest("GET", path, most=MODEL_LIST_LIMIT))
        if got.status >= 300:
            endpoint = Endpoint.of(model, path, base_ends=DIALECTS[model.server.dialect].base_ends)
            raise failures.refused_error(endpoint, HttpRefusal(got.status, got.content.decode("utf-8", "replace")))
        entries = got.json.get("data")
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    async def close(self) -> None:
        """Close all connections. The client may be used again."""
        await self._connections.close()

    async def _send_once(
        self, request: ModelRequestTerms, dialect: Dialect, endpoint: Endpoint
    ) -> "httpx.Response | FailedAttempt":
        """One attempt, up to the headers of an answer. A refusal of our options is not counted as one."""
        load_http()
        import httpx  # noqa: PLC0415

        asked = (endpoint.model, endpoint.url)
        refused = self._refused.get(asked, frozenset())
        try:
            async with asyncio.timeout(self._limits.answer):
                response = await self._post_request(request, endpoint, HeadTerms(refused, self._affinity))
        except (httpx.ReadTimeout, TimeoutError):
            waited = f"nothing for {self._limits.answer:.0f} s"
            return FailedAttempt(
                "timed out", partial(failures.unreachable_error, endpoint, waited, kind="limit"), again=False
            )
        except (httpx.TransportError, httpx.InvalidURL) as problem:
            reason = network_reason(problem)
            again = isinstance(problem, httpx.TransportError) and not is_final(problem)
            return FailedAttempt(
                f"no connection ({reason})", partial(failures.unreachable_error, endpoint, reason), again=again
            )
        if response.status_code < 300:
            return response
        refusal = await self._read_refusal(response)
        if more := dialect.refused_fields(refusal.status, refusal.body) - refused:
            self._refused[asked] = refused | more
            return await self._send_once(request, dialect, endpoint)
        return FailedAttempt(
            failures.retry_reason(refusal.status),
            partial(failures.refused_error, endpoint, refusal),
            again=not failures.is_overflow(refusal) and should_retry(refusal.status, response.headers),
            asked=requested_wait(response.headers),
        )

    async def _post_request(self, request: ModelRequestTerms, endpoint: Endpoint, terms: HeadTerms) -> "httpx.Response":
        limits = self._limits
        accept = "text/event-stream, application/x-ndjson, application/json" if request.stream else "application/json"
        headers = {**endpoint.headers, **self._headers, "Accept": accept}
        if endpoint.key is not None:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        timeouts = {"connect": limits.connect, "read": limits.answer, "write": limits.gap, "pool": limits.connect}
        client = self._connections.client(endpoint)
        body = self._bodies[request.model.server.dialect].encode(request, terms)
        self.sent = SentRequest(request.model.name, request.model.server.host, body)

        async def note_sent(step: str, _info: object) -> None:
            if step.endswith(_BODY_SENT):
                request.on_sent()

        post = client.build_request(
            "POST",
            endpoint.url,
            content=body,
            headers=headers,
            extensions={"timeout": timeouts, "trace": note_sent},
        )
        response = await client.send(post, stream=True)
        with without_working_folder():
            from vibe_jupyter.llm.growing_answer import is_stream  # noqa: PLC0415

        if is_stream(response.headers.get("content-type", "")):
            # Read again by the transport when the body begins; a test holds it to that.
            timeouts["read"] = limits.gap
        return response

    async def _read_refusal(self, response: "httpx.Response") -> HttpRefusal:
        """What a refusing server says, as far as it says it within bounds."""
        import httpx  # noqa: PLC0415

        said = bytearray()
        try:
            _check_encoding(response)
            async with asyncio.timeout(self._limits.connect):
                async for chunk in response.aiter_bytes():
                    said += chunk
                    if len(said) > self._limits.error_body:
                        break
        except (TimeoutError, httpx.HTTPError, BrokenAnswer):
            pass
        finally:
            await response.aclose()
        body = bytes(said[: self._limits.error_body]).decode("utf-8", "replace")
        return HttpRefusal(response.status_code, body, response.headers.get("location", ""))

    async def _read_chunks(self, response: "httpx.Response", reader: "Reader") -> AsyncGenerator[bytes, None]:
        """The body, until the answer has ended. A complete answer is not lost to a connection that breaks after it."""
        import httpx  # noqa: PLC0415

        body = cast("AsyncGenerator[bytes, None]", response.aiter_bytes())
        try:
            async with aclosing(body) as chunks:
                async for chunk in chunks:
                    yield chunk
                    if reader.finished:
                        break
                until = asyncio.get_running_loop().time() + self._limits.tail
                while reader.finished and not reader.ended:
                    async with asyncio.timeout_at(until):
                        chunk = await anext(chunks, b"")
                    if not chunk:
                        return
                    yield chunk
                if reader.ended:
                    async with asyncio.timeout(self._limits.drain):
                        async for _ in chunks:
                            pass
        except (httpx.HTTPError, TimeoutError) as problem:
            if reader.finished:
                return
            if isinstance(problem, httpx.ReadTimeout):
                raise BrokenAnswer("limit", f"nothing came for {self._limits.gap:.0f} s") from problem
            raise BrokenAnswer("truncated", network_reason(problem)) from problem


def _check_encoding(response: "httpx.Response") -> None:
    encoding = response.headers.get("content-encoding", "").lower()
    if encoding not in _ENCODINGS:
        raise BrokenAnswer("not_sse", f"content encoding {encoding}")


class BodyEncoder:
    """Keeps the bytes of the messages and tools of the latest request, and of no other."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._model: Model | None = None
        self._tools: tuple[ToolSpec, ...] = ()
        self._tool_bytes = b""
        self._messages: dict[tuple[int, bool], tuple[Message, Message, bytes]] = {}
        """By identity, and whether the message itself is meant or what follows it. The message is held beside what was
        sent for it and its bytes, so that its identity cannot become another's."""

    def encode(self, request: ModelRequestTerms, terms: HeadTerms | None = None) -> bytes:
        """The body of a request."""
        if request.tools != self._tools:
            self._tools = request.tools
            self._tool_bytes = self.dialect.encode_tools(request.tools)
        head = self.dialect.encode_head(request, tools=self._tool_bytes, terms=terms or HeadTerms())
        return head + b",".join(self._message_fragments(request)) + self.dialect.tail

    def _message_fragments(self, request: ModelRequestTerms) -> list[bytes]:
        model = request.model
        before = self._messages if model == self._model else {}
        self._model, self._messages = model, {}
        messages = request.messages
        order: Iterable[tuple[Message, Message]] = zip(messages, messages, strict=True)
        if self.dialect.alternates or (model.sees_images and _results_with_images(messages)) or _is_answer(messages):
            order = arrange_messages(messages, sees_images=model.sees_images, alternates=self.dialect.alternates)
        fragments: list[bytes] = []
        for anchor, message in order:
            key = (id(anchor), anchor is message)
            kept = before.get(key)
            if kept is None or kept[1] != message:
                kept = (anchor, message, self.dialect.encode_message(message, model))
            self._messages[key] = kept
            fragments.append(kept[2])
        return fragments


def arrange_messages(
    messages: Sequence[Message], *, sees_images: bool, alternates: bool
) -> Iterator[tuple[Message, Message]]:
    """Pairs of a message that stays and what is sent for it: itself, or the images of the results that end with it.

    Args:
        messages: the history.
        sees_images: images of results follow as a message of the user, the only place where servers take them.
        alternates: see `vibe_jupyter.llm.request.Dialect`.
    """
    previous: Message | None = None
    for anchor, message in _with_images(messages, sees_images=sees_images):
        if alternates and (between := _message_between(previous, message)) is not None:
            yield between, between
        yield anchor, message
        previous = message
    if isinstance(previous, AssistantMessage):
        yield _go_on(), _go_on()


def _results_with_images(messages: Sequence[Message]) -> list[ToolMessage]:
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return [result for result in results if any(isinstance(part, ImagePart) for part in result.parts)]


def _is_answer(messages: Sequence[Message]) -> bool:
    """Whether they end with one, behind which the model is asked to go on."""
    return bool(messages) and isinstance(messages[-1], AssistantMessage)


def _with_images(messages: Sequence[Message], *, sees_images: bool) -> Iterator[tuple[Message, Message]]:
    """Results stand together, so their images come after the last of them. An image that an earlier result of these
    messages has is not sent again: it is said where it is."""
    first: dict[ImagePart, _ImagePlace] = {}
    results = 0
    waiting: list[TextPart | ImagePart] = []
    for number, message in enumerate(messages):
        yield message, message
        if not sees_images or not isinstance(message, ToolMessage):
            continue
        results += 1
        waiting += _new_images(message, results, first)
        following = messages[number + 1] if number + 1 < len(messages) else None
        if waiting and not isinstance(following, ToolMessage):
            yield message, UserMessage(parts=tuple(waiting))
            waiting = []


def _new_images(message: ToolMessage, result: int, first: dict[ImagePart, "_ImagePlace"]) -> list[TextPart | ImagePart]:
    """The images of one result that no earlier one has, by their numbers in it; nothing where it has none."""
    images = [part for part in message.parts if isinstance(part, ImagePart)]
    if not images:
        return []
    new: list[ImagePart] = []
    numbers: list[str] = []
    notes: list[str] = []
    for number, image in enumerate(images, 1):
        known = first.setdefault(image, _ImagePlace(message.name, result, number))
        if known.result == result and known.number == number:
            new.append(image)
            numbers.append(str(number))
        else:
            notes.append(f"image {number} is not sent again, it is {known.seen_from(result)}")
    if new:
        notes.insert(0, f"image{'s' * (len(new) > 1)} {', '.join(numbers)}")
    return [TextPart(text=f"From the result of {message.name}: {'; '.join(notes)}."), *new]


class _ImagePlace(NamedTuple):
    """Where an image was sent."""

    tool: str
    result: int
    """Place of the result among all of these messages."""
    number: int
    """In that result."""

    def seen_from(self, result: int) -> str:
        back = result - self.result
        if not back:
            return f"image {self.number}"
        return f"image {self.number} of {self.tool} {back} result{'s' * (back > 1)} earlier"


@cache
def _no_answer() -> Message:
    """Stands between two messages of the user, and between a tool's result and the user."""
    return AssistantMessage(parts=(TextPart(text="(no answer)"),), stop_reason="interrupted")


@cache
def _go_on() -> Message:
    """Stands between two answers, and after one that is the last message: servers would continue it, and repeat it."""
    return UserMessage(parts=(TextPart(text="Go on."),))


def _message_between(previous: Message | None, message: Message) -> Message | None:
    match previous, message:
        case (UserMessage() | ToolMessage(), UserMessage()):
            return _no_answer()
        case (AssistantMessage(), AssistantMessage()):
            return _go_on()
        case _:
            return None
