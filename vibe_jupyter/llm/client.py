"""HTTP client for model servers: encodes a request, sends it with retries, and decodes the response as it streams in.

Only this module and `connections` import httpx, and only when the first request is sent, to keep startup fast.

Messages inserted for a server depend only on the messages before them, so each request of a conversation stays a prefix
of the next and the server's prompt cache remains valid.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import failures
from vibe_jupyter.llm.catalogue import known_echoes
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
from vibe_jupyter.llm.failures import BEGIN_SETTING, IDLE_SETTING, BrokenAnswer, HttpRefusal, late_answer
from vibe_jupyter.llm.hosted_events import Object, Piece
from vibe_jupyter.llm.request import (
    AnswerDecoder,
    AnswerLimits,
    Dialect,
    EchoTerms,
    Endpoint,
    HeadTerms,
    Model,
    ModelReply,
    ModelRequestTerms,
    RetryScheduled,
)
from vibe_jupyter.protocol import AssistantMessage, ImagePart, Message, TextPart, ToolMessage, ToolSpec, UserMessage

if TYPE_CHECKING:
    import httpx

RETRIED_STATUSES = frozenset({408, 409, 425, 429})  # and every status from 500 up

Item = Piece | RetryScheduled | ModelReply

# Suffix of httpcore's trace event for "request sent completely". Its prefix is the HTTP version.
_BODY_SENT = ".send_request_body.complete"
_PLAIN = frozenset({"", "identity"})
# Accepted although never requested. Other encodings may inflate one read to gigabytes.
_UNFOLDED = frozenset({"gzip", "deflate"})

MODEL_LIST_LIMIT = 8 * 1024 * 1024  # bytes of a model list; resellers list thousands of models


class FailedAttempt(NamedTuple):
    """An attempt that got no usable response."""

    reason: str  # short, for `RetryScheduled`
    error: Callable[..., ModelError]  # builds the final error from `retries` and, for a refusal, `wait`
    again: bool  # True if a retry may help
    asked: float | None = None  # seconds the server asks to wait, or None


class RetryPolicy(NamedTuple):
    """Retry limits and backoff."""

    retries: int = 2  # attempts after the first
    first: float = 0.5  # seconds before the first retry, doubled for each further one
    longest: float = 8.0  # upper bound of the backoff in seconds
    # Longest wait in seconds that a server may ask for. Beyond that, the user sees an error.
    longest_asked: float = 120.0
    # From 0 to 1; shortens a wait by up to a quarter, so that many clients don't retry at once. Not from the global
    # `random` generator, which the user may have seeded in this kernel.
    jitter: Callable[[], float] = random.SystemRandom().random

    def pause(self, setback: FailedAttempt, attempt: int) -> float:
        """Return the seconds to wait before retry number `attempt`, counted from 0.

        Raises:
            ModelError: No retry is left, or retrying can't help.
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
    """Return whether to retry after a status. The server's ``x-should-retry`` header takes precedence."""
    match headers.get("x-should-retry", "").lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in RETRIED_STATUSES or status >= 500


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds the server asks to wait, or None if it sends no usable value."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _seconds_number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit if seconds > 0 else None
    return _seconds_until(headers.get("retry-after", ""))


def _seconds_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return failures.duration(text)
    # naN and infinity parse as floats but aren't durations
    return value if abs(value) < 1e9 else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    seconds = moment.timestamp() - time.time()
    return seconds if seconds > 0 else None


class SentRequest(NamedTuple):
    """A request as sent to a model server."""

    model: str  # as sent on the wire
    host: str
    body: bytes


