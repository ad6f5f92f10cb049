"""Objects of large libraries, each family in a process of a Python that has them, told by what is in them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kernel.matrix import python_with_libraries

FAMILIES = (
    *("places", "stores", "queries", "statistics", "boosters"),
    *("cells", "elements", "labelled", "spark", "networks"),
)
"""Those of heavy_libraries.py, which imports pandas."""
GOAL = 5.0
"""Milliseconds of CPU of a second look."""
_ANSWER = 180  # seconds; of these Spark takes thirty to start
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("heavy libraries"), pytest.mark.timeout(2000)]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_object_is_told_by_its_content_in_five_milliseconds_with_nothing_run_and_computed(family: str) -> None:
    if family == "spark" and shutil.which("java") is None:
        pytest.skip("Java is not installed here")
    name = "torch" if family == "networks" else "libraries"
    argv = [python_with_libraries(name), "-m", "tests.variables.heavy_libraries", family]
    # Workers of Spark are the same Python.
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": argv[0], "PYTHONWARNINGS": "default"}

    answer = subprocess.run(argv, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=_ANSWER, check=False)

    assert answer.returncode == 0, answer.stderr[-2000:]
    found = json.loads(answer.stdout)
    wrong = {of: one for of, one in found.items() if one["missing"] or one["ran"] or one["ms"] >= GOAL}
    assert wrong == {}
    assert len(found) >= 3
