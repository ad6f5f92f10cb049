"""The shell tool against real commands: results, bounds, and nothing left running."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import patient
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.shell.judge import search_guard
from vibe_jupyter.protocol import Allow, TextPart, ToolResult
from vibe_jupyter.tools.bash import BashArgs, BashOptions, BashTool, ShellEnvironment
from vibe_jupyter.tools.child_environment import NOT_INTERACTIVE, child_environment
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.process import BoundedOutput

PATIENCE = patient(10.0)
"""Seconds a test waits for what must come."""
PLANTED = {
    name: f"planted-{name}"
    for name in (
        "MISTRAL_API_KEY",
        "OPENAI_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "HF_TOKEN",
        "DB_PASSWORD",
        "JUPYTER_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_CLIENT_SECRET",
        "SLACK_WEBHOOK",
        "NPM_CONFIG__AUTH",
    )
}


@pytest.fixture
def bash(workspace: Workspace) -> BashTool:
    return BashTool(ShellEnvironment(workspace, os.environ, {}))


def text_of(result: ToolResult) -> str:
    part = result.parts[0]
    assert isinstance(part, TextPart)
    return part.text


async def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        await asyncio.sleep(0.02)


def ends(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError):  # the latter where it ends while it is looked at
        return True


@pytest.mark.requirement("tools.bash.args.fields", "tools.bash.result.fields")
async def test_a_result_has_the_command_both_streams_and_the_code(bash: BashTool, context: ToolContext) -> None:
    result = await bash.run(BashArgs(command="echo out; echo err >&2"), context)
    assert not result.is_error
    assert {key: result.details[key] for key in ("command", "stdout", "stderr", "returncode")} == {
        "command": "echo out; echo err >&2",
        "stdout": "out\n",
        "stderr": "err\n",
        "returncode": 0,
    }
    assert text_of(result) == "returncode: 0\nstdout:\nout\nstderr:\nerr"
    assert BashArgs.model_json_schema()["required"] == ["command"]
    assert BashOptions().default_timeout == 300


@pytest.mark.requirement("tools.bash.args.fields")
async def test_a_call_may_take_as_long_as_configured_unless_it_says_how_long(
    workspace: Workspace, context: ToolContext
) -> None:
    bash = BashTool(ShellEnvironment(workspace, {**os.environ}, {}), BashOptions(default_timeout=1))
    assert text_of(await bash.run(BashArgs(command="sleep 60"), context)).startswith("timeout: ended after 1 s")
    longer = await bash.run(BashArgs(command="sleep 1.5; echo out", timeout=30), context)
    assert not longer.is_error
    assert longer.details["stdout"] == "out\n"


@pytest.mark.requirement("tools.bash.result.nonzero")
async def test_a_code_that_is_not_zero_is_an_error_with_both_streams(bash: BashTool, context: ToolContext) -> None:
    result = await bash.run(BashArgs(command="echo half; echo why >&2; exit 3"), context)
    assert result.is_error
    assert text_of(result) == "returncode: 3\nstdout:\nhalf\nstderr:\nwhy"
    assert result.summary == "exit code 3"


@pytest.mark.requirement("tools.bash.stateless.each")
async def test_neither_folder_nor_variables_stay(bash: BashTool, context: ToolContext, project: Path) -> None:
    await bash.run(BashArgs(command="cd /; export LEFT=1; alias ls=false"), context)
    result = await bash.run(BashArgs(command='pwd; echo "[$LEFT]"; ls'), context)
    assert result.details["stdout"] == f"{project}\n[]\n"


@pytest.mark.requirement("tools.bash.isolation.env")
async def test_a_command_sees_no_key_and_is_told_that_nobody_answers(
    workspace: Workspace, context: ToolContext
) -> None:
    environ = {**os.environ, **PLANTED, "LC_PAPER": "de_DE.UTF-8", "PROJ_LIB": "/proj"}
    bash = BashTool(
        ShellEnvironment(workspace, environ, {"GIT_TERMINAL_PROMPT": "0"}), BashOptions(environment=("PROJ_*",))
    )
    result = await bash.run(BashArgs(command="env"), context)
    seen = dict(line.split("=", 1) for line in str(result.details["stdout"]).splitlines())
    assert "planted" not in str(result.details["stdout"])
    assert NOT_INTERACTIVE.items() <= seen.items()
    assert seen["LC_PAPER"] == "de_DE.UTF-8"
    assert seen["PROJ_LIB"] == "/proj"
    assert seen["GIT_TERMINAL_PROMPT"] == "0"


def test_a_pattern_lets_nothing_through_that_steers_the_shell_but_a_whole_name_does() -> None:
    environ = {"BASH_ENV": "/x", "BASH_FUNC_ls%%": "() { rm x; }", "LD_PRELOAD": "/x.so", "GIT_DIR": "/x", "MINE": "1"}
    assert child_environment(environ, ["*"]).items() - NOT_INTERACTIVE.items() == {("MINE", "1")}
    assert child_environment(environ, ["*", "GIT_DIR"])["GIT_DIR"] == "/x"


@pytest.mark.parametrize(
    "search",
    [
        "grep -rn 'import os' .",
        "egrep -r 'import os' . | cat",
        "cd . && fgrep -rh 'import os'",
        "rg --hidden 'import os'",
    ],
)
async def test_a_search_that_runs_unasked_shows_no_line_of_a_protected_file(
    workspace: Workspace, context: ToolContext, project: Path, search: str
) -> None:
    for name in (".env", "server.key", "script.py"):
        (project / name).write_text(f"import os  # in {name}\n")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    bash = BashTool(ShellEnvironment(workspace, environ, {}, lambda command: search_guard(command, workspace)))
    assert isinstance(Permissions(workspace).decide(bash, BashArgs(command=search), RunTerms()), Allow)
    result = await bash.run(BashArgs(command=search), context)
    found = str(result.details["stdout"])
    assert "in script.py" in found
    assert "in .env" not in found
    assert "in server.key" not in found


async def test_a_shell_of_the_persons_choice_and_its_files_do_not_run(
    workspace: Workspace, context: ToolContext, project: Path
) -> None:
    startup = project / "startup.sh"
    startup.write_text("echo startup ran\n")
    environ = {**os.environ, "SHELL": "/bin/false", "BASH_ENV": str(startup), "ENV": str(startup)}
    result = await BashTool(ShellEnvironment(workspace, environ, {})).run(
        BashArgs(command="echo $BASH_VERSION"), context
    )
    assert "startup" not in str(result.details["stdout"])
    assert str(result.details["stdout"]).strip()


@pytest.mark.requirement("tools.bash.isolation.group")
async def test_a_command_has_a_group_of_its_own_and_no_input(bash: BashTool, context: ToolContext) -> None:
    result = await bash.run(BashArgs(command="cat; ps -o pgid= -p $$; echo $$"), context)
    group, own = str(result.details["stdout"]).split()
    assert group == own
    assert int(group) != os.getpgid(0)


async def test_output_is_shown_while_the_command_runs(bash: BashTool, project: Path) -> None:
    shown: list[str] = []
    gate = project / "gate"
    context = ToolContext(call_id="c", progress=shown.append, cancelled=lambda: False)
    command = f"echo first; until [ -e {gate} ]; do sleep 0.02; done; echo last"
    running = asyncio.ensure_future(bash.run(BashArgs(command=command), context))
    await until(lambda: "first" in "".join(shown))
    gate.touch()
    result = await asyncio.wait_for(running, PATIENCE)
    assert result.details["stdout"] == "first\nlast\n"
    assert "".join(shown) == "first\nlast\n"


@pytest.mark.requirement("tools.bash.guidance.dedicated")
def test_the_model_is_pointed_to_the_dedicated_tools() -> None:
    words = BashTool.description
    assert all(tool in words for tool in ("read_file", "write_file", "search_replace", "grep"))
    assert all(command in words for command in ("cat", "sed", "echo >"))


async def test_at_its_time_the_whole_tree_is_ended(bash: BashTool, context: ToolContext, project: Path) -> None:
    tree = (
        "(sleep 1000 & echo $! > child; (sleep 1001 & echo $! > grandchild; wait); wait) & "
        "setsid sleep 1002 & echo $! > away; trap '' TERM; echo begun; wait; sleep 1003"
    )
    result = await bash.run(BashArgs(command=tree, timeout=1), context)
    assert result.is_error
    assert text_of(result).startswith("timeout: ended after 1 s")
    assert "begun" in text_of(result)
    pids = [int((project / name).read_text()) for name in ("child", "grandchild", "away")]
    await until(lambda: all(map(ends, pids)))


async def test_an_interrupt_ends_the_whole_tree(bash: BashTool, context: ToolContext, project: Path) -> None:
    command = "sleep 1000 & echo $! > child; setsid sleep 1001 & echo $! > away; wait"
    running = asyncio.ensure_future(bash.run(BashArgs(command=command), context))
    files = [project / "child", project / "away"]
    await until(lambda: all(file.exists() and file.read_text().strip() for file in files))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)  # a hang, not a speed
    assert all(ends(int(file.read_text())) for file in files)


@pytest.mark.parametrize("steps", range(8))
async def test_an_interrupt_while_it_starts_leaves_nothing_running(
    bash: BashTool, context: ToolContext, project: Path, steps: int
) -> None:
    command = "setsid sleep 1002 & echo $! > away; wait"
    running = asyncio.ensure_future(bash.run(BashArgs(command=command), context))
    for _ in range(steps):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    here = [one for one in psutil.process_iter() if _works_in(one, project)]
    assert here == []


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.cwd() == str(folder)
    except psutil.Error:
        return False


async def test_what_a_command_leaves_running_is_ended_and_named(
    bash: BashTool, context: ToolContext, project: Path
) -> None:
    result = await bash.run(BashArgs(command="sleep 1000 & echo $! > left; echo done"), context)
    assert not result.is_error
    assert result.details["stdout"] == "done\n"
    assert "still running when the shell ended, and ended too: sleep" in text_of(result)
    assert ends(int((project / "left").read_text()))


DIES_AS_IT_STARTS = """
import os, signal, sys
def die(event, arguments):
    if event == {event!r}:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
