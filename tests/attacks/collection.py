"""A pytest plugin that selects attacks and attaches their verdicts to the reports of tests."""

from collections import defaultdict
from collections.abc import Callable, Collection, Generator
from hashlib import sha256
from typing import Final

import pytest

from tests.attacks import FAMILIES, SAMPLE
from tests.tiers import LEFT_OUT

FAMILY: Final = "attack"  # keys of user properties, which reach the controller of pytest-xdist
ATTEMPTS: Final = "attack attempts"

Attempts = Callable[[Collection[str], Collection[str]], None]


def family_of(item: pytest.Item) -> str:
    """Return the family of an attack; '' if the test is none."""
    marker = item.get_closest_marker("attack")
    return str(marker.args[0]) if marker else ""


def add_options(parser: pytest.Parser) -> None:
    """Add the option that chooses families. Called by conftest: a plugin that it registers is too late."""
    parser.addoption("--family", action="append", default=[], help="run attacks of this family only")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail the collection of a test whose family is not listed: it would be missing in every table."""
    report = yield
    items = [item for item in report.result or () if isinstance(item, pytest.Item)]
    if unknown := {family for item in items if (family := family_of(item))} - FAMILIES.keys():
        report.outcome, report.result = "failed", []
        report.longrepr = f"tests/attacks/families.toml does not have: {sorted(unknown)}"
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen families, or the sample for `make test`."""
    left_out: list[pytest.Item] = []
    if config.option.markexpr == LEFT_OUT:
        left_out = _beyond_sample(items)
    elif config.option.markexpr == "attack":
        chosen = config.getoption("--family") or FAMILIES
        left_out = [item for item in items if family_of(item) not in chosen or _runs_in_another_kernel(item)]
    if left_out:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)


def _runs_in_another_kernel(item: pytest.Item) -> bool:
    """Return whether the test repeats attempts in another version of ipykernel or Python."""
    groups = [str(marker.args[0]) for marker in item.iter_markers("xdist_group")]
    return any(group.startswith("kernel-") and group != "kernel-installed" for group in groups)


def _beyond_sample(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return attacks that only `make attacks` runs. Chosen by hash: the same in each worker and on each day."""
    by_test: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("attack")
        # The matrix is left out later: if its attempt were the chosen one, no attempt of the test would run.
        if marker and not marker.kwargs.get("always") and item.get_closest_marker("matrix") is None:
            by_test[item.nodeid.partition("[")[0]].append(item)
    left_out: list[pytest.Item] = []
    for attempts in by_test.values():
        attempts.sort(key=lambda item: sha256(item.nodeid.encode()).digest())
        left_out += attempts[max(1, len(attempts) // SAMPLE) :]
    return left_out


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Name the family in the reports of the test."""
    if family := family_of(item):
        item.user_properties.append((FAMILY, family))


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> Attempts:
    """Report the attempts of a test that makes several: `attempts(names, names_that_got_through)`."""

    def report(tried: Collection[str], through: Collection[str]) -> None:
        request.node.user_properties.append((ATTEMPTS, [len(set(tried)), len(set(through))]))

    return report
