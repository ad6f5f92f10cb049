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
DEAR = frozenset(
    {
        "copies",  # a kernel and a session, each copy of it warm once more
        "decode",  # 14 processes, each with the imports of a client
        "gateway",  # five servers, two of them with all imports of `vibe-jupyter serve`
        "interrupt",  # a kernel as users start it
        "load",  # ten processes, each a shell as users start it
        "mcp_calls",  # four servers written with the SDK
        "questions",  # three sessions
        "streaming",  # a kernel as users start it
    }
)
"""Tables of which each costs 3 to 10 s of CPU at any size, since what it measures are whole processes."""
TABLES = re.findall(r"[a-z_]+", re.findall(r"for table in ([a-z_ ]+);", (ROOT / "Makefile").read_text())[0])
ROW = re.compile(r"^.{62} *-?[\d,]+\.\d\d", re.MULTILINE)

pytestmark = pytest.mark.requirement("project.benchmarks.fail")


def run_table(name: str, folder: Path, **variables: str) -> tuple[int, str, str]:
    """Return the exit code and what was printed, in files: servers that outlive the table would hold a pipe open."""
    said, complained = folder / "stdout", folder / "stderr"
    with said.open("wb") as out, complained.open("wb") as err:
        done = subprocess.run(
            [sys.executable, f"benchmarks/{name}.py"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "BENCH_SMOKE": "1", **variables},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            timeout=TIME,
            check=False,
        )
    return done.returncode, said.read_text(encoding="utf-8"), complained.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [further(name) if name in IN_BROWSER | DEAR else name for name in TABLES])
def test_a_table_runs_to_its_end_and_a_planted_miss_exits_1(name: str, tmp_path: Path) -> None:
    code, said, complained = run_table(name, tmp_path, BENCH_AIMS="-1")
    assert "MISSED" in said, said + complained
    assert ROW.search(said)
    assert re.search(r"^\d+ of \d+ missed$", said, re.MULTILINE), said
    assert code == 1
    assert "Traceback" not in complained


def test_every_table_is_run_by_make_bench() -> None:
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    tables = {name for name, text in sources.items() if re.search("^def main\\(", text, re.MULTILINE)}
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
