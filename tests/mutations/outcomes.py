"""A plugin of pytest that writes how each test ended to a file: its name, whether it failed, its seconds."""

import json
import os
from pathlib import Path

import pytest

FILE = "MUTATION_OUTCOMES"
"""Environment variable with the path."""


def _note(name: str, outcome: str, seconds: float) -> None:
    with Path(os.environ[FILE]).open("a", encoding="utf-8") as out:
        out.write(json.dumps([name, outcome, seconds]) + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.failed:
        _note(report.nodeid, report.outcome, report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note(report.nodeid, report.outcome, 0.0)
