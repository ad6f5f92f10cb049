"""Where a request ends: what a proxy could read otherwise than the server is refused, and the connection closed."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.gateway.conftest import PATIENCE, TOKEN, chat_body, gateway_at, settings_text
from tests.gateway.framing_cases import ACCEPTED, REFUSED, Framing
from tests.gateway.worker_processes import serving
from tests.mcp_server.test_guard import ACCEPT, Echo, listening
from tests.tiers import further
from vibe_jupyter.testing import ScriptedModel

pytestmark = [pytest.mark.requirement("gateway.framing.one-reading"), pytest.mark.attack("ambiguous requests")]
ALWAYS = {
    "length and coding",
    "two equal lengths",
    "a folded coding",
    "a URL of another host",
    "a chunk that ends with LF",
}
"""One of each place where a request is refused: the others are further values."""
_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "one", "version": "1"}}
HELLO = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _CLIENT})


class Server(NamedTuple):
    """A server that listens, and a request that it answers with 200."""

    host: str
    path: str
    token: str
    body: str

    def fill(self, text: str) -> str:
        """Put what belongs to this server into a text."""
        values = {**self._asdict(), "length": str(len(self.body)), "chunk": f"{len(self.body):x}"}
        return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], text)

    def request(self, one: Framing) -> bytes:
        """Return the request of a case."""
        usual = f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\nAccept: {ACCEPT}\r\n"
        return self.fill(one.line + one.host + usual + one.fields + "\r\n" + one.body).encode("utf-8")


def chat_server(url: str) -> Server:
    return Server(urlsplit(url).netloc, "/v1/chat/completions", TOKEN, json.dumps(chat_body("hello")))


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(lambda _request: "hello") as model:
        yield model


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, own_home: Path, model: ScriptedModel) -> Iterator[Server]:
    with gateway_at(tmp_path_factory.mktemp("framed"), model) as gateway:
        yield chat_server(gateway.server.url)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[Server]:
    settings = settings_text(model).partition("[[mcp_servers]]")[0]
    with serving(tmp_path_factory.mktemp("framed-workers"), settings) as workers:
        yield chat_server(workers.url)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Server]:
    with listening(Echo()) as server:
        yield Server(server.place, "/mcp", server.token, HELLO)


@pytest.fixture(params=["gateway", "notebook", further("workers")])
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


SECOND = Framing("the second", "Content-Length: {length}\r\nConnection: close\r\n")
CASES = [*REFUSED, *ACCEPTED]


@pytest.mark.parametrize(
    "one", [(pytest.param if one.name in ALWAYS or one in ACCEPTED[:4] else further)(one, id=one.name) for one in CASES]
)
def test_a_request_that_has_two_readings_is_refused_and_nothing_behind_it_is_answered(
    server: Server, one: Framing
) -> None:
    host, port = server.host.split(":")
    with closing(socket.create_connection((host, int(port)), timeout=PATIENCE)) as connection:
        connection.sendall(server.request(one) + server.request(SECOND))
        received = read_to_end(connection)
    assert [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)] == list(one.answers), received


@pytest.mark.parametrize("piece", [1, further(7)])
def test_a_request_that_comes_in_pieces_is_held_to_the_same(server: Server, piece: int) -> None:
    host, port = server.host.split(":")
    whole = server.request(REFUSED[0])
    with closing(socket.create_connection((host, int(port)), timeout=PATIENCE)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(whole.partition(b"\r\n\r\n")[0]) + 4, piece):
            connection.sendall(whole[start : start + piece])
        received = read_to_end(connection)
    assert b"both Content-Length and Transfer-Encoding. Send one of them." in received
    assert received.count(b"HTTP/1.1 ") == 1


def read_to_end(connection: socket.socket) -> bytes:
    """Return all that the server sends until it closes the connection."""
    received = b""
    try:
        while piece := connection.recv(65_536):
            received += piece
    except ConnectionResetError:  # it closed before it had read all
        pass
    return received
