"""Requests that are sent on as they are."""

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from starlette.types import Message

from tests.patience import patient
from vibe_jupyter.errors import ModelError
from vibe_jupyter.gateway.chat_request import ChatRequest
from vibe_jupyter.gateway.chat_writer import ChatWriter
from vibe_jupyter.gateway.forwarding import HEADER, SLICE, Forwarder
from vibe_jupyter.gateway.relay import RelayingClient, RelayTerms, pass_through
from vibe_jupyter.gateway.rounds import Rounds
from vibe_jupyter.gateway.wire import AnswerWire
from vibe_jupyter.gateway.writer import WriterTerms
from vibe_jupyter.llm.request import AnswerLimits, Model, Server
from vibe_jupyter.testing import ScriptedModel

TLS = Path(__file__).parents[1] / "llm" / "tls"
PATIENCE = patient(20.0)
"""Seconds for what takes a moment."""
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
BEGUN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def model_at(url: str) -> Model:
    return Model(Server("test", url), "scripted", "alias")


def open_connections(url: str) -> set[int]:
    """Our ports of those to a server."""
    found = psutil.Process().net_connections("tcp")
    port = urlsplit(url).port
    return {one.laddr.port for one in found if one.status == "ESTABLISHED" and one.raddr and one.raddr.port == port}


class Peer:
    """A server that says one thing, and what it was asked."""

    def __init__(self, answer: bytes, *, ends: bool) -> None:
        self.url = ""
        self.head = b""
        self.body = b""
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self._answer = answer
        self._ends = ends
        self._served: list[tuple[asyncio.StreamWriter, asyncio.Task[None] | None]] = []

    async def close(self) -> None:
        """End all connections."""
        for writer, _ in self._served:
            writer.transport.abort()
        await asyncio.gather(*(task for _, task in self._served if task is not None), return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._served.append((writer, asyncio.current_task()))
        self.head = await reader.readuntil(b"\r\n\r\n")
        lines = self.head.lower().split(b"\r\n")
        length = next((line for line in lines if line.startswith(b"content-length:")), b"content-length: 0")
        self.body = await reader.readexactly(int(length.partition(b":")[2]))
        self.asked.set()
        writer.write(self._answer)
        if not self._ends:
            await reader.read()
            self.left.set()
        writer.close()


@asynccontextmanager
async def peer(
    answer: bytes = ANSWER, *, ends: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Peer]:
    made = Peer(answer, ends=ends)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if tls else "http"
    made.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        async with asyncio.timeout(PATIENCE):
            yield made
    finally:
        server.close()
        await made.close()


async def test_an_answer_that_has_said_all_leaves_its_connection_to_the_next_request() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}], "stream": True}).encode()
    forwarder, used = Forwarder(user_agent="test"), set[int]()
    with ScriptedModel(strict=False) as server:
        server.will_reply("one", "two", "three")
        for _ in range(3):
            answer = await forwarder.post(model_at(server.url), body)
            assert answer.status == 200
            while piece := await answer.read():
                if b"[DONE]" in piece:
                    forwarder.let_end(answer)
                    break
            answer.close()  # before anything else runs
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
            used |= open_connections(server.url)
        assert len(used) == len(open_connections(server.url)) == 1
        await forwarder.close()


async def test_a_body_of_many_slices_arrives_as_it_is() -> None:
    forwarder = Forwarder(user_agent="test")
    body = bytes(range(256)) * (5 * SLICE // 256) + b"end"
    async with peer() as server:
        answer = await forwarder.post(model_at(server.url), body)

        assert (await answer.whole(10), server.body == body) == (b"{}", True)
        assert b"transfer-encoding" not in server.head.lower()
        await forwarder.close()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(
    ("variable", "scheme"), [("http_proxy", "http://"), ("ALL_PROXY", "http://"), ("HTTP_PROXY", "")]
)
async def test_a_proxy_is_asked_for_other_machines_and_not_for_this_one(
    monkeypatch: pytest.MonkeyPatch, variable: str, scheme: str
) -> None:
    async with peer() as proxy, peer() as server:
        monkeypatch.setenv(variable, scheme + urlsplit(proxy.url).netloc)
        monkeypatch.setenv("NO_PROXY", "direct.invalid")
        forwarder = Forwarder(user_agent="test")

        far = await forwarder.post(model_at("http://models.invalid/v1"), b"{}")
        near = await forwarder.post(model_at(server.url), b"{}")

        assert (far.status, near.status) == (200, 200)
        assert proxy.head.startswith(b"POST http://models.invalid/v1/chat/completions HTTP/1.1\r\n")
        assert server.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
        with pytest.raises(ModelError, match="host not found"):
            await forwarder.post(model_at("http://direct.invalid/v1"), b"{}")
        await forwarder.close()


@pytest.mark.usefixtures("no_proxies")
async def test_a_proxy_gets_no_more_than_the_name_of_a_server_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
    async with peer(refusal) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@{urlsplit(proxy.url).netloc}")
        forwarder = Forwarder(user_agent="test")

        with pytest.raises(ModelError, match="the proxy answered 407") as refused:
            await forwarder.post(model_at("https://models.invalid/v1"), b"{}")

        assert proxy.head.startswith(b"CONNECT models.invalid:443 HTTP/1.1\r\n")
        assert b"Proxy-Authorization: Basic " in proxy.head
        assert "secret" not in str(refused.value)
        await forwarder.close()


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("ALL_PROXY", "socks5://me:secret@{}", "ALL_PROXY names a SOCKS proxy, which the gateway cannot use"),
        ("HTTP_PROXY", "socks5h://me:secret@{}", "HTTP_PROXY names a SOCKS proxy, which the gateway cannot use"),
        ("ALL_PROXY", "secret://{}", "ALL_PROXY names no HTTP proxy"),
        ("HTTP_PROXY", "http://me:secret@[{}", "HTTP_PROXY names no HTTP proxy"),
        ("HTTP_PROXY", "http://me:secret@ü..x", "cannot be read"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_named_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    async with peer() as proxy:
        monkeypatch.setenv(variable, value.format(urlsplit(proxy.url).netloc))
        forwarder = Forwarder(user_agent="test")

        with pytest.raises(ModelError, match=said) as refused:
            await forwarder.post(model_at("http://models.invalid/v1"), b"{}")

        assert "Set HTTP_PROXY to an HTTP proxy that can be reached, or put models.invalid into NO_PROXY." in str(
            refused.value
        )
        assert "secret" not in str(refused.value)
        assert proxy.head == b""
        await forwarder.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * (HEADER + 1) + b"\r\n\r\n", "more than"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 2000 + b"\r\n", "many headers"),
        (b"no HTTP\r\n\r\n", "No answer from test"),
    ],
    ids=["long", "many", "none"],
)
async def test_an_answer_whose_headers_are_none_is_an_error(answer: bytes, said: str) -> None:
    forwarder = Forwarder(user_agent="test")
    async with peer(answer) as server:
        with pytest.raises(ModelError, match=said):
            await forwarder.post(model_at(server.url), b"{}")
        await forwarder.close()


