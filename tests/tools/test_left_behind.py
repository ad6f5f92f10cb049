"""Ways of leaving a process behind, as approved commands, as commands in the sandbox, and as an MCP server.

Each starts processes whose command line holds a token; when the command, or the server, is over, none may run.
"""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.mcp.conftest import BROKEN
from tests.patience import patient
from tests.tools.test_bash import until
from vibe_jupyter.config.tool_servers import ServerProgram, ToolServer
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.sandbox.commands import SandboxedCommands
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.contract import NotExplored
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand, run_command
from vibe_jupyter.tools.process_marks import processes_left_behind

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no subreaper"),
    pytest.mark.requirement("tools.bash.end.descendants"),
]
SECONDS = patient(60)
PYTHON = shlex.quote(sys.executable)
TOKENS = iter(range(10**9))


def python(code: str) -> str:
    """A command that runs a few lines of Python, which find the token as `T`."""
    head = "import os, signal, subprocess, sys, threading, time, ctypes; T = sys.argv[1]; S = ['sleep', T]"
    return f"{PYTHON} -c {shlex.quote(head + chr(10) + code)} TOKEN"


DAEMON = """
def daemon(environment, then):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            then()
            os.execvpe('sleep', S, environment)
        os._exit(0)
    os.wait()
"""