"""


@pytest.fixture
def kernel_like(project: Path, request: pytest.FixtureRequest) -> "Iterator[subprocess.Popen[bytes]]":
    """A process that runs a command through the tool, as a kernel does."""
    given = getattr(request, "param", "")
    first, way = ("", given) if given == "setsid" else (given, "")
    script = f"""{first}
import asyncio, os
from pathlib import Path
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.bash import BashTool, BashArgs, ShellEnvironment
from vibe_jupyter.files.workspace import Workspace
bash = BashTool(ShellEnvironment(Workspace(Path({str(project)!r})), os.environ, {{}}))
context = ToolContext(call_id="c", progress=lambda text: None, cancelled=lambda: False)
asyncio.run(bash.run(BashArgs(command="{way} sleep 1000 & echo $! > child; wait"), context))
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    yield process
    process.kill()
    process.wait(PATIENCE)


@pytest.mark.parametrize("kernel_like", ["", "setsid"], indirect=True)
async def test_a_kernel_that_is_killed_leaves_no_command_running(
    kernel_like: "subprocess.Popen[bytes]", project: Path
) -> None:
    file = project / "child"
    await until(lambda: file.exists() and bool(file.read_text().strip()))
    kernel_like.send_signal(signal.SIGKILL)
    child = int(file.read_text())
    await until(lambda: ends(child))


