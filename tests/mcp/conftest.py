"""Servers for the tests of this folder, all of them real: programs of ours over pipes, and behind an HTTP address."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from tests.kernel.fork_server import script_command
from tests.patience import patient
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.mcp.connection import ServerConnection, ServerPool
from vibe_jupyter.mcp.hooks import ServerHooks
from vibe_jupyter.tools.process_marks import VARIABLE as MARK

HERE = Path(__file__).parent
SAMPLE = HERE / "sample_server.py"
BROKEN = HERE / "broken_server.py"
TOKEN = "TEST_TOKEN"
"""A variable of a declared server by which all that it starts is known."""
PATIENCE = patient(60.0)
"""Seconds for what takes a moment, on a machine that is busy."""


class NewServers(Protocol):
    """Makes the servers of a project, which are closed when the test is over."""

    async def __call__(
        self,
        *servers: ToolServer,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        hooks: ServerHooks | None = None,
    ) -> ServerPool: ...


@pytest.fixture
async def new_servers(tmp_path: Path) -> AsyncIterator[NewServers]:
    """Declares servers; starts none."""
    made: list[ServerPool] = []

    async def new(
        *servers: ToolServer,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        hooks: ServerHooks | None = None,
    ) -> ServerPool:
        made.append(ServerPool(folder or tmp_path, os.environ if environ is None else environ, hooks))
        made[-1].declare(servers)
        return made[-1]

    yield new
    for one in made:
        await one.close()


@pytest.fixture(scope="session")
def sample_address(own_home: Path) -> Iterator[str]:
    """The well-behaved server, behind an address."""
    with served(SAMPLE, "http", "0") as url:
        yield url


@contextmanager
def served(script: Path, *arguments: object, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a script that prints its port first; gives the address of its server."""
    with ExitStack() as stack:
        process = subprocess.Popen(
            [*script_command(script), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
        )
        stack.enter_context(process)
        stack.callback(process.kill)
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"


def sample(name: str = "sample", **settings: object) -> ToolServer:
    """The well-behaved server as a program."""
    return declared(name, forked(SAMPLE), **settings)


def forked(script: Path, *arguments: str) -> ServerProgram:
    """A script as a program of which only the command is seen: its process comes by fork, as from `served`.

    Tests of the process itself, of what it is given and how it ends, start it with Python.
    """
    return ServerProgram((*script_command(script), *arguments))


def declared(name: str, at: ServerProgram | ServerAddress, **settings: object) -> ToolServer:
    """A server with time enough for a busy machine, unless a test says otherwise."""
    return ToolServer(name, at, **{"startup_timeout": PATIENCE, "tool_timeout": PATIENCE, **settings})  # type: ignore[arg-type]


async def until(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for it, a bounded time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not true():
        assert loop.time() < end, what
        await asyncio.sleep(0.02)


def children() -> list[psutil.Process]:
    """Programs that this process started for servers, with what these started."""
    return [one for one in psutil.Process().children(recursive=True) if MARK in _environment(one)]


def marked(token: str) -> list[psutil.Process]:
    """Everything that runs with this token in its environment, whoever its parent is now."""
    return [one for one in psutil.process_iter() if _environment(one).get(TOKEN) == token]


def _environment(process: psutil.Process) -> Mapping[str, str]:
    try:
        return {} if process.status() == psutil.STATUS_ZOMBIE else process.environ()
    except psutil.Error:
        return {}


async def call(connection: ServerConnection, tool: str, seconds: float = PATIENCE, **arguments: object) -> str:
    """The text a tool answers with."""
    result = await connection.request(lambda client: client.call_tool(tool, arguments), timeout=seconds)
    return "".join(part.text for part in result.content if part.type == "text")


def connection(servers: ServerPool, name: str) -> ServerConnection:
    """The one of that name."""
    found = servers.get(name)
    assert found is not None
    return found