class LLMClient:
    """Client for model servers. Reuses connections and the encoded conversation between requests."""

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
        self.last_refusal: ModelError | None = None  # why the latest request was refused, or None
        self._retry = retry or RetryPolicy()
        self._given_limits = limits
        self._sleep = sleep
        self._bodies: dict[str, BodyEncoder] = {}
        self._affinity = affinity
        # optional fields a server has refused, by model and URL
        self._refused: dict[tuple[str, str], frozenset[str]] = {}
        self._echoes: dict[tuple[str, str], EchoTerms] = {}  # known echo rules, by model and URL
        self._connections = HttpConnections()
        self.sent: SentRequest | None = None  # latest request of the conversation, or None before the first

    async def answer(self, request: ModelRequestTerms) -> AsyncGenerator[Item, None]:
        """Stream the answer to a request: deltas as they arrive, then exactly one `ModelReply`.

        Closing the iterator closes the connection. Nothing is retried once an answer has begun: the caller decides what
        to do with a partial answer.

        Raises:
            ModelError: With the text received so far.
        """
        name = request.model.server.dialect
        if name not in self._bodies:
            self._bodies[name] = BodyEncoder(DIALECTS[name])
        dialect = self._bodies[name].dialect
        endpoint = Endpoint.of(request.model, dialect.path, base_ends=dialect.base_ends)
        limits = self._given_limits or AnswerLimits.of(request.model.server, has_tools=bool(request.tools))
        attempt, self.last_refusal = 0, None
        while isinstance(response := await self._send_once(request, dialect, endpoint, limits), FailedAttempt):
            try:
                pause = self._retry.pause(response, attempt)
            except ModelError as refusal:
                self.last_refusal = refusal
                raise
            attempt += 1
            yield RetryScheduled(pause, response.reason)
            await self._sleep(pause)
        # imported late, while the server is working on the answer
        from vibe_jupyter.llm.growing_answer import reader_for  # noqa: PLC0415
        from vibe_jupyter.llm.reply import ReplyReader  # noqa: PLC0415

        decoder = dialect.decoder(request.model, limits)
        reply = ReplyReader(request)
        try:
            body = _body_of(response)
            kind = response.headers.get("content-type", "")
            reader = reader_for(kind, decoder, limits, streamed=request.stream)
            async with aclosing(_read_chunks(body, decoder, limits, is_streamed=reader.is_streamed)) as chunks:
                async for chunk in chunks:
                    for piece in reader.feed(chunk):
                        for shown in reply.shown(piece):
                            yield shown
            for shown in chain.from_iterable(map(reply.shown, reader.end())):
                yield shown
            rest, whole = reply.finish(decoder.message())
        except BrokenAnswer as failure:
            # not chained: the cause may hold the API key if the server echoes it
            raise failures.broken_error(endpoint, failure, decoder.text) from None
        finally:
            await response.aclose()
        for piece in rest:
            yield piece
        yield whole._replace(message=whole.message.model_copy(update={"origin": request.model.origin}))

    async def fetch(self, model: Model, wanted: FetchRequest) -> FetchResult:
        """Send a small request outside the conversation and return the response, whatever its status.

        Raises:
            ModelError: No response arrived, or it was larger than allowed.
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
        """Return the server's entries for its available models.

        Raises:
            ModelError: No response arrived, or the server refused.
        """
        path = DIALECTS[model.server.dialect].models_path
        got = await self.fetch(model, FetchRequest("GET", path, most=MODEL_LIST_LIMIT))
        if got.status >= 300:
            endpoint = Endpoint.of(model, path, base_ends=DIALECTS[model.server.dialect].base_ends)
            raise failures.refused_error(endpoint, HttpRefusal(got.status, got.content.decode("utf-8", "replace")))
        entries = got.json.get("data")
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    async def close(self) -> None:
        """Close all connections. The client can be used again."""
        await self._connections.close()

    async def _send_once(
        self, request: ModelRequestTerms, dialect: Dialect, endpoint: Endpoint, limits: AnswerLimits
    ) -> "httpx.Response | FailedAttempt":
        """Make one attempt, up to the response headers.

        A request repeated because the server refused a field belongs to the same attempt.
        """
        asked = (endpoint.model, endpoint.url)
        model = request.model._replace(echoes=self._echoes.get(asked) or known_echoes(request.model))
        # Fields already added or dropped because of a refusal. Each is changed only once, so that a server that refuses
        # both variants doesn't cause a loop.
        tried: frozenset[str] = frozenset()
        while True:
            refused = self._refused.get(asked, frozenset())
            terms = HeadTerms(refused, self._affinity)
            response = await self._post_once(request._replace(model=model), endpoint, terms, limits)
            if isinstance(response, FailedAttempt):
                return response
            if response.status_code < 300:
                self._echoes[asked] = model.echoes  # this combination was accepted
                return response
            refusal = await self._read_refusal(response, limits)
            if more := dialect.refused_fields(refusal.status, refusal.body) - refused:
                self._refused[asked] = refused | more
                continue
            from vibe_jupyter.llm.echoes import echoed_fields, terms_after  # noqa: PLC0415

            echoes = terms_after(refusal, echoed_fields(request.messages, model), model.echoes)
            changed = model.echoes.changed(echoes)
            if not changed or changed & tried:
                break
            tried |= changed
            model = model._replace(echoes=echoes)
        return FailedAttempt(
            failures.retry_reason(refusal),
            partial(failures.refused_error, endpoint, refusal),
            again=failures.is_unread_call(refusal)
            or (not failures.is_overflow(refusal) and should_retry(refusal.status, response.headers)),
            asked=requested_wait(response.headers) or failures.wait_in_words(refusal),
        )

    async def _post_once(
        self, request: ModelRequestTerms, endpoint: Endpoint, terms: HeadTerms, limits: AnswerLimits
    ) -> "httpx.Response | FailedAttempt":
        """Send a request and return the response, whatever its status."""
        load_http()
        import httpx  # noqa: PLC0415

        try:
            async with asyncio.timeout(limits.answer):
                return await self._post_request(request, endpoint, terms, limits)
        except (httpx.ReadTimeout, TimeoutError):
            late = partial(failures.late_error, endpoint, limits.answer)
            return FailedAttempt("timed out", late, again=False)
        except (httpx.TransportError, httpx.InvalidURL) as problem:
            reason = network_reason(problem)
            again = isinstance(problem, httpx.TransportError) and not is_final(problem)
            return FailedAttempt(
                f"no connection ({reason})", partial(failures.unreachable_error, endpoint, reason), again=again
            )

    async def _post_request(
        self, request: ModelRequestTerms, endpoint: Endpoint, terms: HeadTerms, limits: AnswerLimits
    ) -> "httpx.Response":
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
                request.on_sent(limits)

        post = client.build_request(
            "POST",
            endpoint.url,
            content=body,
            headers=headers,
            extensions={"timeout": timeouts, "trace": note_sent},
        )
        response = await client.send(post, stream=True)
        from vibe_jupyter.llm.growing_answer import is_stream  # noqa: PLC0415

        if is_stream(response.headers.get("content-type", "")):
            # httpx reads this dict again when the body begins, so changing it here sets the limit for the first read. A
            # test covers this.
            timeouts["read"] = limits.first_byte
            request.on_begun(limits)
        return response

    async def _read_refusal(self, response: "httpx.Response", limits: AnswerLimits) -> HttpRefusal:
        """Read the body of a refusal, within time and size limits."""
        import httpx  # noqa: PLC0415

        said = bytearray()
        try:
            async with asyncio.timeout(limits.connect):
                async for chunk in _body_of(response):
                    said += chunk
                    if len(said) > limits.error_body:
                        break
        except (TimeoutError, httpx.HTTPError, BrokenAnswer):
            pass
        finally:
            await response.aclose()
        body = bytes(said[: limits.error_body]).decode("utf-8", "replace")
        return HttpRefusal(response.status_code, body, response.headers.get("location", ""))


def _body_of(response: "httpx.Response") -> AsyncGenerator[bytes, None]:
    """Return an iterator over the body.

    Raises:
        BrokenAnswer: The content encoding isn't supported.
    """
    encoding = response.headers.get("content-encoding", "").lower()
    if encoding not in _PLAIN | _UNFOLDED:
        raise BrokenAnswer("not_sse", f"content encoding {encoding}")
    # skip httpx's decoder for plain bodies: it would process every read
    reads = response.aiter_raw() if encoding in _PLAIN else response.aiter_bytes()
    return cast("AsyncGenerator[bytes, None]", reads)


async def _read_chunks(
    body: AsyncGenerator[bytes, None], decoder: AnswerDecoder, limits: AnswerLimits, *, is_streamed: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the body until the answer has ended. A complete answer survives a connection that breaks after it."""
    import httpx  # noqa: PLC0415

    from vibe_jupyter.llm.silence_guard import SilenceGuard  # noqa: PLC0415

    first, gap = (limits.first_byte, limits.gap) if is_streamed else (limits.answer, limits.answer)
    waited, loop = first, asyncio.get_running_loop()
    try:
        async with aclosing(body) as chunks:
            with SilenceGuard(gap, loop) as guard:
                async for chunk in chunks:
                    guard.since, waited = None, gap
                    yield chunk
                    if decoder.finished:
                        break
                    # httpx applies one read timeout to the whole body (that of the first read), so the guard enforces
                    # the shorter gap.
                    guard.since = loop.time() if gap < first else None
            until = loop.time() + limits.tail
            while decoder.finished and not decoder.ended:
                async with asyncio.timeout_at(until):
                    chunk = await anext(chunks, b"")
                if not chunk:
                    return
                yield chunk
            if decoder.ended:
                async with asyncio.timeout(limits.drain):
                    async for _ in chunks:
                        pass
    except (httpx.HTTPError, TimeoutError) as problem:
        if decoder.finished:
            return
        if isinstance(problem, httpx.ReadTimeout | TimeoutError):
            is_begin = waited == limits.first > limits.gap or not is_streamed
            raise late_answer("nothing came for", waited, BEGIN_SETTING if is_begin else IDLE_SETTING) from problem
        raise BrokenAnswer("truncated", network_reason(problem)) from problem


