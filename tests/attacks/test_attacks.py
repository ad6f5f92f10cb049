"""The runner of attacks: what it counts, what fails it, and the table that it prints."""

import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from tests.attacks import FAMILIES
from tests.attacks.verdicts import Verdicts, as_argument, table
from tests.patience import patient
from tests.tiers import further

ROOT = Path(__file__).parents[2]
WAIT = patient(60)  # seconds
pytestmark = pytest.mark.timeout(3 * WAIT)  # of at most two runs
CONFTEST = """
from tests.attacks import collection

def pytest_addoption(parser):
    collection.add_options(parser)

def pytest_configure(config):
    config.addinivalue_line("markers", "attack(family)")
    config.addinivalue_line("markers", "matrix")
    config.pluginmanager.register(collection)
"""
ATTACKS = """
import pytest

@pytest.mark.attack("paths")
@pytest.mark.parametrize("number", range(250))
def test_held(number):
    pass

@pytest.mark.attack("paths", always=True)
@pytest.mark.parametrize("number", range(3))
def test_always(number):
    pass

@pytest.mark.attack("gateway")
def test_several(attempts):
    attempts(["a", "b", "c"], ["b"])
    attempts(["d"], [])
    assert False

@pytest.mark.attack("gateway")
def test_through():
    assert False

@pytest.mark.attack("arming")
def test_left_out():
    pytest.skip("no page here")

@pytest.mark.attack("arming")
def test_broken(missing_fixture):
    pass

def test_is_none():
    pass
"""
RUN = """
import sys, pytest
from tests.attacks.verdicts import Verdicts, lines
verdicts = Verdicts()
pytest.main(["-q", "-p", "xdist.plugin", "-p", "no:cacheprovider", *sys.argv[1:]], [verdicts])
print(*lines(verdicts, ["paths", "gateway", "arming"]), sep="\\n")
print("passed" if verdicts.passed else "failed")
"""
FOUND = re.compile(r"found-3 S\d+|agent-3 A15")
ROWS = 18  # rows of such defects
MARK = re.compile(r'mark\.attack\("([^"]+)"')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_some.py").write_text(ATTACKS, encoding="utf-8")
    return tmp_path


def run(folder: Path, *options: str) -> list[str]:
    """Return what a run of these attacks printed. Other plugins take longer to load than the run."""
    command = [sys.executable, "-c", RUN, str(folder), f"--rootdir={folder}", *options]
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=WAIT, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("workers", [("-n", "2"), further(())])
def test_each_attempt_has_one_verdict_and_what_has_none_fails_the_run(folder: Path, workers: tuple[str, ...]) -> None:
    assert run(folder, "-m", "attack", *workers)[-7:] == [
        "paths: 253 tried, 253 held, 0 got through",
        "gateway: 5 tried, 3 held, 2 got through",
        "arming: 0 tried, 0 held, 0 got through",
        "  without a verdict, their setup failed: 1",
        "  left out: 1, because no page here",
        "attacks: 258 tried, 256 held, 2 got through",
        "failed",
    ]


def test_a_run_of_what_holds_passes(folder: Path) -> None:
    assert run(folder, "-m", "attack", "--family=paths")[-2:] == [
        "attacks: 253 tried, 253 held, 0 got through",
        "passed",
    ]


def test_make_test_runs_a_hundredth_of_each_and_the_same_one_each_time(folder: Path) -> None:
    first, second = (run(folder, "-m", "not matrix", "-k", "held or always or none", "-rp") for _ in range(2))
    ran = [line for line in first if line.startswith("PASSED ")]
    assert len(ran) == 2 + 3 + 1
    assert ran == [line for line in second if line.startswith("PASSED ")]


def test_a_run_of_what_holds_passes_and_a_worker_that_crashes_fails_it(folder: Path) -> None:
    chosen = ("-m", "attack", "--family=paths")
    assert run(folder, *chosen)[-2:] == ["attacks: 253 tried, 253 held, 0 got through", "passed"]
    (folder / "test_more.py").write_text(
        "import os, pytest\n\n@pytest.mark.attack('paths')\ndef test_ends():\n    os._exit(1)\n", encoding="utf-8"
    )
    assert run(folder, *chosen, "-n", "1", "--max-worker-restart=0")[-1] == "failed"


def test_an_unknown_family_fails_the_collection(folder: Path) -> None:
    (folder / "test_more.py").write_text("import pytest\n\n@pytest.mark.attack('x')\ndef test_it(): pass\n", "utf-8")
    assert any("families.toml does not have: ['x']" in line for line in run(folder, "-m", "attack"))


def test_the_table_of_the_docs_has_all_families_and_each_has_attacks() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    head, *rows, _ = table(Verdicts()).splitlines()
    described = [row.split(" | ")[:2] for row in rows[1:]]
    shown = [line.split(" | ")[:2] for line in page.partition(head)[2].strip().splitlines()[1 : len(FAMILIES) + 1]]
    assert shown == described, "python -m tests.attacks --table prints it"
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    assert {family for text in tests for family in MARK.findall(text)} >= FAMILIES.keys()
    assert len({as_argument(name) for name in FAMILIES}) == len(FAMILIES)


def test_each_defect_of_protections_that_was_found_has_a_requirement_and_a_test() -> None:
    entries = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text(encoding="utf-8"))["requirement"]
    rows: defaultdict[str, set[str]] = defaultdict(set)
    for entry in entries:
        if FOUND.fullmatch(entry["seed"]):
            rows[entry["seed"]].add(entry["id"])
    assert len(rows) >= ROWS
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert {row: ids for row, ids in rows.items() if not any(f'"{one}"' in text for one in ids)} == {}
