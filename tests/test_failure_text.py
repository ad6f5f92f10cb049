"""What a failed run prints: little of each failure, and every test that was run again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failure_text import LINES
from tests.reruns import FORGIVEN

ROOT = Path(__file__).parents[1]
PLUGINS = """
from tests import failure_text, reruns

def pytest_configure(config):
    reruns.REASONS = {r"test_one\\.py::test_listed": "it is listed"}
    for plugin in (failure_text, reruns.RerunJudge()):
        config.pluginmanager.register(plugin)
"""
PLUGIN_OPTIONS = ("-p", "xdist.plugin", "-p", "pytest_rerunfailures")
"""All others cost half of the time of such a run."""
SECOND_TRY = """
from pathlib import Path

def test_{name}():
    tried = Path(__file__).with_name("tried_{name}")
    if not tried.exists():
        tried.touch()
        raise AssertionError("too early")
"""


def second_try(name: str) -> str:
    """A test that passes when it is run again."""
    return SECOND_TRY.format(name=name)


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "test_one.py").write_text(text, encoding="utf-8")
    (folder / "conftest.py").write_text(PLUGINS, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN_OPTIONS, *options, "."]
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "CI": "1"}  # where pytest shortens nothing
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.returncode, ended.stdout


LONG = """
import pytest

BEFORE = "".join(f"line {n}\\n" for n in range(50_000))
AFTER = "".join(f"row {n}\\n" for n in range(50_000))

def deeper(depth):
    assert depth, "too deep\\n" * 500
    deeper(depth - 1)

def raises_twice():
    try:
        raise ValueError("first\\n" * 5_000)
    except ValueError as error:
        raise OSError("second\\n" * 5_000) from error

def test_texts():
    assert BEFORE + "x\\n" + AFTER == BEFORE + "y\\n" + AFTER

def test_lists():
    assert [*range(50_000), 1] == [*range(50_000), 2]

def test_message():
    raise AssertionError("wrong\\n" * 50_000)

def test_one_line():
    assert False, "x" * 500_000

def test_skipped_words():
    pytest.fail("no\\n" * 50_000, pytrace=False)

def test_depth():
    deeper(30)

def test_cause():
    raises_twice()
"""


def test_a_failure_is_printed_in_few_lines_however_long_its_texts(tmp_path: Path) -> None:
    code, said = run(tmp_path, LONG)
    assert code == 1
    assert "7 failed" in said
    _, *failures = re.split(r"^_+ test_\w+ _+$", said, flags=re.MULTILINE)
    frames = 31 * 2  # each has a line for its place, and one that parts it from the next
    assert [len(failure.splitlines()) for failure in failures if len(failure.splitlines()) > LINES + frames] == []
    assert len(said) < 100_000
    assert "- y" in failures[0]
    assert "row 0" in failures[0]


def test_of_what_a_failed_test_printed_beginning_and_end_are_shown(tmp_path: Path) -> None:
    _, said = run(tmp_path, "def test_it():\n    print(*range(50_000), sep='\\n')\n    assert False\n")
    assert len(said.splitlines()) < 2 * LINES
    assert "\n0\n1\n" in said
    assert "\n49998\n49999\n" in said


def test_a_short_failure_is_printed_as_it_is(tmp_path: Path) -> None:
    _, said = run(tmp_path, "def test_it():\n    assert [1, 2] == [1, 3]\n")
    assert "At index 1 diff: 2 != 3" in said
    assert "[…" not in said.partition("short test summary")[0]


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_run_passes_with_few_tests_that_were_run_again_and_names_them(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    text = "".join(second_try(f"early_{number}") for number in range(FORGIVEN))
    code, said = run(tmp_path, text, "--reruns", "1", *workers)
    assert code == 0
    assert f"{FORGIVEN} passed, {FORGIVEN} rerun" in said
    assert "test_one.py::test_early_0: no listed reason (tests/reruns.py)" in said
    assert "the run fails" not in said


def test_a_run_fails_with_more_of_them_but_listed_ones_do_not_count(tmp_path: Path) -> None:
    text = "".join(second_try(f"early_{number}") for number in range(FORGIVEN)) + second_try("listed")
    code, said = run(tmp_path, text, "--reruns", "1")
    assert code == 0
    assert "test_one.py::test_listed: it is listed" in said
    (tmp_path / "another").mkdir()
    code, said = run(tmp_path / "another", text + second_try("late"), "--reruns", "1")
    assert code == 1
    assert f"More than {FORGIVEN} without a listed reason, so the run fails." in said
