"""The workflow of docs/ci, its script run in a clone of a repository with a pull request."""

import os
import shlex
import subprocess
from pathlib import Path

import nbformat
import pytest
import yaml

from tests.headless.test_run import WAIT, environment, model, texts, work, write
from tests.kernel.fork_server import program_command
from vibe_jupyter.testing import ScriptedModel, call

__all__ = ["environment", "model", "work"]
WORKFLOW = Path(__file__).parents[2] / "docs" / "ci" / "notebooks.yml"


def script() -> str:
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["notebooks"]["steps"]
    return next(step["run"] for step in steps if step.get("name") == "Verify, and repair what fails")


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.requirement("headless.ci-recipe")
def test_a_failing_notebook_of_a_pull_request_fails_the_check_with_its_repair_as_a_patch(
    environment: dict[str, str], work: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    sound = write(work / "sound one.ipynb", "1 + 1")
    failing = write(work / "failing.ipynb", "total = 6")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", ".")
    git(work, "commit", "-qm", "base")
    git(work, "switch", "-qc", "change")
    write(sound, "1 + 2")
    write(failing, "total = 6", "totl * 7", "print('after')")
    git(work, "commit", "-qam", "change")
    program = tmp_path / "bin" / "vibe-jupyter"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(program_command())} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    model.will_reply(
        call("read_notebook"),
        call("edit_cell", cell="[2]", source="total * 7", run=True),
        call("run_cells", cells=["[1]"]),
        "Fixed.",
    )
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script()],
        cwd=work,
        env={**environment, "PATH": f"{program.parent}{os.pathsep}{environment['PATH']}", "BASE": "main"},
        capture_output=True,
        text=True,
        timeout=2 * WAIT,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "::warning file=failing.ipynb::Repaired: apply notebooks.patch" in done.stdout
    git(work, "checkout", "-q", "--", "failing.ipynb")
    assert "totl" in failing.read_text(encoding="utf-8")
    git(work, "apply", "notebooks.patch")
    assert texts(failing)[:3] == ["", "42", "after\n"]
    assert nbformat.read(failing, as_version=4).cells[1].source == "total * 7"
