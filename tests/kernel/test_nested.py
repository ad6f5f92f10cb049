"""The driver of nested awaits alone, on each Python found and on other loops."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.matrix import ROOT, find_python

SCRIPT = Path(__file__).with_name("nested_script.py")


@pytest.mark.requirement("notebook.run_code.await")
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("case", ["plain", "debug", "order", "shut-out", "interrupt", "busy", "stubborn", "error"])
def test_the_driver_works_on_every_python(version: str, case: str) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed here")
    assert run(python, case) == "ok\n"


def test_nest_asyncio_takes_over_where_the_driver_lacks_a_name() -> None:
    assert run(sys.executable, "nest-asyncio") == "ok\n"


def test_a_loop_that_nobody_can_turn_is_named() -> None:
    assert run(sys.executable, "foreign") == "ok\n"


def test_a_user_of_uvloop_is_told() -> None:
    pytest.importorskip("uvloop")
    assert run(sys.executable, "uvloop") == "ok\n"


def run(python: str, case: str) -> str:
    ended = subprocess.run(
        [python, "-W", "error", "-B", str(SCRIPT), case],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert not ended.stderr
    return ended.stdout
