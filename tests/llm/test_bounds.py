"""Slow, huge and silent servers, and proxies: every bound of the client, held by real sockets."""

import asyncio
import gzip
import struct
import subprocess
import sys
import zlib

import pytest

from tests.llm.support import Waits, client, failure_of, request, retries, shown
from tests.llm.test_client import HELLO, STOP, answering, free_port, head, serving
from vibe_jupyter.llm.request import AnswerLimits, Server
from vibe_jupyter.testing import ScriptedModel, raw, status

LINES = "application/x-ndjson"
OLLAMA = {"dialect": "ollama"}
MEMORY = 200
"""MiB that a hostile stream may add to a process."""


def test_the_bounds_are_those_that_were_promised():
    bounds = AnswerLimits()
    assert (bounds.event, bounds.message, bounds.calls) == (16 * 2**20, 32 * 2**20, 128)
    assert (bounds.connect, bounds.gap, bounds.answer) == (10.0, 120.0, 600.0)


@pytest.mark.requirement("models.time.defaults")
@pytest.mark.parametrize(
    ("base", "has_tools", "waits"),
    [
        ("http://127.0.0.1:8080/v1", True, (600.0, 600.0, 300.0)),
        ("http://localhost:8080/v1", False, (600.0, 600.0, 120.0)),
        ("http://[::1]:8080/v1", False, (600.0, 600.0, 120.0)),
        ("https://models.example.org/v1", True, (600.0, 300.0, 300.0)),
        ("https://models.example.org/v1", False, (600.0, 120.0, 120.0)),
    ],
)
def test_a_server_has_longer_where_it_reads_the_prompt_here_or_holds_a_call_back(base, has_tools, waits):
    limits = AnswerLimits.of(Server("", base), has_tools=has_tools)
    assert (limits.answer, limits.first_byte, limits.gap) == waits


@pytest.mark.requirement("models.time.defaults")
async def test_the_first_byte_of_a_stream_may_take_longer_than_those_behind_it():
    """Its headers come at once, as those of llama.cpp do, which then reads the prompt."""
    asker = client()

    async def read_prompt_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head())
        await asyncio.sleep(0.3)
        writer.write(HELLO)
        await reader.read()

    async with serving(read_prompt_first) as url:
        error, items = await asyncio.wait_for(failure_of(asker, request(url, server={"idle_wait": 0.1})), 10)
        await asker.close()
    assert shown(items)[0] == "Hello"
    assert "nothing came for 0.1 s" in str(error)


@pytest.mark.requirement("models.time.names-setting")
@pytest.mark.parametrize(
    ("parts", "key"),
    [
        pytest.param((), "api_timeout", id="no answer"),
        pytest.param((head(),), "api_timeout", id="headers alone"),
        pytest.param((head(), HELLO), "api_stream_idle_timeout", id="silence within"),
        pytest.param((head("application/json"), b"{"), "api_timeout", id="a body that stalls"),
    ],
)
async def test_an_error_at_a_time_limit_names_the_setting_that_changes_it(parts, key):
    asker = client()
    async with answering(*parts, end=False) as url:
        asked = request(url, server={"begin_wait": 0.2, "idle_wait": 0.1})
        error, _ = await asyncio.wait_for(failure_of(asker, asked), 10)
        await asker.close()
    waited = 0.1 if key == "api_stream_idle_timeout" else 0.2
    assert error.kind == "limit"
    assert f"raise {key} in config.toml, now {waited} s (0 for no limit)" in str(error)


async def test_a_head_that_comes_byte_by_byte_is_given_up_in_time():
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    asker = client(limits=AnswerLimits(answer=0.3))
    async with serving(drip) as url:
        error, items = await asyncio.wait_for(failure_of(asker, request(url)), 10)
        await asker.close()
    assert (error.kind, items) == ("limit", [])


@pytest.mark.parametrize("kind", ["text/event-stream", LINES])
async def test_one_byte_at_a_time_without_an_event_is_given_up(kind):
    asker = client(limits=AnswerLimits(answer=0.3))
    server = OLLAMA if kind == LINES else {}
    with ScriptedModel([raw([b"{"] * 500, content_type=kind, delay_between=0.02)]) as model:
        error, _ = await asyncio.wait_for(failure_of(asker, request(model.url, server=server)), 10)
        await asker.close()
    assert error.kind == "limit"


async def test_a_stream_of_lines_that_stalls_is_ended_and_its_text_kept():
    asker = client(limits=AnswerLimits(gap=0.2))
    async with answering(head(LINES), b'{"message":{"content":"Hello"}}\n', end=False) as url:
        error, items = await asyncio.wait_for(failure_of(asker, request(url, server=OLLAMA)), 10)
        await asker.close()
    assert (error.kind, error.partial_text, shown(items)[0]) == ("limit", "Hello", "Hello")


async def test_blank_lines_alone_do_not_keep_an_answer_alive():
    asker = client(limits=AnswerLimits(answer=0.3))
    with ScriptedModel([raw([b"\n"] * 500, content_type=LINES, delay_between=0.02)]) as model:
        error, _ = await asyncio.wait_for(failure_of(asker, request(model.url, server=OLLAMA)), 10)
        await asker.close()
    assert error.kind == "limit"


