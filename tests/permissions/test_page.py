"""docs/permissions.md and README say what is so."""

import json
import re
import shlex
from pathlib import Path

from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.places import judge_place
from vibe_jupyter.permissions.shell.judge import judge_command

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
        verdict = judge_command(rest[0], workspace) if kind == "bash" else judge_place(workspace, rest[1], "write")
        assert (verdict.verdict, verdict.rule) == (expected["verdict"], expected["rule"])
        assert verdict.reason.startswith(expected["reason"].rstrip("…"))


ARGUMENTS = {
    "find": "find src",
    "xargs": "find src -name '*.py' | xargs wc",
    "grep": "grep x README.md",
    "rg": "rg x src",
    "git grep": "git grep x -- src",
    "which": "which ls",
    "diff": "diff README.md src/main.py",
    "tr": "cat README.md | tr a b",
    "test": "test -f README.md",
    "[": "[ -f README.md ]",
    "sed": "sed -n 1p README.md",
    "awk": "awk '{print $1}' README.md",
    "jq": "jq . README.md",
    "pip show": "pip show x",
    "command -v": "command -v python",
    "git blame": "git blame README.md",
    "printf": "printf x",
}
ALONE = ("git", "ls", "df", "tree", "echo", "python", "pip", "nvidia-smi", "free", "nproc", "ps", "uname", "date")


def test_the_commands_the_page_names_run_unasked(shell_project: Path) -> None:
    (names,) = re.findall(r"come from a fixed list: (.+?) and others that only read", PAGE, re.DOTALL)
    found = re.findall(r"`(.+?)`", names)
    first = found.index("git status") + 1
    git = [f"git {name}" for name in found[first:]]
    for name in [*found[:first], *git]:
        command = ARGUMENTS.get(name) or (name if name.startswith(ALONE) else f"{name} README.md")
        assert judge_command(command, Workspace(shell_project)).verdict == "allow", command