async def test_a_certificate_is_trusted_where_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    async with peer(tls=context, ends=True) as server:
        stranger = Forwarder(user_agent="test")
        with pytest.raises(ModelError, match="its certificate is not trusted"):
            await stranger.post(model_at(server.url), b"{}")
        await stranger.close()

        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
        forwarder = Forwarder(user_agent="test")
        answer = await forwarder.post(model_at(server.url), b"{}")

        assert await answer.whole(10) == b"{}"
        await forwarder.close()


async def test_an_answer_that_breaks_off_says_that_the_connection_broke() -> None:
    forwarder = Forwarder(user_agent="test")
    async with peer(ANSWER.replace(b"length: 2", b"length: 3"), ends=True) as server:
        answer = await forwarder.post(model_at(server.url), b"{}")
        with pytest.raises(ModelError, match="the connection broke"):
            await answer.whole(10)
        answer.close()
        await forwarder.close()


async def test_a_stream_that_is_passed_on_and_breaks_off_says_so_and_ends() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    event = b'data: {"choices": []}\n\n'
    forwarder, writer = Forwarder(user_agent="test"), ChatWriter(WriterTerms())
    async with peer(BEGUN + b"%x\r\n%s\r\n" % (len(event), event), ends=True) as server:
        await pass_through(forwarder, model_at(server.url), b"{}", writer, AnswerWire(send))
        await forwarder.close()

    said, error, end, _ = b"".join(one["body"] for one in sent if "body" in one).split(b"\n\n")
    assert (said + b"\n\n", end, sent[-1]["more_body"]) == (event, b"data: [DONE]", False)
    assert json.loads(error.removeprefix(b"data: "))["error"]["type"] == "upstream_error"


async def test_a_silent_model_server_is_a_limit_and_none_at_all_a_missing_connection() -> None:
    forwarder = Forwarder(user_agent="test", limits=AnswerLimits(answer=0.2))
    async with peer(b"") as server:
        with pytest.raises(ModelError) as silent:
            await forwarder.post(model_at(server.url), b"{}")
    with pytest.raises(ModelError, match="connection refused") as gone:
        await forwarder.post(model_at(server.url), b"{}")

    assert (silent.value.kind, gone.value.kind) == ("limit", "connection")
    await forwarder.close()


@pytest.mark.requirement("models.time.settings")
@pytest.mark.parametrize(
    ("answer", "key"),
    [(b"", "api_timeout"), (BEGUN, "api_timeout"), (BEGUN + b"1\r\nx\r\n", "api_stream_idle_timeout")],
)
async def test_the_time_limits_of_the_settings_hold_for_what_is_sent_on(answer: bytes, key: str) -> None:
    forwarder = Forwarder(user_agent="test")
    async with peer(answer) as server:
        model = model_at(server.url)
        model = model._replace(server=model.server._replace(begin_wait=0.3, idle_wait=0.2))

        async def ask() -> None:
            with contextlib.closing(await forwarder.post(model, b"{}")) as begun:
                await begun.whole(1000)

        with pytest.raises(ModelError, match=f"raise {key} in config.toml, now 0.[23] s") as late:
            await asyncio.wait_for(ask(), 10)
    assert late.value.kind == "limit"
    await forwarder.close()


@pytest.mark.parametrize("answer", [b"", BEGUN], ids=["waiting", "begun"])
async def test_what_was_asked_ahead_is_left_where_the_run_does_not_ask(answer: bytes) -> None:
    forwarder = Forwarder(user_agent="test")
    async with peer(answer) as server:
        request = ChatRequest.parse(b'{"messages": [{"role": "user", "content": "hello"}]}')
        terms = RelayTerms(request, model_at(server.url), request.body["messages"])  # type: ignore[arg-type]
        client = RelayingClient(terms, forwarder, Rounds(lambda _name: False), outlet=None)  # type: ignore[arg-type]
        client.ask_ahead(())
        await server.asked.wait()

        await client.leave()

        await server.left.wait()
        await forwarder.close()
