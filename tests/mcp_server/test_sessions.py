"""Clients come and go without a farewell, and programs open connections and say nothing; others must get through."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tests.mcp_server.outsider import Outsider, over_http, text
from tests.mcp_server.test_guard import WAIT, Echo, listening, post, status
from tests.on_use import OnUse
from tests.patience import patient
from vibe_jupyter.mcp_server.connections import HEADER_WAIT

if TYPE_CHECKING:
    from vibe_jupyter.mcp_server.http import HttpServer

http_server = OnUse("vibe_jupyter.mcp_server.http")


STARTS = 40
HALF_OPEN = 140


@pytest.fixture
def server() -> "Iterator[HttpServer]":
    with listening(Echo()) as server:
        yield server


def open_session(server: "HttpServer") -> tuple[int, str | None]:
    """Introduce a client, as one does that ends without ending its session; status and id of the session."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "one", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}
    answer = post(server, json.dumps(hello).encode())
    return answer.status, answer.getheader("mcp-session-id")


def test_a_client_that_starts_forty_times_without_a_farewell_is_let_in_each_time(server: "HttpServer") -> None:
    assert STARTS > http_server.MAX_SESSIONS
    answers = [open_session(server) for _ in range(STARTS)]
    assert {status for status, _ in answers} == {200}
    oldest, newest = answers[0][1], answers[-1][1]
    assert status(server, mcp_session_id=oldest) == 404
    assert status(server, mcp_session_id=newest) == 200


def test_the_sdks_client_is_let_in_each_time_and_never_ends_its_session(server: "HttpServer") -> None:
    for _ in range(http_server.MAX_SESSIONS):
        open_session(server)
    for _ in range(3):
        outsider = Outsider(over_http(server.url, server.token, mode="legacy", ends_session=False))
        assert text(outsider.call("echo", word="hi")) == 'tester: {"word": "hi"}'
        outsider.close()


def test_a_session_whose_client_is_there_outlives_all_idle_ones(server: "HttpServer") -> None:
    there = Outsider(over_http(server.url, server.token, mode="legacy"))  # listens to a stream of its own
    try:
        assert text(there.call("echo", word="hi"))
        for _ in range(2 * http_server.MAX_SESSIONS):
            assert open_session(server)[0] == 200
        assert text(there.call("echo", word="still")) == 'tester: {"word": "still"}'
    finally:
        there.close()


def test_a_session_that_was_just_used_is_not_the_one_that_ends(server: "HttpServer") -> None:
    first, second = open_session(server)[1], open_session(server)[1]
    for _ in range(http_server.MAX_SESSIONS - 2):
        open_session(server)
    assert status(server, mcp_session_id=first) == 200
    open_session(server)
    assert status(server, mcp_session_id=first) == 200
    assert status(server, mcp_session_id=second) == 404


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: "])
def test_half_open_connections_keep_nobody_out(server: "HttpServer", said: bytes) -> None:
    assert HALF_OPEN > http_server.MAX_CONNECTIONS
    with ExitStack() as stack:
        for _ in range(HALF_OPEN):
            half_open = stack.enter_context(closing(connected(server)))
            half_open.sendall(said)
        assert status(server) in (200, 400)
        outsider = Outsider(over_http(server.url, server.token))
        assert text(outsider.call("echo", word="hi")) == 'tester: {"word": "hi"}'
        outsider.close()


def test_headers_that_never_end_are_cut_off(server: "HttpServer") -> None:
    began = time.monotonic()
    with closing(connected(server)) as half_open:
        half_open.sendall(b"POST /mcp HTTP/1.1\r\n")
        half_open.settimeout(WAIT)
        assert half_open.recv(1) == b""
    assert HEADER_WAIT - 1 < time.monotonic() - began < HEADER_WAIT + patient(10)


def test_a_second_request_on_a_connection_has_the_same_time_for_its_headers(server: "HttpServer") -> None:
    asyncio.run(_second_request(server))


async def _second_request(server: "HttpServer") -> None:
    host, _, port = server.place.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET /mcp HTTP/1.1\r\nhost: {server.place}\r\nauthorization: Bearer {server.token}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"POST /mcp HTTP/1.1\r\n")
    async with asyncio.timeout(HEADER_WAIT + 10):
        while await reader.read(4096):
            pass
    writer.close()


def connected(server: "HttpServer") -> socket.socket:
    host, _, port = server.place.partition(":")
    return socket.create_connection((host, int(port)), timeout=WAIT)
