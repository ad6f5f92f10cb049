"""Broken servers hurt nobody: no wait beyond its time-out, other servers usable, nothing left behind."""

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.mcp.conftest import BROKEN, NewServers, call, children, connection, declared, forked, served, until
from tests.patience import patient
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.connection import ServerPool

SHORT = 1.0
"""Seconds a call is given that will not be answered."""
SLACK = patient(5.0)
"""Seconds that a busy machine may add to a limit."""


@pytest.fixture
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ToolServer]:
    """The server in the mode and over the transport that a test names, and where it counts its starts."""
    mode, transport = request.param
    starts = {"STARTS": str(tmp_path / "starts")}
    place = served(BROKEN, mode, "http", env=starts) if transport == "http" else nullcontext("")
    with place as url:
        at = ServerAddress(url) if url else ServerProgram((sys.executable, str(BROKEN), mode), env=starts)
        hangs_early = mode in ("hangs at start", "hangs at list")
        yield declared("broken", at, startup_timeout=2.0 if hangs_early else 60.0, tool_timeout=SHORT)


def cases(*, pipes: list[str], http: list[str]) -> pytest.MarkDecorator:
    """One test for each mode over each transport."""
    named = [(mode, "pipes") for mode in pipes] + [(mode, "http") for mode in http]
    return pytest.mark.parametrize("broken", [pytest.param(one, id=", ".join(one)) for one in named], indirect=True)


def each(*modes: str) -> pytest.MarkDecorator:
    """Each mode over both transports."""
    return cases(pipes=[*modes], http=[*modes])


async def both(new_servers: NewServers, broken: ToolServer) -> tuple[ServerPool, list[str]]:
    """The broken server and a good one, started together."""
    servers = await new_servers(broken, declared("good", forked(BROKEN, "fine")))
    problems = await servers.start(["broken", "good"])
    assert await call(connection(servers, "good"), "echo", text="here") == "here"
    return servers, problems


async def gone(servers: ServerPool) -> None:
    """Nothing that was started for a server runs any more."""
    await servers.close()
    await until(lambda: not children(), "a server outlived its connection")


def assert_words(text: str) -> None:
    """Of a user, for a user."""
    assert "The MCP server broken (" in text
    assert "`%vibe mcp log broken`" in text
    for word in ("TaskGroup", "ExceptionGroup", "unhandled", "McpError", "None"):
        assert word not in text


@each("dies at start", "dies at list", "hangs at start", "hangs at list")
async def test_a_server_that_fails_to_start_is_told_once_and_holds_nobody_up(
    new_servers: NewServers, broken: ToolServer
) -> None:
    began = time.monotonic()
    servers, problems = await both(new_servers, broken)

    assert len(problems) == 1
    assert_words(problems[0])
    assert connection(servers, "broken").state == "failed"
    if broken.startup_timeout < SLACK:
        assert "did not list its tools within 2 s" in problems[0]
        assert "`startup_timeout_sec` in its entry gives it more time" in problems[0]
        assert time.monotonic() - began < broken.startup_timeout + 2 * SLACK
    elif isinstance(broken.at, ServerProgram):
        assert "ended while it started: exit code 3" in problems[0]
        assert "no luck at" in problems[0]
    began = time.monotonic()
    assert await servers.start(["broken", "good"]) == []
    assert time.monotonic() - began < SLACK
    await gone(servers)


@each("dies at call", "hangs at call", "floods stdout", "10 MiB without newline", "late answer", "huge answer")
async def test_a_call_that_cannot_be_answered_ends_in_its_time_with_words(
    new_servers: NewServers, broken: ToolServer
) -> None:
    await _call_in_vain(new_servers, broken)


@cases(pipes=["wrong id"], http=["garbage lines", "stream cut", "json cut", "session always lost"])
async def test_an_answer_that_is_none_is_an_error(new_servers: NewServers, broken: ToolServer) -> None:
    await _call_in_vain(new_servers, broken)


@cases(
    pipes=["duplicate answer", "list_changed storm", "logs on stdout", "garbage lines"],
    # An answer on a request's own stream answers it, whatever id it bears.
    http=[
        *("duplicate answer", "list_changed storm", "wrong id", "session lost"),
        *("session lost as an example says it", "session lost as if unauthorized"),
    ],
)
async def test_noise_around_an_answer_does_no_harm(new_servers: NewServers, broken: ToolServer) -> None:
    servers, problems = await both(new_servers, broken)
    assert problems == []
    one = connection(servers, "broken")

    answers = [await call(one, "echo", text=f"number {number}") for number in range(3)]

    assert answers == ["number 0", "number 1", "number 2"]
    await gone(servers)


@cases(pipes=["40 MiB without newline"], http=[])
async def test_a_program_that_writes_no_end_of_noise_is_ended(new_servers: NewServers, broken: ToolServer) -> None:
    servers, _ = await both(new_servers, broken)
    one = connection(servers, "broken")
    with pytest.raises(ServerError):
        await call(one, "late", seconds=SHORT, text="x")
    await until(lambda: "it wrote more than 16 MiB that are not a response" in one.error, "its end")
    assert one.state == "failed"
    await gone(servers)


async def _call_in_vain(new_servers: NewServers, broken: ToolServer) -> None:
    servers, problems = await both(new_servers, broken)
    assert problems == []
    one = connection(servers, "broken")

    began = time.monotonic()
    with pytest.raises(ServerError) as failure:
        await call(one, "late", seconds=SHORT, text="x")

    assert time.monotonic() - began < SHORT + SLACK
    assert "TaskGroup" not in str(failure.value)
    assert failure.value.server == "broken"
    assert await call(connection(servers, "good"), "echo", text="still here") == "still here"
    await gone(servers)