@pytest.mark.parametrize(
    "kernel_like",
    [DIES_AS_IT_STARTS.format(event=event) for event in ("subprocess.Popen", "marshal.dumps")],
    indirect=True,
    ids=["before its supervisor", "before the supervisor knows the command"],
)
async def test_a_kernel_that_is_killed_while_a_command_starts_leaves_none_running(
    kernel_like: "subprocess.Popen[bytes]", project: Path
) -> None:
    assert await asyncio.to_thread(kernel_like.wait, PATIENCE) == -signal.SIGKILL
    await until(lambda: not any(str(project) == _folder(process) for process in psutil.process_iter()))
    assert not (project / "child").exists()


def _folder(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""


async def test_long_output_keeps_its_head_and_tail_and_says_so(bash: BashTool, context: ToolContext) -> None:
    result = await bash.run(BashArgs(command="seq 1 100000; seq 1 100000 >&2"), context)
    for stream in ("stdout", "stderr"):
        text = str(result.details[stream])
        assert len(text.encode()) < 16_100
        assert text.startswith("1\n2\n")
        assert text.endswith("99999\n100000\n")
        assert "bytes left out" in text
    assert "note: output was cut in the middle" in text_of(result)


@pytest.mark.requirement("tools.bash.output.encoding")
async def test_bytes_that_are_no_text_do_not_fail_the_call(bash: BashTool, context: ToolContext) -> None:
    result = await bash.run(BashArgs(command=r"printf 'caf\xe9 \xff\xfe\x00 end'"), context)
    assert not result.is_error
    assert str(result.details["stdout"]).startswith("caf\ufffd ")


@pytest.mark.parametrize("text", ["ä" * 500, "€uro" * 200, "😀" * 300])
@pytest.mark.parametrize("limit", range(200, 208))
def test_a_cut_never_splits_a_character(text: str, limit: int) -> None:
    kept = BoundedOutput(limit)
    for byte in text.encode():
        kept.write(bytes([byte]))
    assert "\ufffd" not in kept.text()
    assert kept.was_truncated


def test_output_within_its_limit_is_whole() -> None:
    kept = BoundedOutput(200)
    for byte in range(200):
        kept.write(bytes([byte % 100]))
    assert kept.text() == bytes(byte % 100 for byte in range(200)).decode()
    assert not kept.was_truncated


async def test_a_command_that_cannot_start_is_an_error_in_words(workspace: Workspace, context: ToolContext) -> None:
    bash = BashTool(ShellEnvironment(workspace, os.environ, {}))
    with pytest.raises(ToolError, match="could not be started"):
        await bash.run(BashArgs(command="echo \0"), context)
