"""Servers that others wrote: over both transports, in both protocols."""

import json
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from pydantic import FileUrl

from tests.mcp import real_servers
from tests.mcp.conftest import HERE, PATIENCE, call, connection, declared, until
from tests.on_use import OnUse
from tests.tiers import further
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.hooks import OfferedFeature, RefuseAllHooks

if TYPE_CHECKING:
    import mcp_types as types

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("real mcp servers")]

sdk = OnUse("mcp_types")
NEWER, OLDER = "2026-07-28", "2025-11-25"


class Everything(RefuseAllHooks):
    """Offers all that a server may ask for, and notes what it was asked."""

    def __init__(self, root: Path) -> None:
        self.asked: list[str] = []
        self._root = root

    @property
    def offers(self) -> frozenset[OfferedFeature]:
        return frozenset({"elicitation", "sampling", "roots"})

    async def elicit(self, server: str, params: "types.ElicitRequestParams") -> "types.ElicitResult | types.ErrorData":
        self.asked.append(f"{server}: {params.message}")
        return sdk.ElicitResult(action="decline")

    async def roots(self) -> "types.ListRootsResult | types.ErrorData":
        return sdk.ListRootsResult(roots=[sdk.Root(uri=FileUrl(self._root.as_uri()))])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one file."""
    folder = tmp_path_factory.mktemp("project").resolve()
    (folder / "notes.txt").write_text("buy milk\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def hooks(project: Path) -> Everything:
    return Everything(project)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(project: Path, hooks: Everything) -> AsyncIterator[ServerPool]:
    """One of each protocol over HTTP, and the older one as a program, started beside each other."""
    fast = (real_servers.python(), str(HERE / "fastmcp_server.py"), "{port}")
    everything = (real_servers.node(), real_servers.npm("everything"))
    with _on_port(*fast) as fast_web, _on_port(*everything, "streamableHttp") as everything_web:
        found = await _started(
            ServerPool(project, os.environ, hooks),
            declared("fast-web", ServerAddress(fast_web)),
            _program("everything", *everything, sampling=True),
            declared("everything-web", ServerAddress(everything_web)),
        )
        yield found
        await found.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def more_servers(project: Path) -> AsyncIterator[ServerPool]:
    """Programs for `make test-matrix`: those of Python take a second of CPU each."""
    python, node = real_servers.python(), real_servers.node()
    memory = ServerProgram((node, real_servers.npm("memory")), env={"MEMORY_FILE_PATH": str(project / "memory.json")})
    found = await _started(
        ServerPool(project, os.environ),
        _program("fast", python, str(HERE / "fastmcp_server.py")),
        _program("time", python, "-m", "mcp_server_time", "--local-timezone", "UTC"),
        _program("git", python, "-m", "mcp_server_git", "--repository", str(project)),
        _program("fetch", python, "-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"),
        _program("filesystem", node, real_servers.npm("filesystem"), str(project)),
        declared("memory", memory),
    )
    yield found
    await found.close()


async def _started(servers: ServerPool, *declarations: ToolServer) -> ServerPool:
    servers.declare(declarations)
    assert await servers.start([one.name for one in declarations]) == []
    return servers


def _program(name: str, *argv: str, sampling: bool = False) -> ToolServer:
    return declared(name, ServerProgram(argv), sampling=sampling)


@contextmanager
def _on_port(*argv: str) -> Iterator[str]:
    """Run a server that takes its port as an argument or as PORT; gives its address when it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = tuple(word.format(port=port) for word in argv)
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, env=os.environ | {"PORT": str(port)}, stdout=quiet, stderr=quiet) as process:
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        assert time.monotonic() < end, "it does not listen"
        time.sleep(0.05)


