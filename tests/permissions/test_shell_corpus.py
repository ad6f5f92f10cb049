"""The corpus of shell commands: what would do harm is never let through, what only reads here never asks."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.permissions.conftest import Judge

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "corpora" / "bash_permission.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
TIER_2_SHARE = 0.9


def cases(*, harmful: bool, tier: int | None = None) -> list[Any]:
    chosen = [case for case in CASES if case["must_not_auto_allow"] is harmful and case.get("tier") == tier]
    return [pytest.param(case["command"], id=case["id"]) for case in chosen]


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize("command", cases(harmful=True))
def test_what_may_do_harm_is_not_allowed(decide: Judge, command: str) -> None:
    assert decide(command).verdict != "allow"


@pytest.mark.requirement("tools.bash.allow.defaults")
@pytest.mark.parametrize("command", cases(harmful=False, tier=1))
def test_what_people_use_most_does_not_ask(decide: Judge, command: str) -> None:
    verdict = decide(command)
    assert (verdict.verdict, verdict.rule) == ("allow", "read-only"), verdict.reason


def test_most_of_the_rest_that_is_harmless_does_not_ask(decide: Judge) -> None:
    commands = [case["command"] for case in CASES if case.get("tier") == 2]
    allowed = [command for command in commands if decide(command).verdict == "allow"]
    assert len(allowed) >= TIER_2_SHARE * len(commands)


def test_every_answer_gives_its_reason_in_words(decide: Judge) -> None:
    verdicts = [decide(case["command"]) for case in CASES]
    assert all(verdict.reason and "\n" not in verdict.reason for verdict in verdicts)
