"""Whatever the policy allows, however it was written, does no harm when it runs."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.permissions.shell_fuzz import harm, made, objection
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.judge import ShellState, judge_command

COMMAND = [sys.executable, "-c", "import sys; from vibe_jupyter.cli import main; sys.exit(main())", "permission"]
RUNS = 60
"""Allowed commands that are run; `tests/sweeps/shell_commands.py` runs thousands."""
TRIES = 2_000
"""Commands that are made to get them, at most."""


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_what_is_allowed_stands_up_to_a_reading_of_another_kind(shell_project: Path, chance: random.Random) -> None:
    command = made(chance).replace("@PARENT@", str(shell_project.parent))
    verdict = judge_command(command, Workspace(shell_project), ShellState(path=os.environ["PATH"], locale="C.UTF-8"))
    assert verdict.reason
    assert verdict.verdict != "allow" or not objection(command, shell_project), command


@pytest.mark.parametrize("command", ["{\U00031860", "case é in", "<<\U0010ffff\n{𱡀", "$(\u2603 ${", "\xff" * 3_000])
def test_letters_beyond_ascii_do_not_end_the_process(shell_project: Path, command: str) -> None:
    words = [*COMMAND, "bash", "--jsonl", "--project", str(shell_project)]
    done = subprocess.run(words, input=json.dumps({"command": command}), capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["verdict"] == "ask"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=st.text(max_size=200))
def test_any_text_at_all_gets_a_verdict(shell_project: Path, command: str) -> None:
    assert judge_command(command, Workspace(shell_project)).verdict in ("allow", "ask", "deny")


def test_what_is_allowed_changes_nothing_and_prints_no_secret(fresh_project: Path) -> None:
    chance = random.Random(20)
    workspace, shell = Workspace(fresh_project), ShellState(path=os.environ["PATH"], locale="C.UTF-8")
    done: set[str] = set()
    for _ in range(TRIES):
        command = made(chance).replace("@PARENT@", str(fresh_project.parent))
        if command in done or judge_command(command, workspace, shell).verdict != "allow":
            continue
        done.add(command)
        assert harm(command, fresh_project) == "", command
        if len(done) == RUNS:
            return
    pytest.fail(f"only {len(done)} of {TRIES} commands were allowed: the test runs too little")


def test_the_check_by_running_sees_harm(fresh_project: Path) -> None:
    assert harm("cat ../outside/secret.txt", fresh_project).startswith("it printed")
    assert harm("echo x >> README.md", fresh_project) == "it changed files"
    assert harm("./evil.sh", fresh_project).startswith("it ran a planted program")
