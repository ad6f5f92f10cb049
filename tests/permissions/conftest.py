"""A project for shell commands, made once for each test process; a test that changes it makes its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.permissions.shell_tree import make_shell_tree
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell import ShellVerdict
from vibe_jupyter.permissions.shell.judge import ShellState, judge_command
from vibe_jupyter.permissions.shell.patterns import ShellLists

Judge = Callable[..., ShellVerdict]


@pytest.fixture(scope="session")
def shell_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared tree; read it only."""
    return make_shell_tree(tmp_path_factory.mktemp("shell"))


@pytest.fixture
def fresh_project(tmp_path: Path) -> Path:
    """A tree of the test's own."""
    return make_shell_tree(tmp_path)


@pytest.fixture(scope="session")
def decide(shell_project: Path) -> Judge:
    """The verdict on a command in the shared tree."""
    workspace = Workspace(shell_project)

    def decided(command: str, lists: ShellLists | None = None) -> ShellVerdict:
        shell = ShellState(path="/usr/local/bin:/usr/bin:/bin", locale="C.UTF-8", lists=lists or ShellLists())
        return judge_command(command.replace("@PARENT@", str(shell_project.parent)), workspace, shell)

    return decided
