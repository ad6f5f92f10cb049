"""A server that sends without end costs neither memory nor the other servers."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.conftest import BROKEN, PATIENCE
from tests.tiers import further

ROOT = Path(__file__).parents[2]
GROWTH = 48 * 1024
"""KiB that a kernel may grow while servers send gigabytes: some copies of the longest message."""

MEASURED = """
import asyncio, importlib, os, resource, sys
from pathlib import Path
from vibe_jupyter.errors import ServerError
from vibe_jupyter.config.tool_servers import ServerProgram, ToolServer
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.pending_responses import MESSAGE_LIMIT

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

async def main():
    servers = ServerPool(Path.cwd(), os.environ)
    modes = ("fine", "endless line", "huge answer", "hangs at call", "floods stdout")  # the last one keeps us busy
    programs = {mode: ServerProgram((sys.executable, sys.argv[1], mode)) for mode in modes}
    servers.declare([ToolServer(mode, program, startup_timeout=60) for mode, program in programs.items()])
    assert await servers.start(modes) == []
    fine = servers.get("fine")
    await fine.request(lambda client: client.call_tool("echo", {}), timeout=60)
    before = peak()
    for mode in modes[1:]:
        one = servers.get(mode)
        try:
            await one.request(lambda client: client.call_tool("echo", {}), timeout=1)
        except ServerError as problem:
            print(problem.sentence, file=sys.stderr)
        await fine.request(lambda client: client.call_tool("echo", {}), timeout=60)
        for _ in range(10 if mode == "hangs at call" else 0):  # who does not read is sent no more than a bound
            try:
                await one.request(lambda client: client.call_tool("echo", {"text": "x" * 2**20}), timeout=0.01)
            except ServerError:
                pass
    print(MESSAGE_LIMIT)
    print(peak() - before)
    await servers.close()

importlib.import_module(sys.argv[2]).run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", further("uvloop")])  # the gateway runs on uvloop
def test_what_never_ends_is_not_kept(tmp_path: Path, loop: str) -> None:
    pytest.importorskip(loop)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, BROKEN, loop],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=2 * PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("larger than 4 MiB") == 2
    limit, grown = map(int, done.stdout.split())
    assert grown < GROWTH
    assert limit == 4 * 2**20
