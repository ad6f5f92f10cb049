"""Remote servers: encrypted or on this machine, nothing sent elsewhere, nothing fetched from where they point."""

import asyncio
import gzip
import json
import os
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest

from tests.mcp.conftest import NewServers, connection, declared
from vibe_jupyter.config.tool_servers import ServerAddress, ToolServer
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.declared import is_loopback, problem_with, public_address
from vibe_jupyter.mcp.hooks import RefuseAllHooks, ServerPause

KEY = "Bearer the-persons-key"
TLS = Path(__file__).parents[1] / "llm" / "tls"


class Answering:
    """An HTTP server that always gives the same answer, and keeps what it was sent."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.url = ""
        self.seen: list[Mapping[str, str]] = []
        self._answer = status, headers, body

    @contextmanager
    def running(self) -> Iterator["Answering"]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                outer.seen.append(dict(self.headers))
                status, headers, body = outer._answer
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                return None

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            self.url = f"http://127.0.0.1:{server.server_port}/mcp"
            yield self
            server.shutdown()


def answering(status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answering:
    return Answering(status, headers or {}, body)


async def start_in_vain(new_servers: NewServers, url: str, hooks: RefuseAllHooks | None = None) -> str:
    """The words of a server that cannot be started."""
    servers = await new_servers(declared("remote", ServerAddress(url, headers={"Authorization": KEY})), hooks=hooks)
    with pytest.raises(ServerError) as failure:
        await connection(servers, "remote").start()
    assert KEY not in str(failure.value)
    assert "TaskGroup" not in str(failure.value)
    return str(failure.value)


@pytest.mark.parametrize("url", ["http://192.0.2.1/mcp", "http://localhost.example.com/mcp", "http://10.0.0.1:8000/"])
async def test_a_server_on_another_machine_is_spoken_to_over_https_only(new_servers: NewServers, url: str) -> None:
    assert "is at an http: address on another machine" in await start_in_vain(new_servers, url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com/", "https://", "nonsense", "https://a:b:c/"])
def test_what_is_no_web_address_is_said(url: str) -> None:
    assert url in problem_with(url)


@pytest.mark.parametrize("url", ["http://localhost:1/", "http://127.8.9.1/", "http://[::1]:5/mcp", "https://a.example"])
def test_this_machine_and_https_are_fine(url: str) -> None:
    assert problem_with(url) == ""
    assert is_loopback(url) == (not url.startswith("https"))


async def test_a_redirect_elsewhere_is_not_followed_and_takes_no_key_along(new_servers: NewServers) -> None:
    with answering(200).running() as elsewhere, answering(307, {"location": elsewhere.url}).running() as first:
        words = await start_in_vain(new_servers, first.url)

        assert elsewhere.url in words
        assert elsewhere.seen == []
        assert first.seen[0]["Authorization"] == KEY


async def test_an_answer_that_is_packed_is_not_unpacked(new_servers: NewServers) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    with answering(200, headers, bomb).running() as server:
        assert "it sent a compressed answer" in await start_in_vain(new_servers, server.url)
        assert server.seen[0]["Accept-Encoding"] == "identity"


async def test_a_key_that_a_server_sends_back_is_struck_out(new_servers: NewServers) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": f"I do not know {KEY}"}}
    body = json.dumps(error).encode()
    with answering(400, {"content-type": "application/json"}, body).running() as server:
        words = await start_in_vain(new_servers, server.url)

    assert "I do not know [redacted: Authorization]" in words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "HTTP 401 Unauthorized; its key is missing or wrong"),
        (403, "HTTP 403 Forbidden; its key is missing or wrong"),
        (404, "HTTP 404 Not Found"),
        (503, "HTTP 503 Service Unavailable"),
        (202, "202 Accepted"),
        (200, "Unexpected content type"),
    ],
)
async def test_an_answer_that_says_no_is_told_with_its_number(new_servers: NewServers, status: int, words: str) -> None:
    with answering(status, {"content-type": "text/html"}, b"<h1>secret page</h1>").running() as server:
        said = await start_in_vain(new_servers, server.url)

    assert words in said
    assert "secret page" not in said


class SignsIn(httpx2.Auth):
    """Goes where a server sends who is to sign in, as OAuth's discovery does."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        named = response.headers.get("www-authenticate", "").partition('resource_metadata="')[2].rstrip('"')
        if named:
            yield httpx2.Request("GET", named)


class Signing(RefuseAllHooks):
    """Signs in to every server."""

    def auth(self, server: ToolServer, pause: ServerPause) -> httpx2.Auth:
        return SignsIn()


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254 is contacted over https only"),
        ("https://169.254.169.254/latest/meta-data", "169.254.169.254, which is not a public address"),
        ("https://10.0.0.1/", "10.0.0.1, which is not a public address"),
        ("https://[fe80::1]/", "fe80::1, which is not a public address"),
        ("https://[::ffff:10.0.0.1]/", "which is not a public address"),
        ("https://[64:ff9b::a9fe:a9fe]/", "which is not a public address"),
        ("https://[2002:7f00:1::]/", "which is not a public address"),
        ("https://0.0.0.0/", "0.0.0.0, which is not a public address"),
        ("http://192.0.2.1/", "192.0.2.1 is contacted over https only"),
    ],
)
async def test_a_private_address_that_a_server_names_is_never_asked(
    new_servers: NewServers, named: str, words: str
) -> None:
    told = {"www-authenticate": f'Bearer resource_metadata="{named}"'}
    with answering(401, told).running() as server:
        assert words in await start_in_vain(new_servers, server.url, hooks=Signing())


async def test_a_name_that_leads_to_this_machine_is_no_public_address() -> None:
    with pytest.raises(OSError, match="not a public address"):
        await public_address("localhost", 443)


async def test_a_server_of_this_machine_may_name_another_one_of_it(new_servers: NewServers) -> None:
    with answering(200, {"content-type": "application/json"}, b"{}").running() as authority:
        told = {"www-authenticate": f'Bearer resource_metadata="{authority.url}"'}
        with answering(401, told).running() as server:
            await start_in_vain(new_servers, server.url, hooks=Signing())

        assert len(authority.seen) > 0
        assert "Authorization" not in authority.seen[0]


async def test_a_certificate_that_nobody_vouches_for_is_said_to_be_not_trusted(new_servers: NewServers) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        assert "its certificate is not trusted: self-signed" in await start_in_vain(
            new_servers, f"https://localhost:{port}/mcp"
        )


async def test_a_proxy_is_not_asked_for_this_machine(
    new_servers: NewServers, monkeypatch: pytest.MonkeyPatch, sample_address: str
) -> None:
    with answering(500).running() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        servers = await new_servers(declared("sample", ServerAddress(sample_address)), environ=os.environ)

        assert await servers.start(["sample"]) == []
        assert proxy.seen == []
