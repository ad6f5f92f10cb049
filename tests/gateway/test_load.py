"""Many clients of one gateway in a process of its own, and a model server that says what it could send.

Nothing of it is counted: that is switched off.
"""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from tests.gateway.conftest import PATIENCE, TOKEN, chat_body, model_settings, until
from tests.gateway.worker_processes import serving

pytestmark = pytest.mark.xdist_group("gateway load")

STREAMS: Final = 200
MEMORY: Final = 1024 * 1024
"""Bytes that one of them may take."""
HELD: Final = 32 * 1024 * 1024
"""Bytes of an answer that nobody reads, at most: four buffers of the system, and a read."""
ENDLESS: Final = 4 * 1024 * 1024 * 1024
"""Bytes of an answer that must not be taken whole."""
PIECE: Final = "x" * 16_000
STUCK: Final = 1.0
"""Seconds after which a model server that cannot send is held up."""
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_WORK: Final = """
[gateway]
tools = ["read_file"]
"""
_MODES: Final = pytest.mark.parametrize("mode", ["execute", "off"], ids=["tools offered", "as it is"])


class Upstream:
    """A model server on a thread. A question names the answer: ``short``, ``held`` until `go_on`, or ``endless``."""

    def __init__(self) -> None:
        self.open = 0
        """Answers under way."""
        self.sent = 0
        """Bytes of the endless one that the system has taken."""
        self.go_on = threading.Event()
        self._waits_since: float | None = None
        self._port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def is_stuck(self) -> bool:
        """Whether nobody takes more of the endless answer."""
        since = self._waits_since
        return since is not None and time.monotonic() - since > STUCK

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE)

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=STREAMS)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked = json.loads(await reader.readexactly(length))["messages"][0]["content"]
            writer.write(_HEAD + _chunk("Begun."))
            if asked == "held":
                gone = asyncio.ensure_future(reader.read())
                while not self.go_on.is_set() and not gone.done():
                    await asyncio.sleep(0.01)
            while asked == "endless" and self.sent < ENDLESS:
                await self._send_piece(writer)
            writer.write(_chunk(" Done.") + _chunk("", finish="stop") + b"data: [DONE]\n\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _send_piece(self, writer: asyncio.StreamWriter) -> None:
        writer.write(_chunk(PIECE))
        self._waits_since = time.monotonic()
        try:
            await writer.drain()
        finally:
            self._waits_since = None
        self.sent += len(PIECE)


def _chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: %s\n\n" % json.dumps({"id": "1", "model": "m", "choices": [choice]}).encode()


class Served:
    """A gateway that runs, and what its process holds."""

    def __init__(self, port: int, process: psutil.Process, upstream: Upstream) -> None:
        self.port = port
        self.upstream = upstream
        self._process = process

    def memory(self) -> int:
        return self._process.memory_info().rss

    def descriptors(self) -> int:
        return self._process.num_fds()

    def request(self, content: str, mode: str) -> bytes:
        """As it goes over the wire."""
        body = json.dumps(chat_body(content, stream=True, mcp_mode=mode)).encode()
        return (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nx-api-key: {TOKEN}\r\n"
            f"connection: close\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body

    @asynccontextmanager
    async def asked(self, content: str, mode: str) -> AsyncIterator[asyncio.StreamReader]:
        """An answer that has begun; the client leaves with the block."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(self.request(content, mode))
            async with asyncio.timeout(PATIENCE):
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"Begun.")
            yield reader
        finally:
            writer.close()

    async def whole(self, content: str, mode: str) -> bool:
        """Whether an answer comes whole."""
        async with self.asked(content, mode) as reader, asyncio.timeout(PATIENCE):
            return b"[DONE]" in await reader.read()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, own_home: Path) -> Iterator[Served]:
    upstream = Upstream()
    upstream.start()
    folder = tmp_path_factory.mktemp("load")
    try:
        with serving(folder, model_settings(upstream.url) + _WORK, "--disable-metrics", count=1) as one:
            yield Served(int(one.url.rpartition(":")[2]), one.process, upstream)
    finally:
        upstream.stop()


@contextmanager
def slow_client(served: Served, mode: str) -> Iterator[None]:
    """One that asks for an endless answer and reads nothing."""
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(served.request("endless", mode))
        yield


@pytest.mark.requirement("gateway.api.metrics.disabled")
def test_metrics_are_unavailable_while_switched_off(served: Served) -> None:
    found = httpx.get(f"http://127.0.0.1:{served.port}/metrics", headers={"x-api-key": TOKEN}, timeout=PATIENCE)
    assert found.status_code == 503


@_MODES
async def test_a_slow_client_holds_up_its_own_model_server_and_nobody_else(served: Served, mode: str) -> None:
    upstream = served.upstream
    upstream.sent = 0
    with slow_client(served, mode):
        await asyncio.to_thread(until, lambda: upstream.is_stuck)
        assert all(await asyncio.gather(*(served.whole("short", mode) for _ in range(20))))
        await asyncio.to_thread(until, lambda: upstream.is_stuck)
        assert upstream.sent < HELD
    await asyncio.to_thread(until, lambda: upstream.open == 0)


@_MODES
async def test_two_hundred_streams_stand_beside_each_other_in_bounded_memory(served: Served, mode: str) -> None:
    upstream = served.upstream
    assert all(await asyncio.gather(*(served.whole("short", mode) for _ in range(20))))
    await asyncio.to_thread(until, lambda: upstream.open == 0)
    memory, descriptors = served.memory(), served.descriptors()
    upstream.go_on.clear()
    begun, leave = asyncio.Semaphore(0), asyncio.Event()

    async def stay(number: int) -> Any:
        async with served.asked("held", mode) as reader:
            begun.release()
            if number % 2:  # every second one leaves
                await leave.wait()
                return None
            async with asyncio.timeout(2 * PATIENCE):
                return await reader.read()

    answers = asyncio.gather(*(stay(number) for number in range(STREAMS)))
    async with asyncio.timeout(PATIENCE):
        for _ in range(STREAMS):
            await begun.acquire()
    assert upstream.open == STREAMS
    assert served.memory() - memory < STREAMS * MEMORY

    leave.set()
    await asyncio.to_thread(until, lambda: upstream.open == STREAMS // 2)
    upstream.go_on.set()
    whole = [one for one in await answers if one is not None]
    assert len(whole) == STREAMS // 2
    assert all(b"Done." in one and b"[DONE]" in one for one in whole)
    await asyncio.to_thread(until, lambda: upstream.open == 0 and served.descriptors() <= descriptors)
