"""A skipped test fails the run, unless its reason is listed; what is left out is named at the end."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(folder: Path, text: str) -> tuple[int, str]:
    (folder / "test_one.py").write_text(f"import pytest\n\n{text}", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.left_out", "."]
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.returncode, ended.stdout


@pytest.mark.parametrize(
    "text",
    [
        "def test_it():\n    pytest.skip('ripgrep is not installed')\n",
        "@pytest.mark.skipif(True, reason='slow')\ndef test_it():\n    pass\n",
        "pytest.importorskip('no_such_module_here')\n\ndef test_it():\n    pass\n",
        "@pytest.mark.parametrize('case', [])\ndef test_it(case):\n    pass\n",
    ],
)
def test_a_test_left_out_for_a_reason_nobody_listed_fails_the_run(tmp_path: Path, text: str) -> None:
    code, said = run(tmp_path, text)
    assert code != 0
    assert "no listed reason (tests/left_out.py)" in said


def test_a_test_left_out_for_a_listed_reason_is_named_with_it_at_the_end(tmp_path: Path) -> None:
    code, said = run(tmp_path, "def test_it():\n    pytest.skip('this file system has no attributes')\n")
    assert code == 0
    assert (
        "left out: 1 because this file system has no attributes (there are none to keep)\n  test_one.py::test_it"
        in said
    )


def test_an_expected_failure_is_no_test_left_out(tmp_path: Path) -> None:
    code, _ = run(tmp_path, "@pytest.mark.xfail\ndef test_it():\n    assert False\n")
    assert code == 0
