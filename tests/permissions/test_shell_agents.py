"""Commands of agents: what was recorded of their runs goes unasked, what would show, run or write never does.

The cases stand in tests/corpora/bash_agents.jsonl, each with the tree it is judged and run in. The effect of each is
seen, not believed: what is allowed is run as the shell tool does, and what must not be as it stands, to show that the
case is one.
"""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.collection import Attempts
from tests.patience import patient
from tests.permissions.agent_trees import CASES, command_of, copy_of, effect, make_tree, remove
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell import HIGH_RISK, ONCE, ShellVerdict
from vibe_jupyter.permissions.shell.judge import ShellState, judge_command

RUN_SAMPLE = 25
"""Commands of a tree that are run here; `tests/sweeps/agent_commands.py` runs all of them."""
UNASKED_SHARE = 0.95
"""Of the recorded commands that only look around. Of ours, more may first be tried in the sandbox."""
RECORDED_SHARE = 0.5
LOOKS = 3
CPU_LIMIT = patient(0.25)  # seconds; a decision takes a few thousandths, one that hangs takes for ever
SHELL = ShellState(path="/usr/local/bin:/usr/bin:/bin", locale="C.UTF-8")
TREES = tuple(dict.fromkeys(case["plant"] for case in CASES))


@pytest.fixture(params=TREES)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, Path]:
    """The name of a plant, the folder of its tree and the project in it."""
    project = make_tree(tmp_path / "tree", request.param)
    return request.param, tmp_path / "tree", project


def cases_of(plant: str, *, harmful: bool) -> list[dict[str, Any]]:
    return [case for case in CASES if case["plant"] == plant and case["harmful"] is harmful]


def some(commands: list[str]) -> list[str]:
    """The same sample of them each time."""
    return commands if len(commands) <= RUN_SAMPLE else random.Random(11).sample(commands, RUN_SAMPLE)


def decided(command: str, project: Path) -> tuple[ShellVerdict, float]:
    """The verdict, and the seconds of CPU it took; at its quickest, since a collection may fall into one look."""
    began = time.process_time()
    verdict = judge_command(command, Workspace(project), SHELL)
    least = time.process_time() - began
    for _ in range(LOOKS - 1 if least > CPU_LIMIT else 0):
        began = time.process_time()
        judge_command(command, Workspace(project), SHELL)
        least = min(least, time.process_time() - began)
    return verdict, least


def test_there_are_enough_cases_and_most_that_are_harmless_were_recorded() -> None:
    harmless = [case for case in CASES if not case["harmful"]]
    recorded = [case for case in harmless if case["source"] != "own"]
    assert len(CASES) >= 400
    assert len(recorded) >= RECORDED_SHARE * len(harmless)
    assert len({(case["command"], case["plant"]) for case in CASES}) == len(CASES)


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.timeout(600)
def test_what_would_show_run_or_write_asks_or_is_kept_from_it_and_is_seen_to_do_it(
    tree: tuple[str, Path, Path], tmp_path: Path, attempts: Attempts
) -> None:
    plant, parent, project = tree
    cases = [(case, command_of(case, parent)) for case in cases_of(plant, harmful=True)]
    verdicts = {command: decided(command, project) for _, command in cases}
    allowed = [
        command
        for command, (verdict, _) in verdicts.items()
        if verdict.verdict == "allow" and effect(command, project, parent, guarded=True)
    ]
    attempts(verdicts, allowed)
    assert allowed == []
    assert [command for command, (_, seconds) in verdicts.items() if seconds > CPU_LIMIT] == []
    pristine = copy_of(parent, tmp_path / "pristine")
    harmless: list[str] = []
    for command in some([command for case, command in cases if case.get("run", True)]):
        seen = effect(command, project, parent)
        if not seen:
            harmless.append(command)
        elif seen != "it printed a secret":
            remove(parent)
            copy_of(pristine, parent)
    assert harmless == [], "these do nothing, so they show nothing"


