"""Tests that may need a second try: how many in a run, and which for a reason that is listed here.

A failed test is run once more (`--reruns` in the Makefile), which tells a race from what is simply broken. That it then
passed proves nothing: the race is in the test or in the product, and a user meets it too. So each is named at the end
of the run with its first traceback, to be looked into. A run fails only with more of them than `FORGIVEN`: of thousands
of tests with kernels and pages on two cores a few are late now and then, which says nothing about a change.
"""

import re
from collections.abc import Generator
from typing import Final

import pytest

REASONS: Final[dict[str, str]] = {
    r"tests/mcp/.*": (
        "seen in two of four runs at a load of 8: a socket that asyncio connected and nobody closed is blamed on "
        "a test that runs later; which test leaves it is unknown"
    ),
}
"""Node id of a test (a regular expression of all of it, without its group) to why a second try proves enough."""

FORGIVEN: Final = 5
"""Tests without a listed reason that a run may run again and still pass."""

_GROUP: Final = re.compile(r"@[^@\]]+$")
"""What pytest-xdist hangs on the id of a test that has a group."""


def why(test: str) -> str | None:
    """Why a test may be run a second time; None where it may not."""
    return next((because for pattern, because in REASONS.items() if re.fullmatch(pattern, test, re.DOTALL)), None)


class RerunJudge:
    """A plugin of pytest: collects what was run again, in the process that hears of all tests."""

    def __init__(self) -> None:
        self._tests: list[str] = []
        self._terminal: pytest.TerminalReporter | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Find where to print."""
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a test whose first try failed, and name one that failed for good."""
        if report.failed and self._terminal is not None:
            self._terminal.write_line(f"\nFAILED {report.nodeid}")  # at once: a long run may be ended early
        if report.outcome == "rerun":  # pyright: ignore[reportUnnecessaryComparison]  # pytest-rerunfailures' own
            self._tests.append(_GROUP.sub("", report.nodeid))

    def _too_many(self) -> bool:
        return len({test for test in self._tests if why(test) is None}) > FORGIVEN

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that would pass, if it needed too many second tries."""
        if session.exitstatus == pytest.ExitCode.OK and self._too_many():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Name them, and say what follows; at the very end, where the log of a failed run is read first."""
        yield
        if self._tests:
            terminalreporter.section("run again")
        for test in sorted(set(self._tests)):
            terminalreporter.line(f"{test}: {why(test) or 'no listed reason (tests/reruns.py)'}")
        if self._too_many():
            terminalreporter.line(f"More than {FORGIVEN} without a listed reason, so the run fails.")
