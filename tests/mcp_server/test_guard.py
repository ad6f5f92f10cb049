"""Who may speak to the server: the same refusals for a page, a neighbour and a mistake."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.mcp_server.outsider import Outsider, over_http, text
from tests.on_use import OnUse
from tests.patience import patient
from vibe_jupyter.protocol import TextPart, ToolMessage, ToolSpec

if TYPE_CHECKING:
    from vibe_jupyter.mcp_server.http import HttpServer

http_server = OnUse("vibe_jupyter.mcp_server.http")
tools_server = OnUse("vibe_jupyter.mcp_server.server")

WAIT = patient(20.0)
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
ACCEPT = "application/json, text/event-stream"


class Echo:
    """Answers each call with its arguments."""

    def __init__(self) -> None:
        self.called = 0

    def specs(self) -> Sequence[ToolSpec]:
        return [ToolSpec(name="echo", description="Says it again.", parameters={"type": "object", "properties": {}})]

    async def call(
        self, name: str, arguments: str, *, caller: str, tell: Callable[[str], None], instance: str = ""
    ) -> ToolMessage:
        self.called += 1
        return ToolMessage(call_id="1", name=name, parts=(TextPart(text=f"{caller}: {arguments}"),))


@contextmanager
def listening(calls: Echo) -> "Iterator[HttpServer]":
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = http_server.HttpServer()
    asyncio.run_coroutine_threadsafe(server.start(tools_server.mcp_server(calls, version="1")), loop).result(WAIT)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(WAIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT)
        loop.close()


@pytest.fixture(scope="module")
def calls() -> Echo:
    return Echo()


@pytest.fixture(scope="module")
def server(calls: Echo) -> "Iterator[HttpServer]":
    with listening(calls) as server:
        yield server


def post(server: "HttpServer", body: bytes = PING, **changed: str | None) -> http.client.HTTPResponse:
    """The answer to a request that is right but for what was changed."""
    return _asked(server, "POST", "/mcp", body, changed)


def status(
    server: "HttpServer", *, method: str = "POST", path: str = "/mcp", body: bytes = PING, **changed: str | None
) -> int:
    """Of the answer to a request that is right but for what was changed; None leaves a header out."""
    return _asked(server, method, path, body, changed).status


def _asked(
    server: "HttpServer", method: str, path: str, body: bytes, changed: dict[str, str | None]
) -> http.client.HTTPResponse:
    headers: dict[str, str | None] = {
        "host": server.place,
        "authorization": f"Bearer {server.token}",
        "content-type": "application/json",
        "accept": ACCEPT,
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    connection = http.client.HTTPConnection(server.place, timeout=WAIT)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders()
        with suppress(OSError):  # it may be refused before it was all sent
            connection.send(body)
        return connection.getresponse()
    finally:
        connection.close()


def test_a_client_with_the_token_is_let_in(server: "HttpServer") -> None:
    outsider = Outsider(over_http(server.url, server.token))
    try:
        assert text(outsider.call("echo", word="hi")) == 'tester: {"word": "hi"}'
    finally:
        outsider.close()


def test_the_token_has_256_bits_and_is_another_each_time() -> None:
    servers = [http_server.HttpServer() for _ in range(3)]
    for server in servers:
        asyncio.run(server.close())
    assert {len(bytes.fromhex(server.token)) for server in servers} == {32}
    assert len({server.token for server in servers}) == 3


@pytest.mark.attack("gateway", always=True)
def test_only_this_machine_can_connect(server: "HttpServer") -> None:
    port = int(server.place.rpartition(":")[2])
    others = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1", "127.0.1.1"}:
        with socket.socket() as client:
            client.settimeout(WAIT)
            assert client.connect_ex((address, port)) != 0
    assert server.place.startswith("127.0.0.1:")


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize("path", ["/mcp", "/", "/health", "/sse", "/messages"])
def test_no_route_is_open_without_the_token(server: "HttpServer", method: str, path: str) -> None:
    assert status(server, method=method, path=path, authorization=None) == 401


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize(
    "wrong",
    [
        lambda token: f"Bearer {token[:-1]}",
        lambda token: f"Bearer {token}0",
        lambda token: f"Bearer {token[:-1]}é",
        lambda token: f"Basic {token}",
        lambda token: "Bearer ",
        lambda token: "",
        lambda token: token,
    ],
)
def test_a_wrong_token_is_none(server: "HttpServer", wrong: Callable[[str], str]) -> None:
    assert status(server, authorization=wrong(server.token)) == 401


@pytest.mark.attack("gateway", always=True)
def test_a_token_in_the_address_is_none(server: "HttpServer") -> None:
    assert status(server, path=f"/mcp?token={server.token}", authorization=None) == 401


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", None])
def test_another_host_is_a_page_that_was_rebound(server: "HttpServer", host: str | None) -> None:
    port = server.place.rpartition(":")[2]
    refused = status(server, host=None if host is None else host.format(port=port))
    assert refused in (400, 403) if host is None else refused == 403


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:8888", "http://127.0.0.1"])
def test_a_page_is_refused_even_with_the_token(server: "HttpServer", origin: str) -> None:
    assert status(server, origin=origin) == 403


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_what_a_form_can_send_is_refused(server: "HttpServer", kind: str | None) -> None:
    assert status(server, content_type=kind) == 415


@pytest.mark.attack("gateway", always=True)
def test_a_body_has_its_bound(server: "HttpServer") -> None:
    assert status(server, body=b" " * (http_server.MAX_BODY + 1)) == 413


def test_elsewhere_there_is_nothing(server: "HttpServer") -> None:
    assert status(server, path="/other") == 404


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"jsonrpc": "2.0"}', b"[" * 9_000],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_message_is_a_plain_error(server: "HttpServer", body: bytes) -> None:
    assert status(server, body=body) in (400, 404, 406)


def test_nothing_that_was_refused_reached_a_tool(server: "HttpServer", calls: Echo) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}
    before = calls.called
    body = json.dumps(call).encode()
    assert status(server, body=body, authorization=None) == 401
    assert status(server, body=body, origin="https://evil.example") == 403
    assert status(server, body=body, content_type="text/plain") == 415
    assert calls.called == before
