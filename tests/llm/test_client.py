"""Retries, refusals, keys, interruptions: the client against servers that misbehave."""

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from tests.llm.support import Waits, ask, client, failure_of, message_of, request, retries, shown
from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.request import AnswerLimits, Model, ModelRequestTerms, Server
from vibe_jupyter.protocol import TextDelta, TextPart, UserMessage
from vibe_jupyter.testing import ScriptedModel, hold, raw, say, status

TLS = Path(__file__).with_name("tls")
KEY = "sk-test-1234567890"
HELLO = b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server of raw bytes; at the end all its connections are closed."""
    open_connections: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        open_connections.add(task)
        try:
            await serve(reader, writer)
        finally:
            writer.close()
            with suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if tls else "http"
    try:
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        if open_connections:
            await asyncio.wait(open_connections, timeout=10)
        await server.wait_closed()


@asynccontextmanager
async def answering(*sent: bytes, end: bool = True, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that says the same bytes to everyone, and then ends or says nothing more."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for data in sent:
            writer.write(data)
            await writer.drain()
        if not end:
            await over.wait()

    async with serving(serve, tls) as url:
        try:
            yield url
        finally:
            over.set()


def head(content_type: str = "text/event-stream", *more: str) -> bytes:
    """The head of a response that ends with its connection."""
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {content_type}", "Connection: close", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def free_port() -> int:
    """A port of this machine where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.requirement("wire.errors.retry")
@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
async def test_a_status_that_may_pass_is_asked_again_with_growing_waits(code):
    waits = Waits()
    asker = client(waits=waits)
    with ScriptedModel([status(code), status(code), "fine"]) as model:
        items = await ask(asker, request(model.url))
        await asker.close()
    assert [retry.seconds for retry in retries(items)] == waits.seconds == [0.5, 1.0]
    assert all(str(code) in retry.reason for retry in retries(items))
    assert shown(items)[0] == "fine"


@pytest.mark.requirement("wire.errors.retry")
@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
async def test_a_status_that_stays_is_not_asked_again(code):
    asker = client()
    with ScriptedModel([status(code)]) as model:
        error, items = await failure_of(asker, request(model.url))
        await asker.close()
    assert (len(model.requests), items, error.status) == (1, [], code)


@pytest.mark.requirement("wire.errors.retry")
async def test_after_two_more_attempts_the_error_is_told():
    asker = client()
    with ScriptedModel([status(503, "<html><h1>503 Service Unavailable</h1></html>")] * 5) as model:
        error, items = await failure_of(asker, request(model.url))
        await asker.close()
    assert len(model.requests) == 3
    assert len(retries(items)) == 2
    assert (error.kind, error.status, error.provider_message) == ("http", 503, "503 Service Unavailable")
    assert "even after 2 more attempts" in str(error)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": "1m3.5s"}, 63.5),
        ({"retry-after": "soon"}, 0.5),
        ({"retry-after": "-3"}, 0.5),
        ({"retry-after": "0"}, 0.5),
        ({"retry-after": "nan"}, 0.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.5),
    ],
)
@pytest.mark.requirement("wire.errors.retry")
async def test_a_wait_the_server_asks_for_is_kept_and_nonsense_is_not(headers, wait):
    waits = Waits()
    asker = client(waits=waits)
    with ScriptedModel([status(429, headers=headers), "fine"]) as model:
        await ask(asker, request(model.url))
        await asker.close()
    assert waits.seconds == [wait]


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        ({"message": "Quota exceeded.", "details": [{"retryDelay": "34s"}]}, 34.0),
        ({"message": "Rate limit reached. Please try again in 1m0.5s. Visit our page."}, 60.5),
        ({"message": "Please try again in a moment."}, 0.5),
    ],
)
@pytest.mark.requirement("wire.errors.retry")
async def test_a_wait_that_a_busy_server_names_in_its_body_is_kept(error, wait):
    waits = Waits()
    asker = client(waits=waits)
    with ScriptedModel([status(429, {"error": error}), "fine"]) as model:
        await ask(asker, request(model.url))
        await asker.close()
    assert waits.seconds == [wait]