WAYS: dict[str, str] = {
    "background": "sleep TOKEN &",
    "setsid": "setsid sleep TOKEN &",
    "setsid without environment": "setsid env -i sleep TOKEN &",
    "setsid in a subshell": "(setsid env -i sleep TOKEN &)",
    "setsid that forks": "setsid -f env -i sleep TOKEN",
    "double fork": "( ( sleep TOKEN & ) & )",
    "double fork without environment": "( ( env -i sleep TOKEN & ) & )",
    "nohup": "nohup sleep TOKEN > /dev/null 2>&1 &",
    "disown": "sleep TOKEN & disown",
    "closed streams": "sleep TOKEN <&- >&- 2>&- &",
    "another folder": "cd / && sleep TOKEN &",
    "ignored signals": "(trap '' TERM HUP INT QUIT; sleep TOKEN) &",
    "ignored signals in a new session": "setsid env -i bash -c 'trap \"\" TERM HUP INT; sleep TOKEN' &",
    "session in a session": "setsid bash -c 'setsid bash -c \"setsid env -i sleep TOKEN &\" &' &",
    "coprocess": "coproc sleep TOKEN",
    "another name": "bash -c 'exec -a kworker/0:1 sleep TOKEN' &",
    "stopped": "sleep TOKEN & kill -STOP $!",
    "stopped in a new session": "setsid sh -c 'kill -STOP $$; sleep TOKEN' &",
    "timeout": "timeout 9999 sleep TOKEN &",
    "xargs": "seq 4 | xargs -P4 -I{} sh -c 'setsid env -i sleep TOKEN &'",
    "find": "find . -maxdepth 0 -exec sh -c 'setsid env -i sleep TOKEN &' ';'",
    "awk": "awk 'BEGIN { system(\"setsid env -i sleep TOKEN &\") }'",
    "perl": "perl -MPOSIX -e 'fork and exit; setsid; fork and exit; %ENV = (); exec qw(sleep TOKEN)'",
    "script": "script -qfc 'setsid env -i sleep TOKEN & sleep 0.2' /dev/null &",
    "at its exit": "trap 'setsid env -i sleep TOKEN &' EXIT",
    "at its end": "(trap 'setsid env -i sleep TOKEN & exit' TERM; sleep TOKEN & wait) &",
    "many": "for i in $(seq 40); do setsid env -i sleep TOKEN & done",
    "process substitution": "cat <(setsid env -i sleep TOKEN >&- 2>&- &)",
    "daemon": python(DAEMON + "daemon({}, lambda: None)"),
    "daemon with another name": python(DAEMON + "daemon({}, lambda: ctypes.CDLL(None).prctl(15, b'kthreadd'))"),
    "daemon that ignores all signals": python(
        DAEMON + "daemon({}, lambda: [signal.signal(n, signal.SIG_IGN) for n in range(1, 32) if n not in (9, 19)])"
    ),
    "daemon without descriptors": python(DAEMON + "daemon({}, lambda: os.closerange(0, 4096))"),
    "daemon of the C library": python("ctypes.CDLL(None).daemon(0, 0); os.execvpe('sleep', S, {})"),
    "posix_spawn": python("os.posix_spawnp('sleep', S, {}, setsid=True)"),
    "vfork": python("subprocess.Popen(S, env={}, start_new_session=True)"),
    "a thread's child": python(
        "t = threading.Thread(target=lambda: subprocess.Popen(S, env={}, start_new_session=True)); t.start(); t.join()"
    ),
    "a child that outlives signals to its parent": python(DAEMON + "daemon({}, lambda: ctypes.CDLL(None).prctl(1, 0))"),
    "a reaper of its own": python("ctypes.CDLL(None).prctl(36, 1)\n" + DAEMON + "daemon({}, lambda: None)"),
    "a reaper that lives on": python(
        "if os.fork() == 0:\n    os.setsid(); ctypes.CDLL(None).prctl(36, 1); signal.signal(15, signal.SIG_IGN)\n"
        "    subprocess.Popen(S, env={}, start_new_session=True); time.sleep(9999)"
    ),
    "a tree": python(
        "for _ in range(6): os.fork()\nos.setsid() if os.getpid() != os.getpgrp() else None\nos.execvpe('sleep', S, {})"
    )
    + " &",
    "a process that keeps forking": python(
        "if os.fork() == 0:\n    os.setsid()\n    until = time.time() + 120\n    while time.time() < until:\n"
        "        if os.fork(): os._exit(0)"
    ),
    "a process that keeps forking into new sessions": python(
        "if os.fork() == 0:\n    until = time.time() + 120\n    while time.time() < until:\n"
        "        if os.fork(): os._exit(0)\n        os.setsid()"
    ),
    "several that keep forking": python(
        "for _ in range(8):\n  if os.fork() == 0:\n    until = time.time() + 120\n    while time.time() < until:\n"
        "        if os.fork(): os._exit(0)\n        os.setsid()"
    ),
    "parents that start what ended": python(
        "if os.fork() == 0:\n    os.setsid(); signal.signal(15, signal.SIG_IGN); until = time.time() + 120\n"
        "    while time.time() < until: subprocess.Popen(S, env={}, start_new_session=True).wait()"
    ),
    "a traced process": python(
        "libc = ctypes.CDLL(None); libc.ptrace.argtypes = [ctypes.c_long] * 4\nchild = subprocess.Popen(S, env={})\n"
        "if os.fork() == 0:\n    libc.prctl(0x59616D61, ctypes.c_ulong(-1)); libc.ptrace(0x4206, child.pid, 0, 0)\n"
        "    os.setsid(); time.sleep(9999)"
    ),
    "another user": "[ $(id -u) = 0 ] && setsid setpriv --reuid 65534 --clear-groups env -i sleep TOKEN &",
    "another root": "[ $(id -u) = 0 ] && setsid chroot / sleep TOKEN &",
    "another process namespace": "[ $(id -u) = 0 ] && setsid unshare -fp sleep TOKEN &",
    "a forgotten mark": "ulimit -x 1; setsid env -i sleep TOKEN &",
}
"""The command of each, with the token it leaves."""
KILLS_ITS_SUPERVISOR: dict[str, str] = {"the supervisor killed": "setsid env -i sleep TOKEN & kill -9 $PPID; wait"}
_DOCTOR = (
    *(sys.executable, "-c"),
    "from vibe_jupyter.cli import doctor; report = doctor._Report(); doctor._look_at_processes(report); "
    "print(*report.lines, sep=chr(10))",
)
SAMPLE = frozenset({"setsid without environment", "daemon", "a process that keeps forking into new sessions"})
_RARE = [pytest.mark.matrix, pytest.mark.attack("left-behind processes")]


def _cases(ways: dict[str, str]) -> list[Any]:
    cases: list[Any] = []
    for name, command in ways.items():
        marks = [pytest.mark.attack("left-behind processes")] if name in SAMPLE else _RARE
        cases.append(pytest.param(command, id=name.replace(" ", "-"), marks=marks))
    return cases


@pytest.fixture
def token() -> Iterator[str]:
    """Seconds that only the processes of this test sleep."""
    found = f"98765{os.getpid()}{next(TOKENS):03}"
    yield found
    for process in running(found):  # those of a test that failed
        process.kill()


