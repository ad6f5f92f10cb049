"""The driver of nested awaits alone, on each Python found and on other loops."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.kernel.matrix import ROOT, find_python
from tests.patience import patient

SCRIPT = Path(__file__).with_name("nested_script.py")
CASES = ("plain", "debug", "order", "shut-out", "interrupt", "busy", "stubborn", "error")
ONLY_HERE = ("nest-asyncio", "foreign")
"""Cases for the Python of the tests alone."""
pytestmark = pytest.mark.xdist_group("nested")


@pytest.mark.requirement("notebook.run_code.await")
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("case", CASES)
def test_the_driver_works_on_every_python(version: str, case: str) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed here")
    assert passes(case, run(python, *CASES))


def test_nest_asyncio_takes_over_where_the_driver_lacks_a_name() -> None:
    assert passes("nest-asyncio", run(sys.executable, *ONLY_HERE))


def test_a_loop_that_nobody_can_turn_is_named() -> None:
    assert passes("foreign", run(sys.executable, *ONLY_HERE))


def test_a_user_of_uvloop_is_told() -> None:
    pytest.importorskip("uvloop")
    assert passes("uvloop", run(sys.executable, "uvloop"))


def passes(case: str, ended: "subprocess.CompletedProcess[str]") -> bool:
    assert not ended.stderr
    return case in ended.stdout.splitlines()


@cache
def run(python: str, *cases: str) -> "subprocess.CompletedProcess[str]":
    """All of them, once."""
    return subprocess.run(
        [python, "-W", "error", "-B", str(SCRIPT), *cases],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
