"""Verdicts of a run of attacks, by family."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.attacks import FAMILIES
from tests.attacks.collection import ATTEMPTS, FAMILY

_GROUP: Final = re.compile(r"@[^@\]]+$")  # appended to test ids by pytest-xdist


@dataclass
class FamilyVerdict:
    """Counts of one family."""

    tried: int = 0
    through: int = 0
    broken: int = 0  # tests without a verdict: their setup failed
    left_out: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # tests by reason

    @property
    def held(self) -> int:
        """Return the number of attempts that had no effect."""
        return self.tried - self.through


class Verdicts:
    """A pytest plugin that counts verdicts in the process that hears of all tests."""

    def __init__(self) -> None:
        self.families: dict[str, FamilyVerdict] = {name: FamilyVerdict() for name in FAMILIES}
        self._collected: set[str] = set()
        self._reported: set[str] = set()

    @property
    def unreported(self) -> set[str]:
        """Return the ids of collected tests that never ended, as after a crash."""
        return self._collected - self._reported

    @property
    def passed(self) -> bool:
        """Return whether attacks were made, each has a verdict or a reason, and none got through."""
        counts = self.families.values()
        made = any(family.tried for family in counts)
        return made and not self.unreported and not any(family.through or family.broken for family in counts)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the tests of a run without workers."""
        self._collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Remember the tests of a run with workers."""
        self._collected.update(_GROUP.sub("", one) for one in ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: at its call, or at its setup if that did not pass."""
        properties = report.user_properties
        name: Any = dict(properties).get(FAMILY)
        if name is None or (report.when != "call" and report.passed):
            return
        family = self.families[name]
        self._reported.add(_GROUP.sub("", report.nodeid))
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            family.left_out[reason.removeprefix("Skipped: ")] += 1
        elif report.when != "call":
            family.broken += 1
        else:
            counts: list[Any] = [value for key, value in properties if key == ATTEMPTS]
            through = sum(count for _, count in counts)
            family.tried += sum(count for count, _ in counts) or 1
            family.through += through or int(report.failed)


def lines(verdicts: Verdicts, names: Iterable[str]) -> list[str]:
    """Return one line for each family, and the sum."""
    told: list[str] = []
    for name in names:
        family = verdicts.families[name]
        told.append(f"{name}: {family.tried} tried, {family.held} held, {family.through} got through")
        if family.broken:
            told.append(f"  without a verdict, their setup failed: {family.broken}")
        told += [f"  left out: {count}, because {reason}" for reason, count in sorted(family.left_out.items())]
    if verdicts.unreported:
        told.append(f"without a verdict, they never ended: {', '.join(sorted(verdicts.unreported))}")
    tried, held, through = _sums(verdicts)
    return [*told, f"attacks: {tried} tried, {held} held, {through} got through"]


def table(verdicts: Verdicts) -> str:
    """Return the table of docs/security.md."""
    rows = [
        "| family | what an attempt does | tried | held | got through | alone |",
        "|---|---|---:|---:|---:|---|",
    ]
    for name, tried in FAMILIES.items():
        family = verdicts.families[name]
        alone = f'`make attacks ATTACKS="{as_argument(name)}"`'
        rows.append(f"| {name} | {tried} | {family.tried} | {family.held} | {family.through} | {alone} |")
    tried, held, through = _sums(verdicts)
    return "\n".join([*rows, f"| **all** | | **{tried:,}** | **{held:,}** | **{through}** | `make attacks` |"])


def as_argument(name: str) -> str:
    """Return the name of a family as one word of a command line."""
    return name.replace(" ", "-").lower()


def _sums(verdicts: Verdicts) -> tuple[int, int, int]:
    counts = verdicts.families.values()
    return sum(one.tried for one in counts), sum(one.held for one in counts), sum(one.through for one in counts)