async def test_a_date_the_server_asks_to_wait_for_is_kept():
    waits = Waits()
    asker = client(waits=waits)
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    with ScriptedModel([status(503, headers={"retry-after": date}), "fine"]) as model:
        await ask(asker, request(model.url))
        await asker.close()
    assert 55 < waits.seconds[0] <= 60


async def test_a_wait_that_is_too_long_is_told_instead():
    waits = Waits()
    asker = client(waits=waits)
    with ScriptedModel([status(429, headers={"retry-after": "3600"})]) as model:
        error, _ = await failure_of(asker, request(model.url))
        await asker.close()
    assert (error.kind, waits.seconds) == ("rate_limit", [])
    assert "60 min" in str(error)


async def test_the_word_of_the_server_on_retrying_wins():
    asker = client()
    with ScriptedModel([status(500, headers={"x-should-retry": "false"})]) as model:
        await failure_of(asker, request(model.url))
        assert len(model.requests) == 1
        model.will_reply(status(400, headers={"x-should-retry": "true"}), "fine")
        assert (await message_of(asker, request(model.url))).text == "fine"
        await asker.close()


@pytest.mark.requirement("wire.errors.retry")
async def test_a_server_that_is_not_there_is_tried_again_and_then_named():
    port = free_port()
    asker = client()
    error, items = await failure_of(asker, request(f"http://localhost:{port}/v1"))
    await asker.close()
    assert [retry.reason for retry in retries(items)] == ["no connection (connection refused)"] * 2
    assert error.kind == "connection"
    assert f"localhost:{port}" in str(error)
    assert "Is the server running?" in str(error)


async def test_a_server_that_hangs_up_before_it_answers_is_tried_again():
    dropped: list[int] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        dropped.append(1)

    asker = client()
    async with serving(hang_up) as url:
        error, items = await failure_of(asker, request(url))
        await asker.close()
    assert (error.kind, len(retries(items)), len(dropped)) == ("connection", 2, 3)


@pytest.mark.parametrize("sent", [[], [HELLO]])
async def test_an_answer_that_began_is_never_asked_again_by_the_client(sent):
    asker = client()
    with ScriptedModel([raw(sent, end="reset"), "again"]) as model:
        error, items = await failure_of(asker, request(model.url))
        await asker.close()
    assert (error.kind, error.partial_text) == ("truncated", "Hello" if sent else "")
    assert (len(model.requests), retries(items)) == (1, [])


async def test_a_complete_answer_survives_a_connection_that_breaks_after_it():
    asker = client()
    with ScriptedModel([raw([HELLO, STOP], end="reset")]) as model:
        assert (await message_of(asker, request(model.url))).text == "Hello"
        await asker.close()


async def test_a_complete_answer_does_not_wait_for_a_server_that_forgets_to_end():
    asker = client(limits=AnswerLimits(tail=0.1, gap=60))
    async with answering(head(), HELLO + STOP, end=False) as url:
        assert (await asyncio.wait_for(message_of(asker, request(url)), 10)).text == "Hello"
        await asker.close()


async def test_a_complete_answer_does_not_wait_for_keep_alive_signs_to_end():
    asker = client(limits=AnswerLimits(tail=0.2))
    with ScriptedModel([raw([HELLO, STOP, *[b": ping\n\n"] * 10_000], delay_between=0.02)]) as model:
        assert (await asyncio.wait_for(message_of(asker, request(model.url)), 10)).text == "Hello"
        await asker.close()


async def test_closing_the_client_in_the_middle_of_an_answer_ends_it_with_a_model_error():
    asker = client()
    with ScriptedModel([hold(threading.Event(), "One moment")]) as model:
        items = asker.answer(request(model.url))
        assert isinstance(await anext(items), TextDelta)
        assert isinstance(await anext(items), TextDelta)
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await asker.close()
        with pytest.raises(ModelError):
            await asyncio.wait_for(waiting, 10)