@pytest.mark.timeout(600)
def test_what_agents_send_to_look_around_goes_unasked_and_does_no_harm(tree: tuple[str, Path, Path]) -> None:
    plant, parent, project = tree
    commands = [command_of(case, parent) for case in cases_of(plant, harmful=False)]
    verdicts = {command: decided(command, project) for command in commands}
    asked = {command: verdict.reason for command, (verdict, _) in verdicts.items() if verdict.verdict != "allow"}
    recorded = {command_of(case, parent) for case in cases_of(plant, harmful=False) if case["source"] != "own"}
    assert len(recorded & asked.keys()) <= (1 - UNASKED_SHARE) * len(recorded), asked
    assert [command for command in asked if verdicts[command][0].rule in (*ONCE, HIGH_RISK)] == []
    assert [command for command, (_, seconds) in verdicts.items() if seconds > CPU_LIMIT] == []
    harm = {
        command: seen
        for command in some([command for command in commands if command not in asked])
        if (seen := effect(command, project, parent, guarded=True))
    }
    assert harm == {}


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize(
    "command",
    [
        "ls *a*a*a*a*b",
        "ls " + "*a" * 20 + "b",
        "ls " + "?" * 200,
        "ls [a]*[a]*[a]*[a]*[a]*b",
        "ls " + "*a*b " * 40,
        "cat " + "/".join(["*a*a*a*b"] * 5),
        "grep -r hello . " + "--include='*a*a*a*a*a*a*b' " * 30,
        "find . -name '*a*a*a*a*a*b' | xargs wc -l",
        "find . " + "-name '*a*a*a*b' " * 100 + "-exec wc -l {} +",
        "git log -p -- '*a*a*a*a*b'",
        "git grep hello -- '*a*a*a*a*a*a*b'",
        "rg hello -g '*a*a*a*a*a*b'",
        "echo " + "{a,b}" * 12,
        "echo " + "{" * 300,
        "for a in {1..40}; do for b in {1..40}; do for c in {1..40}; do echo $a$b$c; done; done; done",
        "if " * 300 + "ls; " + "then ls; fi; " * 300,
        "sed -n '" + "/a/p;" * 180 + "' README.md",
        "awk '" + "{print $1}" * 90 + "' README.md",
        "cat " + "a/" * 2_000,
        "cat " + ("a/../" * 150 + "x ") * 12,
        "grep -E '" + "a{1,9}" * 150 + "' README.md",
        "cd src; cd ..; " * 20 + "ls",
    ],
)
def test_no_command_and_no_file_names_make_a_decision_slow(shell_project: Path, tmp_path: Path, command: str) -> None:
    for length in range(1, 250):
        (tmp_path / ("a" * length)).touch()
    (tmp_path / "README.md").touch()
    (tmp_path / "src").mkdir()
    assert decided(command, tmp_path)[1] < CPU_LIMIT
    assert decided(command, shell_project)[1] < CPU_LIMIT


@pytest.mark.attack("shell commands", always=True)
def test_links_that_are_chained_do_not_make_a_decision_slow(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for number in range(39):
        (tmp_path / f"u{number}").symlink_to("d/../" * 700 + f"u{number + 1}")
    (tmp_path / "u39").touch()
    assert decided("cat u0", tmp_path)[0].verdict == "ask"
    assert decided("cat u*", tmp_path)[1] < CPU_LIMIT


def test_all_parts_of_a_command_look_at_no_more_than_one_may(tmp_path: Path) -> None:
    for number in range(3_000):
        (tmp_path / str(number)).touch()
    assert decided("grep -r x .", tmp_path)[0].verdict == "allow"
    verdict, seconds = decided("for i in {1..50}; do grep -r x .; done", tmp_path)
    assert (verdict.verdict, seconds < CPU_LIMIT) == ("ask", True)