class BodyEncoder:
    """Request encoder that caches the encoded messages and tools of the latest request only."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._model: Model | None = None
        self._tools: tuple[ToolSpec, ...] = ()
        self._tool_bytes = b""
        # Keyed by the id of the anchor message and whether the entry is for the anchor itself or for a message derived
        # from it. Holding a reference to the anchor keeps its id from being reused.
        self._messages: dict[tuple[int, bool], tuple[Message, Message, bytes]] = {}

    def encode(self, request: ModelRequestTerms, terms: HeadTerms | None = None) -> bytes:
        """Encode the body of a request, reusing messages encoded for the previous one."""
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
    """Yield pairs of an anchor in the history and the message to send for it.

    The second is the anchor itself, a user message with the images of the tool results that end with the anchor, or a
    filler required by the server.

    Args:
        messages: The history.
        sees_images: Whether to send images of results in a user message, the only place where servers accept them.
        alternates: See `vibe_jupyter.llm.request.Dialect`.
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
    """Return whether the history ends with an answer, which needs a follow-up message."""
    return bool(messages) and isinstance(messages[-1], AssistantMessage)


def _with_images(messages: Sequence[Message], *, sees_images: bool) -> Iterator[tuple[Message, Message]]:
    """Add a user message with the images after each run of tool results.

    Tool results must stay adjacent, so the images follow the last of them. A repeated image isn't sent again: a note
    refers to the first one.
    """
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
    """Return the images of a result that no earlier result has, preceded by a note on their origin. Empty if it has
    none."""
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
    """Position of an image that was already sent."""

    tool: str
    result: int  # index of the result among all messages
    number: int  # index of the image within the result

    def seen_from(self, result: int) -> str:
        back = result - self.result
        if not back:
            return f"image {self.number}"
        return f"image {self.number} of {self.tool} {back} result{'s' * (back > 1)} earlier"


@cache
def _no_answer() -> Message:
    """Return the filler between two user messages, or between a tool result and a user message."""
    return AssistantMessage(parts=(TextPart(text="(no answer)"),), stop_reason="interrupted")


@cache
def _go_on() -> Message:
    """Return the filler between two answers, and after a trailing one, which servers would otherwise continue or
    repeat."""
    return UserMessage(parts=(TextPart(text="Go on."),))


def _message_between(previous: Message | None, message: Message) -> Message | None:
    match previous, message:
        case (UserMessage() | ToolMessage(), UserMessage()):
            return _no_answer()
        case (AssistantMessage(), AssistantMessage()):
            return _go_on()
        case _:
            return None