def running(token: str) -> list[psutil.Process]:
    """The processes with a token, zombies left out."""
    return [one for one in psutil.process_iter() if _has(one, token)]


def _has(process: psutil.Process, token: str) -> bool:
    try:
        return token in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _asked(project: Path, command: str, token: str, seconds: float) -> ShellCommand:
    argv = ("/bin/bash", "--noprofile", "--norc", "-c", command.replace("TOKEN", token))
    return ShellCommand(argv, project, child_environment(os.environ), seconds, 16_000)


@pytest.mark.parametrize("command", _cases(WAYS | KILLS_ITS_SUPERVISOR))
async def test_an_approved_command_leaves_nothing(tmp_path: Path, token: str, command: str) -> None:
    done = await run_command(_asked(tmp_path, command, token, SECONDS), lambda _: None)
    assert running(token) == []
    assert isinstance(done, FinishedCommand)
    assert done.unended == ()
    assert done.ended == "exit"


@pytest.mark.matrix
@pytest.mark.attack("left-behind processes")
async def test_a_command_that_stops_its_supervisor_leaves_nothing(tmp_path: Path, token: str) -> None:
    command = "setsid env -i sleep TOKEN & kill -STOP $PPID"
    done = await run_command(_asked(tmp_path, command, token, 1), lambda _: None)
    assert running(token) == []
    assert done.ended == "timeout"


@pytest.mark.parametrize("command", _cases(WAYS))
async def test_an_interrupted_command_leaves_nothing(tmp_path: Path, token: str, command: str) -> None:
    task = asyncio.create_task(run_command(_asked(tmp_path, f"{command}\nsleep TOKEN", token, SECONDS), lambda _: None))
    await until(lambda: bool(running(token)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(token) == []


@pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
@pytest.mark.parametrize("command", _cases(WAYS | KILLS_ITS_SUPERVISOR))
async def test_a_command_in_the_sandbox_leaves_nothing(tmp_path: Path, token: str, command: str) -> None:
    done = await SandboxedCommands(tmp_path).run(_asked(tmp_path, command, token, SECONDS), lambda _: None)
    assert running(token) == []
    assert isinstance(done, NotExplored) or done.ended == "exit"


@pytest.mark.parametrize("command", _cases(WAYS))
async def test_an_mcp_server_leaves_nothing(tmp_path: Path, token: str, command: str) -> None:
    way = command.replace("TOKEN", token)
    serves = f"{way}\nexec {PYTHON} {shlex.quote(str(BROKEN))} fine"
    servers = ServerPool(tmp_path, os.environ)
    program = ServerProgram(("/bin/bash", "--noprofile", "--norc", "-c", serves))
    servers.declare([ToolServer("leaves", program, startup_timeout=SECONDS)])
    try:
        if "EXIT" not in command and "<(" not in command and "coproc" not in command:
            assert await servers.start(["leaves"]) == []
        else:
            await servers.start(["leaves"])
    finally:
        await servers.close()
    assert running(token) == []


@pytest.mark.requirement("tools.bash.end.listed")
async def test_what_a_killed_supervisor_and_a_killed_kernel_left_is_found(tmp_path: Path, token: str) -> None:
    """Nobody is left to end it: it can only be listed."""
    code = "import asyncio, os, signal\nfrom pathlib import Path\nfrom vibe_jupyter.tools.process import *\n"
    code += "os.environ.clear()\n"
    command = f"setsid env -i sleep {token} & sleep 0.2; kill -STOP $PPID; kill -9 {{parent}}; kill -9 $PPID"
    code += f"command = {command!r}.format(parent=os.getpid())\n"
    code += f"asked = ShellCommand(('/bin/bash', '-c', command), Path({str(tmp_path)!r}), {{}}, 60, 1000)\n"
    code += "asyncio.run(run_command(asked, print))\n"
    kernel = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await asyncio.wait_for(kernel.wait(), SECONDS) == -signal.SIGKILL
    end = time.monotonic() + SECONDS
    while not (found := [one for one in processes_left_behind() if token.encode() in one.command]):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    assert [one.name for one in found] == ["sleep"]
    report = await asyncio.to_thread(subprocess.run, _DOCTOR, capture_output=True, text=True, timeout=SECONDS)
    assert f"sleep ({found[0].pid})" in report.stdout
    assert f"kill -9 {found[0].pid}" in report.stdout
