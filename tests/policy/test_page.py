"""docs/permissions.md and README say what is so."""

import json
import re
import shlex
from pathlib import Path

from vibe_jupyter.policy.places import judge_place
from vibe_jupyter.policy.shell.judge import judge
from vibe_jupyter.tools.workspace import Workspace

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "permissions.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^\$ vibe-jupyter permission (.+)\n(\{.+\})$", re.MULTILINE)


def test_the_examples_answer_as_the_page_says(shell_project: Path) -> None:
    workspace = Workspace(shell_project)
    examples = EXAMPLE.findall(PAGE)
    assert len(examples) == 2
    for words, answer in examples:
        expected = json.loads(answer)
        kind, *rest = shlex.split(words)
        verdict = judge(rest[0], workspace) if kind == "bash" else judge_place(workspace, rest[1], "write")
        assert (verdict.verdict, verdict.rule) == (expected["verdict"], expected["rule"])
        assert verdict.reason.startswith(expected["reason"].rstrip("…"))


def test_the_commands_the_page_names_run_unasked(shell_project: Path) -> None:
    (names,) = re.findall(r"names and options of a fixed list \((.+?) and a few more\)", PAGE, re.DOTALL)
    for name in re.findall(r"`(.+?)`", names):
        name = f"git {name}" if name in ("log", "show") else name
        given = {"grep": "grep x README.md", "which": "which ls", "diff": "diff README.md src/main.py"}.get(name, name)
        fed = (
            given
            if name.startswith(("git", "find", "ls", "pwd", "echo", "tree")) or given != name
            else f"{name} README.md"
        )
        assert judge(fed, Workspace(shell_project)).verdict == "allow", fed
