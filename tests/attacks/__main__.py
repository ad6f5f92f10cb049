"""Run attacks and print verdicts: `python -m tests.attacks [FAMILY ...]`, all families when none is named."""

import argparse
import sys
from pathlib import Path

import pytest

from tests.attacks import FAMILIES, LEAST
from tests.attacks.verdicts import Verdicts, as_argument, lines, table

TESTS = Path(__file__).parents[1]


def main() -> int:
    """Return 0 if every attempt held."""
    arguments = {as_argument(name): name for name in FAMILIES}
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(arguments)}")
    parser.add_argument("--list", action="store_true", help="print the families and run nothing")
    parser.add_argument("--table", action="store_true", help="print the table of docs/security.md at the end")
    parser.add_argument("--jobs", default="4", help="test processes; 0: in this process (default: %(default)s)")
    given = parser.parse_args()
    if unknown := {as_argument(name) for name in given.families} - arguments.keys():
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    if given.list:
        print(*(f"{name}: {FAMILIES[family]}" for name, family in arguments.items()), sep="\n")
        return 0
    chosen = [arguments[as_argument(name)] for name in given.families]
    verdicts = Verdicts()
    pytest.main([*_options(given.jobs), *(f"--family={name}" for name in chosen), *_modules()], [verdicts])
    print(*lines(verdicts, chosen or FAMILIES), sep="\n")
    if given.table:
        print("", table(verdicts), sep="\n")
    tried = sum(family.tried for family in verdicts.families.values())
    if not chosen and tried < LEAST:
        print(f"fewer than {LEAST} were tried")
        return 1
    return 0 if verdicts.passed else 1


def _options(jobs: str) -> list[str]:
    """Return options of pytest; no second tries, since an attempt that got through once got through."""
    workers = ["-n", jobs, "--dist", "loadgroup", "--no-loadscope-reorder"] if jobs != "0" else []
    return ["-m", "attack", "-q", "-r", "fE", "-p", "no:cacheprovider", *workers]


def _modules() -> list[str]:
    """Return modules with attacks: to import all tests would take each worker a minute."""
    return [str(path) for path in sorted(TESTS.rglob("test_*.py")) if "mark.attack(" in path.read_text("utf-8")]


if __name__ == "__main__":
    sys.exit(main())
