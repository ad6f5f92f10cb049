"""Calls to a well-behaved server, over both transports."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.mcp.conftest import call, connection, declared, sample, until
from tests.patience import patient
from vibe_jupyter.config.tool_servers import ServerAddress
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.connection import ServerConnection, ServerPool

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = patient(2.0)
"""Seconds within which an interrupted call must return."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["pipes", "http"])
async def one(
    request: pytest.FixtureRequest, sample_address: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServerConnection]:
    """One server for all tests of a transport."""
    servers = ServerPool(tmp_path_factory.mktemp("project"), {"PATH": "/usr/bin:/bin"})
    servers.declare([sample() if request.param == "pipes" else declared("sample", ServerAddress(sample_address))])
    assert await servers.start(["sample"]) == []
    yield connection(servers, "sample")
    await servers.close()


async def test_a_server_lists_its_tools_and_says_what_it_is(one: ServerConnection) -> None:
    assert one.state == "ready"
    assert one.protocol_version == "2026-07-28"
    assert one.instructions == "Adds and echoes."
    add = next(tool for tool in one.tools if tool.name == "add")
    assert add.description == "Add two numbers."
    assert add.input_schema["required"] == ["a", "b"]
    assert add.output_schema is not None
    assert await call(one, "add", a=1, b=2) == "3"


async def test_calls_run_beside_each_other(one: ServerConnection) -> None:
    waiting = asyncio.create_task(call(one, "wait", period=3600))
    try:
        said = await asyncio.gather(*(call(one, "echo", text=str(number)) for number in range(20)))
        assert said == [str(number) for number in range(20)]
        assert not waiting.done()
    finally:
        waiting.cancel()
        await asyncio.wait({waiting})


async def test_an_interrupted_call_returns_at_once_and_is_cancelled_on_the_server(
    one: ServerConnection, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    waiting = asyncio.create_task(call(one, "wait", period=3600, mark=str(mark)))
    await until(lambda: mark.exists() and mark.read_text() == "began", "the call did not arrive")

    began = time.monotonic()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert time.monotonic() - began < PROMPT
    await until(lambda: mark.read_text() == "cancelled", "the server was not told")
    assert await call(one, "echo", text="still here") == "still here"


async def test_a_call_that_takes_too_long_is_cancelled_on_the_server(one: ServerConnection, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    with pytest.raises(ServerError, match="did not answer within 1 s") as failure:
        await call(one, "wait", seconds=1.0, period=3600, mark=str(mark))

    assert "`%vibe mcp restart sample`" in str(failure.value)
    await until(lambda: not mark.exists() or mark.read_text() == "cancelled", "the server was not told")
    assert await call(one, "echo", text="still here") == "still here"


async def test_a_tool_that_fails_has_a_result_and_a_request_that_is_refused_an_error(one: ServerConnection) -> None:
    result = await one.request(lambda client: client.call_tool("fail", {}), timeout=30)
    assert result.is_error

    with pytest.raises(ServerError) as failure:
        await one.request(lambda client: client.read_resource("nothing://here"), timeout=30)

    assert "answered with an error" in failure.value.sentence
    assert str(failure.value) == failure.value.sentence
    assert one.state == "ready"


async def test_what_cannot_be_sent_fails_its_call_alone(one: ServerConnection) -> None:
    with pytest.raises(ServerError):
        await call(one, "echo", text="\ud800")

    assert await call(one, "echo", text="ü 🎉") == "ü 🎉"


async def test_tools_that_came_are_listed_anew(one: ServerConnection) -> None:
    told = 0

    def count() -> None:
        nonlocal told
        told += 1

    one.on_change = count
    await call(one, "grow", name="grown")

    await until(lambda: "grown" in [tool.name for tool in one.tools], "the list is old")
    assert told == 1
    assert await call(one, "grown") == "grown"


class Kept(logging.Handler):
    """What a user sees who logs everything."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def seen() -> Iterator[Kept]:
    """The user's root logger lets everything through."""
    root, kept = logging.getLogger(), Kept()
    level = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(kept)
    yield kept
    root.removeHandler(kept)
    root.setLevel(level)


async def test_what_the_sdk_logs_of_a_server_is_not_logged_for_the_person(one: ServerConnection, seen: Kept) -> None:
    with pytest.raises(ServerError):
        await one.request(lambda client: client.read_resource("nothing://here"), timeout=30)
    await call(one, "echo", text="x")
    logging.getLogger("mcp.client").warning("of the user's own use")

    names = {"mcp", "client", "httpx2", "httpcore2"}
    theirs = [record.getMessage() for record in seen.records if record.name.partition(".")[0] in names]
    assert theirs == ["of the user's own use"]
