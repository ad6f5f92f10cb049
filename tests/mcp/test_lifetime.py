"""When servers are started, how often, and that nothing of them is left."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mcp.conftest import (
    BROKEN,
    PATIENCE,
    SAMPLE,
    TOKEN,
    NewServers,
    call,
    children,
    connection,
    declared,
    marked,
    served,
    until,
)
from tests.patience import patient
from vibe_jupyter.agent.engine import end_tasks
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.connection import RESTARTS

ROOT = Path(__file__).parents[2]


def program(name: str, mode: str, starts: Path | None = None, **settings: object) -> ToolServer:
    """The broken server in one of its modes, noting its starts."""
    env = {"STARTS": str(starts)} if starts else {}
    return declared(name, ServerProgram((sys.executable, str(BROKEN), mode), env=env), **settings)


def count(starts: Path) -> int:
    return len(starts.read_text().splitlines()) if starts.exists() else 0


async def test_twenty_declared_servers_cost_nothing_until_one_is_needed(
    new_servers: NewServers, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(*(program(f"server{number}", "fine", starts) for number in range(20)))
    assert [one.state for one in servers.all()] == ["stopped"] * 20

    assert await call(connection(servers, "server7"), "echo", text="one") == "one"

    assert count(starts) == 1
    assert [one.server.name for one in servers.all() if one.state != "stopped"] == ["server7"]


async def test_a_server_runs_on_from_run_to_run(new_servers: NewServers, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(program("kept", "fine", starts))

    for _ in range(3):
        assert await servers.start(["kept"]) == []
        await call(connection(servers, "kept"), "echo", text="x")

    assert count(starts) == 1


async def test_who_comes_while_a_server_starts_waits_for_the_same_start(
    new_servers: NewServers, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(program("one", "fine", starts))
    one = connection(servers, "one")

    said = await asyncio.gather(*(call(one, "echo", text=str(number)) for number in range(8)))

    assert said == [str(number) for number in range(8)]
    assert count(starts) == 1


async def test_servers_that_did_not_change_run_on_when_others_are_declared(
    new_servers: NewServers, tmp_path: Path
) -> None:
    same, other = program("same", "fine", tmp_path / "same"), program("other", "fine", tmp_path / "other")
    servers = await new_servers(same, other)
    await servers.start(["same", "other"])
    left = connection(servers, "other")

    servers.declare([same, program("other", "logs on stdout", tmp_path / "other")])
    await servers.start(["same", "other"])

    assert left.state == "stopped"
    assert (count(tmp_path / "same"), count(tmp_path / "other")) == (1, 2)
    assert len(children()) == 2


async def test_a_server_that_ends_in_each_call_is_started_again_three_times_and_then_no_more(
    new_servers: NewServers, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(program("mortal", "dies at call", starts))
    mortal = connection(servers, "mortal")

    words: list[str] = []
    for _ in range(RESTARTS + 3):
        with pytest.raises(ServerError) as failure:
            await call(mortal, "echo", text="x")
        words.append(failure.value.sentence)

    assert count(starts) == 1 + RESTARTS
    assert ["ended before it answered: exit code 3" in sentence for sentence in words] == [True] * 4 + [False] * 2
    assert "failed, even after 3 new starts" in words[-1]
    await servers.restart("mortal")  # by the user
    assert count(starts) == 2 + RESTARTS


async def test_a_remote_server_that_was_away_is_asked_again_with_the_next_run(new_servers: NewServers) -> None:
    with served(SAMPLE, "http", "0") as url:
        servers = await new_servers(declared("away", ServerAddress(url)))
        away = connection(servers, "away")
        await servers.start(["away"])
        assert await call(away, "add", a=1, b=2) == "3"
    for _ in range(RESTARTS + 2):  # the model does not give up at once
        with pytest.raises(ServerError) as failure:
            await call(away, "add", a=1, b=2)
    assert "is asked again with the next prompt" in failure.value.sentence

    with served(SAMPLE, "http", url.rpartition(":")[2].removesuffix("/mcp")):
        await servers.start(["away"])
        assert await call(away, "add", a=1, b=2) == "3"


async def test_a_server_that_cannot_start_is_tried_again_without_holding_up_a_run(
    new_servers: NewServers, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(program("dead", "dies before start", starts))
    told = await servers.start(["dead"])
    assert len(told) == 1
    assert "no luck at all" in told[0]

    for _ in range(RESTARTS + 2):
        seen = count(starts)
        began = time.monotonic()
        told += await servers.start(["dead"])
        assert time.monotonic() - began < patient(1.0)
        await until(lambda: connection(servers, "dead").state == "failed", "it starts for ever")
        if len(told) > 1:
            break
        assert count(starts) >= seen

    told += await servers.start(["dead"])
    assert len(told) == 2
    assert "is not started again by itself" in told[1]
    # Each start asks in the newer protocol, and where the program ended at it in the older one.
    assert count(starts) == 2 * (1 + RESTARTS)


async def test_a_server_that_chokes_on_the_newer_protocol_is_asked_in_the_older_one(
    new_servers: NewServers, tmp_path: Path
) -> None:
    servers = await new_servers(
        program("dies", "dies at discover"),
        program("silent", "silent at discover"),
        program("hangs", "hangs at discover", startup_timeout=4.0),
    )
    problems = await servers.start(["dies", "silent", "hangs"])
    assert [problem.partition(" (")[0] for problem in problems] == ["The MCP server hangs"]

    await servers.restart("hangs")  # which begins with the older one

    for one in servers.all():
        assert await call(one, "echo", text=one.server.name) == one.server.name
        assert one.protocol_version == "2025-06-18"


async def test_a_server_that_says_nothing_any_more_is_ended_and_started_again(
    new_servers: NewServers, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(program("stuck", "hangs at call", starts))
    stuck = connection(servers, "stuck")

    for _ in range(2):
        with pytest.raises(ServerError, match="did not answer within"):
            await call(stuck, "echo", seconds=0.3)
    assert stuck.state == "failed"
    with pytest.raises(ServerError, match="did not answer within"):
        await call(stuck, "echo", seconds=0.3)

    assert count(starts) == 2


async def test_an_interrupted_start_leaves_nothing(new_servers: NewServers) -> None:
    servers = await new_servers(program("slow", "hangs at start"))
    starting = asyncio.create_task(servers.start(["slow"]))
    await until(lambda: bool(children()), "it was not started")

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    await until(lambda: not children(), "it outlived its interrupt")
    await until(lambda: connection(servers, "slow").state == "stopped", "it is not said to have stopped")


async def test_a_program_that_is_being_ended_is_ended_also_when_the_engine_ends(
    new_servers: NewServers, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(program("slow", "hangs at start", starts))
    starting = asyncio.create_task(servers.start(["slow"]))
    await until(lambda: count(starts) == 1, "it was not started")
    before = asyncio.all_tasks()
    starting.cancel()
    async with asyncio.timeout(PATIENCE):
        while not asyncio.all_tasks() - before:
            await asyncio.sleep(0)
    await end_tasks()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await until(lambda: not children(), "it outlived the engine")


async def test_a_start_right_after_an_interrupted_one_is_a_new_one(new_servers: NewServers) -> None:
    servers = await new_servers(program("slow", "hangs at call"))
    slow = connection(servers, "slow")
    starting = asyncio.create_task(slow.start())
    await until(lambda: bool(children()), "it was not started")
    starting.cancel()

    await slow.start()

    assert slow.state == "ready"
    assert starting.cancelled()


async def test_a_restart_ends_what_ran(new_servers: NewServers, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    servers = await new_servers(program("again", "fine", starts))
    await servers.start(["again"])
    [first] = children()

    await servers.restart("again")

    [second] = children()
    assert first.pid != second.pid
    with pytest.raises(ServerError, match=r"There is no MCP server x\. Declared: again\."):
        await servers.restart("x")


async def test_all_that_a_server_started_ends_with_it(new_servers: NewServers, tmp_path: Path) -> None:
    child = "import subprocess, sys; subprocess.Popen(['sleep', '1000'], start_new_session=True); "
    run = f"import runpy; sys.argv[1:] = ['fine']; runpy.run_path({str(BROKEN)!r}, run_name='__main__')"
    at = ServerProgram((sys.executable, "-c", child + run), env={TOKEN: str(tmp_path)})
    servers = await new_servers(declared("parent", at))
    await servers.start(["parent"])
    await until(lambda: "sleep" in [one.name() for one in marked(str(tmp_path))], "the child runs")

    began = time.monotonic()
    await servers.close()

    assert time.monotonic() - began < patient(5)
    assert marked(str(tmp_path)) == []


HOLDS = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
SEIZE, TRACE_EXIT = 0x4206, 0x40
print(libc.ptrace(SEIZE, int(sys.argv[1]), 0, TRACE_EXIT), flush=True)
os.waitpid(int(sys.argv[1]), 0)
time.sleep(2.5)
"""
"""Holds a process at its end, as a large one on a busy machine is held by what it has to give back."""
HELD = f"""
import ctypes, os, runpy, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1))  # whoever wants to may trace it
command = [sys.executable, "-c", {HOLDS!r}, str(os.getpid())]
holds = subprocess.Popen(command, stdout=subprocess.PIPE, env={{}}, start_new_session=True)
assert holds.stdout.readline() == b"0\\n"
sys.argv[1:] = ["fine"]
runpy.run_path({str(BROKEN)!r}, run_name="__main__")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process at its end")
async def test_a_killed_program_that_takes_its_time_to_die_is_waited_for(new_servers: NewServers) -> None:
    servers = await new_servers(declared("held", ServerProgram((sys.executable, "-c", HELD))))
    assert await servers.start(["held"]) == []

    await servers.close()

    assert children() == []


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.mcp.conftest import BROKEN, TOKEN
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.mcp.connection import ServerPool

def program(mode):
    at = ServerProgram((sys.executable, str(BROKEN), mode), env={TOKEN: sys.argv[1]})
    return ToolServer(mode, at, startup_timeout=60)

async def main():
    servers = ServerPool(Path.cwd(), os.environ)
    servers.declare([program("fine"), program("hangs at start")])
    later = asyncio.create_task(servers.start(["hangs at start"]))
    print(await servers.start(["fine"]), flush=True)
    await later

asyncio.run(main())
"""


async def test_a_kernel_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    token = str(tmp_path)
    with subprocess.Popen([sys.executable, "-c", KILLED, token], stdout=subprocess.PIPE, cwd=ROOT) as kernel:
        assert kernel.stdout is not None
        assert await asyncio.to_thread(kernel.stdout.readline) == b"[]\n"
        await until(lambda: len(marked(token)) == 2, "both are there")
        kernel.send_signal(signal.SIGKILL)

    await until(lambda: not marked(token), "a server outlived its kernel")