async def test_a_stream_that_stalls_is_ended_and_its_text_kept():
    asker = client(limits=AnswerLimits(gap=0.2))
    async with answering(head(), HELLO, end=False) as url:
        error, items = await asyncio.wait_for(failure_of(asker, request(url)), 10)
        await asker.close()
    assert (error.kind, error.partial_text, shown(items)[0]) == ("limit", "Hello", "Hello")


async def test_a_server_that_never_answers_is_given_up_without_a_retry():
    asker = client(limits=AnswerLimits(answer=0.2))
    async with answering(end=False) as url:
        error, items = await asyncio.wait_for(failure_of(asker, request(url)), 10)
        await asker.close()
    assert (error.kind, items) == ("limit", [])


async def test_keep_alive_comments_alone_do_not_keep_an_answer_alive():
    asker = client(limits=AnswerLimits(answer=0.3))
    with ScriptedModel([raw([b": ping\n\n"] * 200, delay_between=0.02)]) as model:
        error, _ = await asyncio.wait_for(failure_of(asker, request(model.url)), 10)
        await asker.close()
    assert error.kind == "limit"
    assert "keep-alive" in str(error)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_endless_event_or_body_is_ended(stream):
    asker = client(limits=AnswerLimits(event=1000, message=1000))
    kind = "text/event-stream" if stream else "application/json"
    with ScriptedModel([raw([b"a" * 100] * 100, content_type=kind)]) as model:
        error, _ = await failure_of(asker, request(model.url, stream=stream))
        await asker.close()
    assert error.kind == "limit"


async def test_a_body_packed_in_a_way_that_may_unfold_without_bound_is_refused():
    asker = client()
    async with answering(head("application/json", "Content-Encoding: br"), b"x") as url:
        error, _ = await failure_of(asker, request(url))
        await asker.close()
    assert error.kind == "not_sse"


