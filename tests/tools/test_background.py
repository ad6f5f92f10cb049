"""Commands that go on when the call that started them is over."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.test_bash import PATIENCE, ends, text_of, until
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.tools.background import MOST, BackgroundCommands
from vibe_jupyter.tools.bash import STARTED, BashArgs, BashTool, ShellEnvironment
from vibe_jupyter.tools.contract import ToolContext


@pytest.fixture
async def background() -> AsyncIterator[BackgroundCommands]:
    commands = BackgroundCommands(at_once=0.2)
    yield commands
    await commands.end()


@pytest.fixture
def bash(workspace: Workspace, background: BackgroundCommands) -> BashTool:
    return BashTool(ShellEnvironment(workspace, os.environ, {}), background=background)


def in_background(command: str) -> BashArgs:
    return BashArgs(command=command, background=True)


async def test_the_call_returns_and_the_end_is_told_once_with_the_output(
    bash: BashTool, background: BackgroundCommands, context: ToolContext, project: Path
) -> None:
    command = "echo begun; until [ -e go ]; do sleep 0.05; done; echo ended; exit 3"
    assert text_of(await bash.run(in_background(command), context)) == STARTED
    (line,) = background.lines()
    assert line.startswith("Background: `echo begun; until [ -e go ]")
    assert " has been running for " in line
    await until(lambda: "begun" in background.report(schema_only=False))
    (project / "go").touch()
    await until(lambda: not background.running())
    told = background.report(schema_only=False)
    assert told.startswith("<background>\n`echo begun;")
    assert "with exit code 3\nbegun\nended\n</background>" in told
    assert background.report(schema_only=False) == ""
    assert background.lines() == []


async def test_what_ends_at_once_is_answered_as_any_other(workspace: Workspace, context: ToolContext) -> None:
    background = BackgroundCommands(at_once=PATIENCE)
    bash = BashTool(ShellEnvironment(workspace, os.environ, {}), background=background)
    result = await bash.run(in_background("no-such-command-here"), context)
    assert text_of(result).startswith("returncode: 127")
    assert background.lines() == []


async def test_all_processes_end_with_the_conversation(
    bash: BashTool, background: BackgroundCommands, context: ToolContext, project: Path
) -> None:
    await bash.run(in_background("sleep 60 & echo $! > child; wait"), context)
    await until(lambda: bool((project / "child").exists() and (project / "child").read_text().strip()))
    child = int((project / "child").read_text())
    await background.end()
    await until(lambda: ends(child))
    assert background.report(schema_only=False) == ""


async def test_secrets_are_taken_out_before_the_output_is_cut(
    bash: BashTool, background: BackgroundCommands, context: ToolContext
) -> None:
    hiding = ToolContext(context.call_id, context.progress, context.cancelled, redact=_hide)
    await bash.run(in_background("echo hunter2; sleep 60"), hiding)
    await until(lambda: "[redacted]\n" in background.report(schema_only=False))
    assert "hunter2" not in background.report(schema_only=False) + "".join(background.lines())


def _hide(text: str) -> str:
    return text.replace("hunter2", "[redacted]")


async def test_only_so_many_run_at_a_time(bash: BashTool, background: BackgroundCommands, context: ToolContext) -> None:
    await asyncio.gather(*(bash.run(in_background("sleep 60"), context) for _ in range(MOST)))
    with pytest.raises(ToolError, match=f"{MOST} commands run in the background already: `sleep 60`"):
        await bash.run(in_background("sleep 60"), context)
