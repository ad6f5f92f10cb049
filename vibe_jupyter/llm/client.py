"""One request to a model server: sent, sent again where that helps, and read as it comes in.

It and `connections` alone import httpx, and only when the first request goes out: until then nobody should wait for it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, cast

from vibe_jupyter.llm import failures
from vibe_jupyter.llm.agentic import Piece
from vibe_jupyter.llm.answer import allowed, without_calls
from vibe_jupyter.llm.body import BodyEncoder
from vibe_jupyter.llm.connections import Connections, load
from vibe_jupyter.llm.dialect import Dialect, Terms
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.endpoint import Endpoint
from vibe_jupyter.llm.failures import Broken, Refusal
from vibe_jupyter.llm.fetch import READ_GAP, WHOLE, Fetched, Wanted, taken
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.network import is_final, reason_of
from vibe_jupyter.llm.reader import Reader, is_stream, reader_for
from vibe_jupyter.llm.request import Model, Request, RetryScheduled
from vibe_jupyter.llm.retry import RetryPolicy, Setback, asked_wait, retried
from vibe_jupyter.protocol import AssistantMessage

if TYPE_CHECKING:
    import httpx

Item = Piece | RetryScheduled | AssistantMessage

_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Others may unfold one read into gigabytes."""


class LLMClient:
    """Asks model servers. Keeps its connections and the bytes of the conversation from one request to the next."""

    def __init__(
        self,
        *,
        user_agent: str,
        affinity: str = "",
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._headers = {"User-Agent": user_agent, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        if affinity:
            self._headers["x-affinity"] = affinity
        self._retry = retry or RetryPolicy()
        self._limits = limits or Limits()
        self._sleep = sleep
        self._bodies = {name: BodyEncoder(dialect) for name, dialect in DIALECTS.items()}
        self._affinity = affinity
        self._refused: dict[Endpoint, frozenset[str]] = {}
        """Optional fields that a model at an address refused once."""
        self._connections = Connections()

    async def answer(self, request: Request) -> AsyncGenerator[Item, None]:
        """Deltas as they arrive, and last exactly one complete message. Closing the iterator closes the connection.

        Nothing is asked again once an answer began: what to do with half an answer is the caller's to say.

        Raises:
            ModelError: with the text received until then.
        """
        dialect = DIALECTS[request.model.server.dialect]
        endpoint = Endpoint.of(request.model, dialect.path, base_ends=dialect.base_ends)
        attempt = 0
        while isinstance(response := await self._send(request, dialect, endpoint), Setback):
            pause = self._retry.pause(response, attempt)
            attempt += 1
            yield RetryScheduled(pause, response.reason)
            await self._sleep(pause)
        decoder = dialect.decoder(request.model, self._limits)
        may_call = request.tool_choice != "none"
        try:
            _check_encoding(response)
            kind = response.headers.get("content-type", "")
            reader = reader_for(kind, decoder, self._limits, streamed=request.stream)
            async with aclosing(self._chunks(response, reader)) as chunks:
                async for chunk in chunks:
                    for delta in allowed(reader.feed(chunk), calls=may_call):
                        yield delta
            for delta in allowed(reader.end(), calls=may_call):
                yield delta
            message = reader.message() if may_call else without_calls(reader.message())
        except Broken as failure:
            # Not chained: the cause may hold the key, where a server repeats it.
            raise failures.broken(endpoint, failure, decoder.text) from None
        finally:
            await response.aclose()
        yield message

    async def fetch(self, model: Model, wanted: Wanted) -> Fetched:
        """A small request beside the conversation: its answer, whatever its status.

        Raises:
            ModelError: no answer came, or more than was wanted.
        """
        load()
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
                return await taken(await client.send(ask, stream=True), endpoint, wanted.most)
        except (httpx.HTTPError, TimeoutError) as problem:
            raise failures.unreachable(endpoint, reason_of(problem)) from None

    async def close(self) -> None:
        """Close all connections. The client may be used again."""
        await self._connections.close()

    async def _send(self, request: Request, dialect: Dialect, endpoint: Endpoint) -> "httpx.Response | Setback":
        """One attempt, up to the headers of an answer. A refusal of our options is not counted as one."""
        load()
        import httpx  # noqa: PLC0415

        refused = self._refused.get(endpoint, frozenset())
        try:
            async with asyncio.timeout(self._limits.answer):
                response = await self._post(request, endpoint, Terms(refused, self._affinity))
        except (httpx.ReadTimeout, TimeoutError):
            waited = f"nothing for {self._limits.answer:.0f} s"
            return Setback("timed out", partial(failures.unreachable, endpoint, waited, kind="limit"), again=False)
        except (httpx.TransportError, httpx.InvalidURL) as problem:
            reason = reason_of(problem)
            again = isinstance(problem, httpx.TransportError) and not is_final(problem)
            return Setback(f"no connection ({reason})", partial(failures.unreachable, endpoint, reason), again=again)
        if response.status_code < 300:
            return response
        refusal = await self._refusal(response)
        if more := dialect.refused_fields(refusal.status, refusal.body) - refused:
            self._refused[endpoint] = refused | more
            return await self._send(request, dialect, endpoint)
        return Setback(
            failures.retry_reason(refusal.status),
            partial(failures.refused, endpoint, refusal),
            again=not failures.is_overflow(refusal) and retried(refusal.status, response.headers),
            asked=asked_wait(response.headers),
        )

    async def _post(self, request: Request, endpoint: Endpoint, terms: Terms) -> "httpx.Response":
        limits = self._limits
        accept = "text/event-stream, application/x-ndjson, application/json" if request.stream else "application/json"
        headers = {**endpoint.headers, **self._headers, "Accept": accept}
        if endpoint.key is not None:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        timeouts = {"connect": limits.connect, "read": limits.answer, "write": limits.gap, "pool": limits.connect}
        client = self._connections.client(endpoint)
        body = self._bodies[request.model.server.dialect].encode(request, terms)
        post = client.build_request(
            "POST", endpoint.url, content=body, headers=headers, extensions={"timeout": timeouts}
        )
        response = await client.send(post, stream=True)
        if is_stream(response.headers.get("content-type", "")):
            # Read again by the transport when the body begins; a test holds it to that.
            timeouts["read"] = limits.gap
        return response

    async def _refusal(self, response: "httpx.Response") -> Refusal:
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
        except (TimeoutError, httpx.HTTPError, Broken):
            pass
        finally:
            await response.aclose()
        body = bytes(said[: self._limits.error_body]).decode("utf-8", "replace")
        return Refusal(response.status_code, body, response.headers.get("location", ""))

    async def _chunks(self, response: "httpx.Response", reader: Reader) -> AsyncGenerator[bytes, None]:
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
                raise Broken("limit", f"nothing came for {self._limits.gap:.0f} s") from problem
            raise Broken("truncated", reason_of(problem)) from problem


def _check_encoding(response: "httpx.Response") -> None:
    encoding = response.headers.get("content-encoding", "").lower()
    if encoding not in _ENCODINGS:
        raise Broken("not_sse", f"content encoding {encoding}")
