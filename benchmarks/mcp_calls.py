"""What a call of an MCP tool costs through our connection, beside the SDK's own client, over pipes and over HTTP.

The same server, one of each for ours and for the SDK's; calls take turns. CPU is that of the client's process alone.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from mcp import Client, StdioServerParameters

from benchmarks.report import Row, report, size
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.mcp.connection import ServerConnection, ServerPool

SERVER = Path(__file__).resolve().parent.parent / "tests" / "mcp" / "sample_server.py"
AIM = 1.5
"""Times the SDK's own, over pipes."""
CALLS = size(300, 4)
SIZES = {"10 characters": 10, "100 kB": 100_000}
START = 60.0  # seconds

Ask = Callable[[str], Awaitable[object]]


@dataclass
class Cost:
    """Of the calls of one row."""

    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    async def measure(self, ask: Ask, text: str) -> None:
        """One call more."""
        wall, cpu = time.perf_counter(), time.process_time()
        await ask(text)
        self.wall.append((time.perf_counter() - wall) * 1e6)
        self.cpu.append((time.process_time() - cpu) * 1e6)


def main() -> int:
    """Print the table; 1 where the aim is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=CALLS, help="calls of each row, after some that are not counted")
    calls: int = options.parse_args().calls
    return asyncio.run(_table(calls))


async def _table(calls: int) -> int:
    print(
        f"\n{'a call, the text back':<28}{'ours µs':>9}{'SDK µs':>9}{'times':>7}{'CPU µs':>9}{'SDK µs':>9}{'times':>7}"
    )
    rows: list[Row] = []
    async with AsyncExitStack() as stack:
        pairs = {"pipes": await _over_pipes(stack), "HTTP": await _over_http(stack)}
        for size, length in SIZES.items():
            for over, (ours, theirs) in pairs.items():
                costs = await _both(ours, theirs, "x" * length, calls)
                wall, cpu = ([median(figures) for figures in kind] for kind in costs)
                row = f"{over}, {size}"
                print(
                    f"{row:<28}{wall[0]:>9.0f}{wall[1]:>9.0f}{wall[0] / wall[1]:>7.2f}"
                    f"{cpu[0]:>9.0f}{cpu[1]:>9.0f}{cpu[0] / cpu[1]:>7.2f}"
                )
                if over == "pipes":
                    rows.append(Row(f"a call over {row}, beside the SDK", wall[0] / wall[1], AIM, "x"))
    return report(rows)


async def _both(ours: Ask, theirs: Ask, text: str, calls: int) -> tuple[list[list[float]], list[list[float]]]:
    """Wall and CPU of both, the calls taking turns."""
    own, sdk = Cost(), Cost()
    for number in range(calls + calls // 10):
        for cost, ask in ((own, ours), (sdk, theirs)) if number % 2 else ((sdk, theirs), (own, ours)):
            await cost.measure(ask, text)
    counted = slice(calls // 10, None)
    return [own.wall[counted], sdk.wall[counted]], [own.cpu[counted], sdk.cpu[counted]]


async def _over_pipes(stack: AsyncExitStack) -> tuple[Ask, Ask]:
    ours = await _connection(stack, ServerProgram((sys.executable, str(SERVER))))
    client = await stack.enter_async_context(
        Client(StdioServerParameters(command=sys.executable, args=[str(SERVER)], env=dict(os.environ)))
    )
    return _through(ours), _bare(client)


async def _over_http(stack: AsyncExitStack) -> tuple[Ask, Ask]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), "http", "0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    url = f"http://127.0.0.1:{int(await process.stdout.readline())}/mcp"
    ours = await _connection(stack, ServerAddress(url))
    client = await stack.enter_async_context(Client(url))
    return _through(ours), _bare(client)


async def _connection(stack: AsyncExitStack, at: ServerProgram | ServerAddress) -> ServerConnection:
    servers = ServerPool(Path(tempfile.gettempdir()), os.environ)
    stack.push_async_callback(servers.close)
    servers.declare([ToolServer("sample", at, startup_timeout=START)])
    found = servers.get("sample")
    assert found is not None
    await found.start()
    return found


def _through(connection: ServerConnection) -> Ask:
    return lambda text: connection.request(lambda client: client.call_tool("echo", {"text": text}), timeout=60)


def _bare(client: Client) -> Ask:
    return lambda text: client.call_tool("echo", {"text": text})


if __name__ == "__main__":
    sys.exit(main())