async def test_interrupting_an_answer_closes_its_connection():
    release = threading.Event()
    asker = client()
    with ScriptedModel([hold(release, "One moment"), "next"]) as model:
        came = asyncio.Event()

        async def listen() -> None:
            async for item in asker.answer(request(model.url)):
                if isinstance(item, TextDelta):
                    came.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(came.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(model.requests[0].gone.wait, 10)
        assert (await message_of(asker, request(model.url))).text == "next"
        await asker.close()


async def test_a_body_that_is_not_read_is_not_left_open():
    asker = client()
    with ScriptedModel([raw([b"a"] * 10_000, content_type="text/html", delay_between=0.02)]) as model:
        error, _ = await failure_of(asker, request(model.url))
        assert error.kind == "not_sse"
        assert await asyncio.to_thread(model.requests[0].gone.wait, 10)
        await asker.close()


async def test_closing_the_iterator_closes_its_connection():
    asker = client()
    with ScriptedModel([hold(threading.Event(), "One moment")]) as model:
        async with aclosing(asker.answer(request(model.url))) as items:
            assert isinstance(await anext(items), TextDelta)
        assert await asyncio.to_thread(model.requests[0].gone.wait, 10)
        await asker.close()


async def test_an_interrupt_ends_a_wait_between_attempts():
    waiting = asyncio.Event()

    async def wait_for_ever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    asker = client(waits=wait_for_ever)
    with ScriptedModel([status(503)]) as model:
        task = asyncio.create_task(ask(asker, request(model.url)))
        await asyncio.wait_for(waiting.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asker.close()


async def test_one_connection_serves_the_turns_of_a_conversation():
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while await reader.readline():
            headers = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(headers.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
            body = HELLO + STOP + b"data: [DONE]\n\n"
            start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(start + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

    asker = client()
    async with serving(serve) as url:
        for _ in range(3):
            assert (await message_of(asker, request(url))).text == "Hello"
        await asker.close()
    assert connections == [1]


def test_a_client_may_be_used_on_another_loop_later():
    asker = client()
    with ScriptedModel(["one", "two"]) as model:
        for text in ("one", "two"):

            async def turn() -> str:
                said = (await message_of(asker, request(model.url))).text
                await asker.close()
                return said

            assert asyncio.run(turn()) == text
    gc.collect()


@pytest.mark.requirement("openai.transport.https")
async def test_a_key_is_not_sent_over_plain_http_to_another_machine():
    asker = client()
    error, items = await failure_of(asker, request("http://model.example/v1", key=KEY))
    assert (error.kind, items) == ("auth", [])
    assert "plain http" in str(error)
    assert KEY not in str(error)


@pytest.mark.parametrize("host", ["127.0.0.1.example.com", "localhost.example.com", "notlocalhost"])
async def test_a_host_that_only_looks_like_this_machine_gets_no_key(host):
    asker = client()
    error, _ = await failure_of(asker, request(f"http://{host}/v1", key=KEY))
    assert error.kind == "auth"


@pytest.mark.parametrize("key", [KEY + "\n", "sk test", "schlüssel", "a\r\nX-Other: b"])
async def test_a_key_no_header_can_carry_is_said_without_showing_it(key):
    asker = client()
    error, _ = await failure_of(asker, request("https://model.example/v1", key=key))
    assert error.kind == "auth"
    assert key not in str(error)


@pytest.mark.parametrize(
    "base", ["", "model.example/v1", "ftp://model.example", "http://", "http://[::1", "http://a:99999/v1"]
)
async def test_an_address_that_is_none_is_said(base):
    asker = client()
    error, _ = await failure_of(asker, request(base))
    assert error.kind == "connection"
    assert "api_base of provider 'test'" in str(error)


@pytest.mark.parametrize("code", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed_and_gets_no_key(code):
    asker = client()
    with ScriptedModel(["stolen"]) as thief, ScriptedModel([]) as model:
        model.will_reply(status(code, "", {"location": f"{thief.url}/chat/completions"}))
        error, _ = await failure_of(asker, request(model.url, key=KEY))
        assert (thief.requests, error.status) == ([], code)
        assert thief.url in str(error)
        await asker.close()


async def test_a_key_the_server_repeats_is_shown_nowhere():
    asker = client()
    body = {"error": {"message": f"Key {KEY} is wrong, header was Bearer {KEY}" + "x" * 1000}}
    stream = f'data: {{"error": "no such key {KEY}"}}\n\n'.encode()
    with ScriptedModel(
        [status(401, body), raw([stream]), status(307, "", {"location": f"http://x/?k={KEY}"})]
    ) as model:
        errors = [(await failure_of(asker, request(model.url, key=KEY)))[0] for _ in range(3)]
        await asker.close()
    for error in errors:
        chain = [error, error.__cause__, error.__context__ if not error.__suppress_context__ else None]
        assert KEY not in "".join(f"{e} {e.__dict__}" for e in chain if e)
        assert len(error.provider_message) <= 400
    assert "[redacted]" in errors[0].provider_message


@pytest.mark.requirement("openai.transport.https")
async def test_an_authority_of_ones_own_is_trusted_beside_the_public_ones(monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    async with answering(head(), HELLO + STOP, tls=context) as url:
        asker = client()
        error, items = await failure_of(asker, request(url, key=KEY))
        assert (error.kind, retries(items)) == ("connection", [])
        assert "SSL_CERT_FILE" in str(error)
        await asker.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
        asker = client()
        assert (await message_of(asker, request(url, key=KEY))).text == "Hello"
        await asker.close()


async def test_this_machine_is_never_asked_through_a_proxy(monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    asker = client()
    with ScriptedModel([say("direct")]) as model:
        assert (await message_of(asker, request(model.url, key=KEY))).text == "direct"
        await asker.close()


async def test_an_address_given_without_a_provider_is_called_by_its_host():
    asker = client()
    with ScriptedModel([status(401)]) as model:
        server = Server(name="", api_base=model.url)
        hello = (UserMessage(parts=(TextPart(text="hello"),)),)
        error, _ = await failure_of(
            asker, ModelRequestTerms(model=Model(server=server, name="m", alias="m"), messages=hello)
        )
        assert str(error).startswith(server.host)
        assert "[[providers]] with api_key_env_var" in str(error)
        await asker.close()
