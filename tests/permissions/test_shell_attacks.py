"""Shell commands that look read-only and are not: none does harm unasked, and each does if it is simply run."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.permissions.agent_trees import copy_of, effect, remove
from tests.permissions.conftest import Judge
from tests.permissions.shell_tree import make_shell_tree

LINE = re.compile(r"(?:\[(?P<program>\w+)\] )?(?P<command>.+)")
COMMANDS = [
    LINE.fullmatch(line)
    for line in (Path(__file__).parents[1] / "corpora" / "shell_attacks.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("# ")
]

GUARDED = frozenset(
    {"git log --patch-with-raw", "git log -p -1 --root HEAD~1", "git log -G sk-ENV -p", "git grep -h sk-"}
)
"""Commands that run unasked, with protected files left out of what they show."""


def cases() -> list[object]:
    """Return each command, and the program that it needs."""
    return [
        pytest.param(row["command"].replace("\\n", "\n"), row["program"], id=row["command"]) for row in COMMANDS if row
    ]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the parent of a tree, and a copy of it: its programs name the first, so each command runs there."""
    parent = tmp_path_factory.mktemp("attacked") / "tree"
    parent.mkdir()
    make_shell_tree(parent)
    return parent, copy_of(parent, parent.with_name("pristine"))


@pytest.fixture
def parent(pristine: tuple[Path, Path]) -> Iterator[Path]:
    """Return the parent of the tree, which is restored afterwards."""
    parent, copy = pristine
    yield parent
    remove(parent)
    copy_of(copy, parent)


@pytest.mark.attack("shell commands")
@pytest.mark.parametrize(("command", "program"), cases())
def test_a_command_that_does_harm_does_none_unasked(
    decide: Judge, parent: Path, command: str, program: str | None
) -> None:
    if command in GUARDED:
        assert decide(command).verdict == "allow"
        assert effect(command, parent / "proj", parent, guarded=True) == ""
    else:
        assert decide(command).verdict != "allow"
    if program is None or shutil.which(program):
        assert effect(command, parent / "proj", parent), "it does nothing, so it shows nothing"


@pytest.mark.parametrize("command", ["ls", "cat README.md | grep hello", "git log --oneline", "find . -name '*.py'"])
def test_what_only_reads_is_allowed_and_has_no_effect(decide: Judge, parent: Path, command: str) -> None:
    assert decide(command).verdict == "allow"
    assert effect(command, parent / "proj", parent) == ""
