"""Every table of `benchmarks/` runs to its end, and exits 1 where an aim is missed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patient
from tests.tiers import further

ROOT = Path(__file__).parents[1]
TIME = patient(120.0)  # seconds of one table, on a machine that is busy
IN_BROWSER = frozenset({"bridge", "chart_pictures"})  # each starts a JupyterLab and a Chromium of its own
SLOW_TO_START = frozenset(
    {"copies", "decode", "gateway", "interrupt", "load", "mcp_calls", "questions", "streaming"}
)  # each starts several processes
TABLES = re.findall(r"[a-z_]+", re.findall(r"for table in ([a-z_ ]+);", (ROOT / "Makefile").read_text())[0])
ROW = re.compile(r"^.{62} *-?[\d,]+\.\d\d", re.MULTILINE)

pytestmark = pytest.mark.requirement("project.benchmarks.fail")


def run_table(name: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, f"benchmarks/{name}.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "BENCH_SMOKE": "1", **variables},
        capture_output=True,
        text=True,
        timeout=TIME,
        check=False,
    )


@pytest.mark.parametrize("name", [further(name) if name in IN_BROWSER | SLOW_TO_START else name for name in TABLES])
def test_a_table_runs_to_its_end_and_a_planted_miss_exits_1(name: str) -> None:
    done = run_table(name, BENCH_AIMS="-1")
    assert "MISSED" in done.stdout, done.stdout + done.stderr
    assert ROW.search(done.stdout)
    assert re.search(r"^\d+ of \d+ missed$", done.stdout, re.MULTILINE), done.stdout
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_every_table_is_run_by_make_bench() -> None:
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    tables = {name for name, text in sources.items() if "def main(" in text}
    assert tables == set(TABLES)
    assert {name for name in tables if "report(" in sources[name]} == tables


@pytest.mark.parametrize(
    ("rows", "smoke", "code"),
    [
        ("Row('a', 1.0, 1.0)", "", 0),
        ("Row('a', 1.01, 1.0), Row('b', 0.5, 1.0)", "", 1),
        ("Row('a', float('nan'), 1.0)", "", 1),
        ("Row('a', 1.0)", "", 1),  # nothing is judged
        ("Row('a', 9.0, 1.0)", "1", 0),
    ],
)
def test_the_verdict_is_the_exit_code(rows: str, smoke: str, code: int) -> None:
    program = f"import sys; from benchmarks.report import Row, report; sys.exit(report([{rows}]))"
    variables = {**os.environ, "BENCH_SMOKE": smoke}
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=variables, timeout=TIME, check=False).returncode
        == code
    )
