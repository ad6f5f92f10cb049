"""`vibe-jupyter permission`: what people read, and what programs read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import patient
from tests.permissions.shell_tree import MARKER

COMMAND = [sys.executable, "-c", "import sys; from vibe_jupyter.cli import main; sys.exit(main())", "permission"]
CORPORA = Path(__file__).parents[1] / "corpora"
WAIT = patient(60)  # seconds
MODULES_LIMIT = 260
"""Modules the command imports, Python's own ones counted."""


def run(
    project: Path, *words: str, lines: str | bytes = "", home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    raw = lines.encode() if isinstance(lines, str) else lines
    environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "VIBE_HOME": str(home or project / "no-home"),
    }
    done = subprocess.run(
        [*COMMAND, *words[:1], "--project", str(project), *words[1:]],
        input=raw,
        capture_output=True,
        env=environ,
        timeout=WAIT,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def answers(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_command_gets_its_verdict_its_rule_and_the_reason(shell_project: Path) -> None:
    done = run(shell_project, "bash", "git log --output=x")
    assert answers(done) == [
        {"verdict": "ask", "rule": "option", "reason": "git log --output is not known to be read-only"}
    ]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "verdict", "rule"),
    [
        (("read", "README.md"), "allow", "inside"),
        (("read", "nosuch"), "allow", "inside"),
        (("read", "../outside/secret.txt"), "ask", "outside"),
        (("read", "link_out"), "ask", "outside"),
        (("read", ".env"), "ask", "protected"),
        (("write", ".git/hooks/pre-commit"), "ask", "protected"),
        (("write", "new.txt"), "allow", "inside"),
        (("read", "pipe"), "ask", "special"),
        (("read", "src"), "deny", "kind"),
        (("list", "src"), "allow", "inside"),
        (("list", ".."), "ask", "outside"),
        (("read", ""), "deny", "malformed"),
    ],
)
def test_a_place_is_judged_alone(shell_project: Path, words: tuple[str, str], verdict: str, rule: str) -> None:
    (answer,) = answers(run(shell_project, "path", *words))
    assert (answer["verdict"], answer["rule"]) == (verdict, rule)
    assert answer["reason"]


def test_lines_are_answered_one_by_one_in_order_and_a_bad_one_ends_nothing(shell_project: Path) -> None:
    lines = (
        b'{"command": "ls"}\n\nnonsense\n[1]\n{"command": 5}\n{}\n\xff\n{"command": "a\\u0000"}\n{"command": "make"}'
    )
    done = run(shell_project, "bash", "--jsonl", lines=lines)
    said = answers(done)
    assert [answer.get("verdict", "error") for answer in said] == ["allow", *["error"] * 5, "deny", "ask"]
    assert all(answer.get("error") for answer in said[1:6])
    assert done.returncode == 1
    assert run(shell_project, "bash", "--jsonl", lines='{"command": "ls"}\n').returncode == 0


def test_places_are_read_from_lines_too(shell_project: Path) -> None:
    lines = (
        '{"op": "read", "path": "README.md"}\n{"op": "eat", "path": "x"}\n{"op": "list", "path": "/"}\n{"path": "x"}\n'
    )
    said = answers(run(shell_project, "path", "--jsonl", lines=lines))
    assert [answer.get("verdict", "error") for answer in said] == ["allow", "error", "ask", "error"]


@pytest.mark.requirement("programmatic.permission.jsonl")
def test_commands_and_places_are_read_from_the_same_lines(shell_project: Path) -> None:
    lines = '{"command": "ls"}\n{"op": "read", "path": "../outside/secret.txt"}\n{"command": "make"}\n{"op": "read"}\n'
    done = run(shell_project, "--jsonl", lines=lines)
    assert [answer.get("rule", "error") for answer in answers(done)] == ["read-only", "outside", "option", "error"]
    assert run(shell_project).returncode == 2


def test_the_corpus_of_commands_through_the_command_line(shell_project: Path) -> None:
    cases = [json.loads(line) for line in (CORPORA / "bash_permission.jsonl").read_text(encoding="utf-8").splitlines()]
    sent = "".join(f"{json.dumps({'command': case['command']})}\n" for case in cases)
    said = answers(run(shell_project, "bash", "--jsonl", lines=sent.replace("@PARENT@", str(shell_project.parent))))
    assert len(said) == len(cases)
    wrong = [case["id"] for case, answer in zip(cases, said, strict=True) if _is_wrong(case, answer["verdict"])]
    assert wrong == []
    assert not (shell_project / MARKER).exists()


def _is_wrong(case: dict[str, Any], verdict: str) -> bool:
    return (verdict == "allow") is case["must_not_auto_allow"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bash",), "as one argument"),
        (("bash", "ls", "src"), "as one argument"),
        (("path", "read"), "one path"),
        (("path", "eat", "x"), "not one of read, write, list"),
    ],
)
def test_wrong_usage_is_said_with_the_right_one(shell_project: Path, words: tuple[str, ...], said: str) -> None:
    done = run(shell_project, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_project_that_is_no_folder_is_said(tmp_path: Path) -> None:
    done = run(tmp_path / "nowhere", "bash", "ls")
    assert done.returncode == 2
    assert "is not a folder" in done.stderr


def test_the_persons_own_lists_count(shell_project: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[tools.bash]\nallowlist = ["npm run"]\ndenylist = ["make"]\n')
    said = answers(
        run(
            shell_project,
            "bash",
            "--jsonl",
            lines='{"command": "npm run x"}\n{"command": "make"}\n{"command": "vim"}\n',
            home=tmp_path,
        )
    )
    assert [(answer["verdict"], answer["rule"]) for answer in said] == [
        ("allow", "allowlist"),
        ("deny", "denylist"),
        ("deny", "denylist"),
    ]
    (tmp_path / "config.toml").write_text("[tools.bash]\nallowlist = 5\n")
    broken = run(shell_project, "bash", "ls", home=tmp_path)
    assert broken.returncode == 2
    assert "config.toml" in broken.stderr


def test_it_starts_with_little(shell_project: Path) -> None:
    code = (
        "import sys; from vibe_jupyter.cli import main; "
        f"main(['permission', 'bash', '--project', {str(shell_project)!r}, 'ls']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    names = done.stdout.splitlines()[-1].split()
    assert not {"IPython", "jupyter_client", "httpx", "pydantic", "mcp", "asyncio"}.intersection(names)
    assert len(names) <= MODULES_LIMIT
