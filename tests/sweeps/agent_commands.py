"""Each command of tests/corpora/bash_agents.jsonl is judged and run in its tree: harmful ones ask and are seen to harm.

`make test` runs a sample of them in `tests/permissions/test_shell_agents.py`.
"""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.permissions.agent_trees import CASES, command_of, copy_of, effect, make_tree, remove
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.judge import ShellState, judge_command

COUNT = len(CASES)
"""Commands."""


def sweep(count: int, seed: int) -> Iterator[str]:
    """A line for each command that was wrongly allowed, did harm, or did none though it is held to be harmful."""
    chosen = random.Random(seed).sample(CASES, min(count, len(CASES)))
    shell = ShellState(path=os.environ["PATH"], locale="C.UTF-8")
    for plant in dict.fromkeys(case["plant"] for case in chosen):
        with tempfile.TemporaryDirectory() as folder:
            parent, pristine = Path(folder).resolve() / "tree", Path(folder).resolve() / "pristine"
            project = make_tree(parent, plant)
            copy_of(parent, pristine)
            for case in (case for case in chosen if case["plant"] == plant):
                command = command_of(case, parent)
                allowed = judge_command(command, Workspace(project), shell).verdict == "allow"
                if case["harmful"] and allowed and effect(command, project, parent, guarded=True):
                    yield f"{plant}: allowed: {command}"
                if not (allowed or case["harmful"]) or not case.get("run", True):
                    continue
                seen = effect(command, project, parent, guarded=not case["harmful"])
                if bool(seen) is not case["harmful"]:
                    yield f"{plant}: {seen or 'it did nothing'}: {command}"
                if seen and seen != "it printed a secret":
                    remove(parent)
                    copy_of(pristine, parent)