@contextmanager
def _page(folder: Path) -> Iterator[str]:
    """The files of a folder over HTTP."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *args: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def protocols(servers: ServerPool) -> dict[str, tuple[str, str | None]]:
    return {one.server.name: (one.state, one.protocol_version) for one in servers.all()}


async def test_each_server_is_ready_in_its_protocol(servers: ServerPool) -> None:
    assert protocols(servers) == {
        "fast-web": ("ready", NEWER),
        **dict.fromkeys(("everything", "everything-web"), ("ready", OLDER)),
    }


@pytest.mark.matrix
async def test_programs_of_others_are_ready_each_in_its_protocol(more_servers: ServerPool) -> None:
    assert protocols(more_servers) == {
        **dict.fromkeys(("fast", "time", "git", "fetch"), ("ready", NEWER)),
        **dict.fromkeys(("filesystem", "memory"), ("ready", OLDER)),
    }


@pytest.mark.parametrize(("fixture", "name"), [("servers", "fast-web"), further("more_servers", "fast")])
async def test_fastmcp(request: pytest.FixtureRequest, fixture: str, name: str) -> None:
    one = connection(request.getfixturevalue(fixture), name)

    assert [tool.name for tool in one.tools] == ["multiply", "nothing"]
    assert await call(one, "multiply", a=6, b=7) == "42.0"
    assert await call(one, "nothing") == ""


@pytest.mark.parametrize("name", ["everything", "everything-web"])
async def test_everything(servers: ServerPool, hooks: Everything, name: str) -> None:
    one = connection(servers, name)
    # Some are offered when it has heard what we can do; sampling is offered to the one it is declared for.
    await until(lambda: len(one.tools) == (17 if one.server.sampling else 16), "its tools did not come")
    steps: list[float] = []

    async def progress(now: float, total: float | None, message: str | None) -> None:
        steps.append(now)

    assert await call(one, "echo", message="hello") == "Echo: hello"
    assert await call(one, "get-sum", a=2, b=3) == "The sum of 2 and 3 is 5."
    environment = await call(one, "get-env")
    assert "PYTEST_CURRENT_TEST" not in environment or one.server.name == "everything-web"
    result = await one.request(
        lambda client: client.call_tool(
            "trigger-long-running-operation", {"duration": 0.2, "steps": 2}, progress_callback=progress
        ),
        timeout=PATIENCE,
    )
    assert not result.is_error
    assert steps == [1, 2]
    await call(one, "trigger-elicitation-request")
    assert [asked.partition(":")[0] for asked in hooks.asked][-1] == name
    assert "file://" in await call(one, "get-roots-list")


async def test_everything_offers_fewer_tools_to_who_answers_nothing(project: Path) -> None:
    servers = ServerPool(project, os.environ)
    servers.declare([_program("everything", real_servers.node(), real_servers.npm("everything"))])

    assert await servers.start(["everything"]) == []

    assert len(connection(servers, "everything").tools) == 13
    await servers.close()


@pytest.mark.matrix
async def test_filesystem_and_memory(more_servers: ServerPool, project: Path) -> None:
    files, memory = connection(more_servers, "filesystem"), connection(more_servers, "memory")

    assert await call(files, "read_text_file", path=str(project / "notes.txt")) == "buy milk\n"
    assert "outside allowed directories" in await call(files, "read_text_file", path="/etc/hostname")
    entity = {"name": "milk", "entityType": "food", "observations": ["white"]}
    await call(memory, "create_entities", entities=[entity])
    assert "milk" in json.loads(await call(memory, "read_graph"))["entities"][0]["name"]


@pytest.mark.matrix
async def test_time_git_and_fetch(more_servers: ServerPool, project: Path) -> None:
    now = json.loads(await call(connection(more_servers, "time"), "get_current_time", timezone="UTC"))
    assert now["timezone"] == "UTC"
    assert "notes.txt" in await call(connection(more_servers, "git"), "git_status", repo_path=str(project))
    with _page(project) as url:
        assert "buy milk" in await call(connection(more_servers, "fetch"), "fetch", url=f"{url}/notes.txt")
