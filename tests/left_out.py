"""Tests that a run leaves out: each for a reason that is listed here and printed at the end, or the run fails.

A skipped test proves nothing, and nobody reads an "s" between a thousand dots. So a skip is an error, unless its reason
is one of `REASONS`: then no promise of the product goes untested because of it, or the machine cannot show it.
"""

import re
from collections import defaultdict
from collections.abc import Generator
from typing import Final

import pytest

REASONS: Final = {
    r"nothing is forbidden to the superuser": "tested as another user, in a process that gives up its rights",
    r"only the superuser can become somebody else": "tested with the rights of this account",
    r"Python 3\.\d+ is not installed here": "make test-matrix installs it and runs these tests",
    r"nest_asyncio loses the tasks of Python 3\.14": "so it does without us; code that awaits is tested there",
    r"this ipykernel has no subshells": "it is an old version; the installed one has them and is tested",
    r"this file system has no attributes": "there are none to keep",
    r"no extended attributes here": "there are none to keep",
    r"only Linux exchanges two names at once": "the race needs it; every other system opens files in the same way",
    r"this OpenBLAS hides the number of its threads": "its idle threads cost a copy some 30 ms; others are tested",
    r"looks into /proc": "only Linux has it",
    r"only Linux holds a process at its end": "what it waits for is the same code everywhere",
    r"no sandbox on this machine": "there everything asks, which is tested everywhere",
    r"no overlay on this machine": "there a trial run ends at the first write, which is tested everywhere",
    r"no user namespaces here": "what is said where there are none is looked at with a machine that has them",
    r"no container can be made here: (unshare|mount|setpriv): .*": "the same attempts are made outside of one",
    r"limits of a process .*": "only Linux has them",
    r"Java is not installed here": "Spark runs on it; make test-matrix describes its objects where there is one",
    r"redis-server is not installed here": "its package needs the rights of root; the same tests run on SQLite",
    r"llama-server.*": "its package does not run on this processor; every dialect is tested on scripted servers too",
}
"""What a skip may say (a regular expression of the whole reason), and why the run is whole all the same."""

_PREFIX: Final = "Skipped: "


def why(reason: str) -> str | None:
    """Why a test may be left out for this reason; None where it may not."""
    return next((because for pattern, because in REASONS.items() if re.fullmatch(pattern, reason, re.DOTALL)), None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is left out for another reason fails."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        _judge(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that is left out whole."""
    report = yield
    if report.skipped:
        _judge(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out, and say why."""
    left_out: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", ()):
        left_out[_reason(report)].append(report.nodeid)
    if left_out:
        terminalreporter.section("left out")
    for reason, tests in sorted(left_out.items()):
        terminalreporter.line(f"left out: {len(tests)} because {reason} ({why(reason)})")
        for test in tests:
            terminalreporter.line(f"  {test}")


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = _reason(report)
    if why(reason) is None:
        report.outcome = "failed"
        report.longrepr = f"left out, because {reason}: no listed reason (tests/left_out.py). What it needs is missing."


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    where = report.longrepr
    return str(where[2] if isinstance(where, tuple) else where).removeprefix(_PREFIX)