@pytest.mark.parametrize("dialect", ["openai", "ollama"])
async def test_an_answer_that_grows_without_end_or_calls_without_end_is_ended(dialect):
    if dialect == "ollama":
        piece, called, kind = b'{"message":{"content":"aaaaaaaaaa"}}\n', b"", LINES
        called = b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{}}}]}}\n'
    else:
        kind = "text/event-stream"
        piece = b'data: {"choices":[{"delta":{"content":"aaaaaaaaaa"}}]}\n\n'
        called = b'data: {"choices":[{"delta":{"tool_calls":[{"id":"%d","function":{"name":"f"}}]}}]}\n\n'
    asker = client(limits=AnswerLimits(message=1000, calls=10))
    calls = [called % number if b"%d" in called else called for number in range(50)]
    with ScriptedModel([raw([piece] * 500, content_type=kind), raw(calls, content_type=kind)]) as model:
        for _ in range(2):
            error, _ = await failure_of(asker, request(model.url, server={"dialect": dialect}))
            assert error.kind == "limit"
        await asker.close()


HOSTILE = """
import asyncio, resource, sys
from tests.llm.support import client, failure_of, request

async def main():
    asker = client()
    await failure_of(asker, request(sys.argv[1], stream=False))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error, _ = await failure_of(asker, request(sys.argv[1]))
    await asker.close()
    print(error.kind, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main())
"""


def pieces_of(name: str) -> tuple[list[bytes], tuple[str, ...]]:
    """Writes of a hostile body, and more headers."""
    if name == "line":
        return [b"data: " + b"a" * 2**20] * 64, ()
    if name == "deltas":
        return [b'data: {"choices":[{"delta":{"content":"' + b"a" * 2**20 + b'"}}]}\n\n'] * 64, ()
    return [bomb(256)], ("Content-Encoding: gzip",)


def bomb(mebibytes: int) -> bytes:
    """So much of one letter, packed: the same piece again and again, of which each stands alone."""
    content = b"a" * 2**20
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    piece = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    check = 0
    for _ in range(mebibytes):
        check = zlib.crc32(content, check)
    head = gzip.compress(b"")[:10]
    return head + piece * mebibytes + packer.flush() + struct.pack("<LL", check, mebibytes << 20)


def test_the_bomb_is_what_it_says():
    assert gzip.decompress(bomb(2)) == b"a" * 2**21


@pytest.mark.parametrize("name", ["line", "deltas", "bomb"])
async def test_a_hostile_stream_ends_in_bounded_memory(name):
    writes, more = pieces_of(name)
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        if asked == 1:
            writer.write(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        writer.write(head("text/event-stream", *more))
        try:
            for data in writes:
                writer.write(data)
                await writer.drain()
        except OSError:
            pass

    async with serving(serve) as url:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOSTILE, url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode == 0, err.decode()
    kind, grown = out.decode().split()
    assert kind == "limit"
    assert int(grown) < MEMORY


async def test_another_machine_is_asked_through_the_proxy_and_gets_the_whole_address(monkeypatch):
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(head() + HELLO + STOP)

    async with serving(proxy) as url:
        for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "http_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/v1"))
        asker = client()
        items = [item async for item in asker.answer(request("http://model.invalid/v1"))]
        await asker.close()
    assert shown(items)[0] == "Hello"
    assert asked[0].startswith(b"POST http://model.invalid/v1/chat/completions HTTP/1.1\r\n")


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nonsense://x", "http://127.0.0.1:{port}"])
async def test_a_proxy_that_cannot_be_used_is_told(monkeypatch, proxy):
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", proxy.format(port=free_port()))
    asker = client()
    error, _ = await failure_of(asker, request("http://model.invalid/v1"))
    await asker.close()
    assert error.kind == "connection"
    assert "model.invalid" in str(error)


async def test_a_proxy_that_refuses_is_named_without_its_password_and_is_not_where_it_is_not_asked(monkeypatch):
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    port = free_port()
    monkeypatch.setenv("HTTP_PROXY", f"http://me:hunter22@127.0.0.1:{port}/")
    asker = client()
    refused, _ = await failure_of(asker, request("http://model.invalid/v1"))
    await asker.close()
    assert f"through the proxy 127.0.0.1:{port}." in str(refused)
    assert "hunter22" not in str(refused)
    monkeypatch.setenv("NO_PROXY", "model.invalid")
    direct = client()
    lost, _ = await failure_of(direct, request("http://model.invalid/v1"))
    await direct.close()
    assert "proxy" not in str(lost)


async def test_a_long_wait_names_its_end_and_a_short_one_its_seconds():
    asker = client(waits=Waits())
    with ScriptedModel([status(429, headers={"retry-after": "40"}), status(503), "fine"]) as model:
        items = [item async for item in asker.answer(request(model.url))]
        await asker.close()
    long, short = (retry.sentence for retry in retries(items))
    assert ", in 40 s: the server is busy (429)." in long
    assert long.startswith("Retrying at ")
    assert short == "Retrying in 1.0 s: the server is busy (503)."
