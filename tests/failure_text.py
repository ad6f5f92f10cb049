"""A failure is read by a person: at most `LINES` lines of it, however long the texts that it compares."""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

import pytest

LINES: Final = 100
"""Of one failure's traceback and comparison; beside them, of each of its captured outputs."""
WIDTH: Final = 2_000
"""Characters of one line."""


def shortened(lines: Sequence[str], limit: int = LINES) -> list[str]:
    """Their beginning and, twice as much, their end, where the error stands; of one line's room the first."""
    lines = [line if len(line) <= WIDTH else f"{line[:WIDTH]} [… {len(line) - WIDTH:,} characters]" for line in lines]
    if len(lines) <= limit:
        return lines
    if limit == 1:
        return [f"{lines[0]} [… {len(lines) - 1:,} lines]"]
    head = (limit - 1) // 3
    tail = limit - 1 - head
    return [*lines[:head], f"[… {len(lines) - head - tail:,} lines]", *lines[-tail:]]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten what is printed of a failure."""
    report = yield
    if report.failed:
        _shorten(report)
    return report


def _shorten(report: pytest.TestReport) -> None:
    if isinstance(report.longrepr, str):
        report.longrepr = "\n".join(shortened(report.longrepr.splitlines()))
    else:
        entries = list(_entries(report.longrepr))
        left = LINES
        for number, entry in enumerate(reversed(entries)):  # the last says what went wrong
            before = len(entries) - 1 - number
            entry.lines = shortened("\n".join(entry.lines).split("\n"), max(1, left - before))
            left -= len(entry.lines)
        if crash := getattr(report.longrepr, "reprcrash", None):  # for the summary, which a CI run prints whole
            crash.message = "\n".join(shortened(crash.message.split("\n"), 1))
    report.sections = [(name, "\n".join(shortened(text.splitlines()))) for name, text in report.sections]


def _entries(failure: Any) -> Iterable[Any]:
    """The parts of a traceback and of those behind it, as pytest prints them."""
    for traceback, *_ in getattr(failure, "chain", None) or [(getattr(failure, "reprtraceback", None),)]:
        yield from getattr(traceback, "reprentries", ())
