"""How often a shell command is judged: each time costs CPU, and a second verdict could differ from the one shown."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from tests.agent.conftest import Bench
from vibe_jupyter.permissions.shell.judge import judge_all
from vibe_jupyter.protocol import ApprovalRequested, Approve
from vibe_jupyter.testing import call, say
from vibe_jupyter.tools.bash import BashTool, ShellEnvironment
from vibe_jupyter.tools.contract import NotExplored, StaticToolset
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand


class Sandbox:
    """A sandbox in which no command gets by."""

    async def run(self, command: ShellCommand, progress: Callable[[str], None]) -> FinishedCommand | NotExplored:
        return NotExplored("it writes a file")


@contextmanager
def counted(code: Any) -> Generator[list[str]]:
    """What begins inside the block, of one function."""
    began: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is code:
            began.append(event)

    sys.setprofile(count)
    try:
        yield began
    finally:
        sys.setprofile(None)


@pytest.fixture
def shell(bench: Bench) -> BashTool:
    tool = BashTool(ShellEnvironment(bench.permissions.workspace, {}, {}))
    bench.tools = StaticToolset([tool])
    return tool


@pytest.mark.requirement("house.judged-once")
@pytest.mark.parametrize(
    ("command", "has_sandbox", "times"),
    [("ls -la", False, 1), ("ls -la", True, 1), ("touch new", False, 1), ("touch new", True, 2)],
)
async def test_a_command_is_judged_once_and_again_only_after_it_was_tried(
    bench: Bench, shell: BashTool, command: str, has_sandbox: bool, times: int
) -> None:
    bench.permissions.explore = has_sandbox
    shell.sandbox = Sandbox() if has_sandbox else None
    bench.model.will_reply(call("bash", command=command), say("done"))

    def allow(card: ApprovalRequested) -> Approve:
        return Approve(approval_id=card.approval_id)

    with counted(judge_all.__code__) as judged:
        await bench.ask("go", decide=allow)
    assert len(judged) == times
    assert (bench.folder / "new").exists() == (command == "touch new")
