"""Which promises have a test in `make test`: `make requirements`. Collects the tests, runs none."""

import contextlib
import io
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


class _Collected:
    """Remembers the requirement ids of everything that was collected."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for marker in item.iter_markers("requirement"):
                self.ids.update(marker.args)


def main() -> int:
    """Print the lists and the totals; fail if the tests cannot be collected."""
    collected, said = _Collected(), io.StringIO()
    with contextlib.redirect_stdout(said):
        status = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", str(TESTS)], [collected])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(said.getvalue(), "The tests cannot be collected; the list would be wrong.", sep="\n")
        return 1
    _print_report(collected.ids)
    return 0


def _print_report(covered: set[str]) -> None:
    by_issue: defaultdict[str, list[str]] = defaultdict(list)
    for entry in tomllib.loads((TESTS / "requirements.toml").read_text(encoding="utf-8"))["requirement"]:
        by_issue[entry["issue"]].append(entry["id"])
    totals: list[str] = []
    for issue, ids in sorted(by_issue.items()):
        for mark, wanted in (("covered", True), ("not covered", False)):
            names = [name for name in ids if (name in covered) is wanted]
            print(f"\nIssue {issue}, {mark} ({len(names)}):", *(f"  {name}" for name in names), sep="\n")
        done = sum(name in covered for name in ids)
        totals.append(f"Issue {issue}: {done} of {len(ids)} covered, {len(ids) - done} not.")
    everything = sum(len(ids) for ids in by_issue.values())
    print("", *totals, f"All: {len(covered)} of {everything} covered.", sep="\n")


if __name__ == "__main__":
    sys.exit(main())
